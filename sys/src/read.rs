//! Ways out of a pipe.

pub mod discard;
pub mod relay;
