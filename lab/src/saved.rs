//! The saved form of runs: what all of them begin with, and how they are read.

pub(crate) mod by_name;
#[cfg(test)]
mod fits;
pub mod head;
pub mod list;
pub mod load;
#[cfg(test)]
pub(crate) mod schema;
