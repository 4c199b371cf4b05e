//! The tools: commands that move bytes.

pub(crate) mod cat;
pub(crate) mod fallbacks;
pub(crate) mod fizzbuzz;
pub(crate) mod stand_in;
pub(crate) mod tee;
pub(crate) mod view;
pub(crate) mod yes;
