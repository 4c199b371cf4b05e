//! The saved form of runs: what all of them begin with, and how they are read.

pub(crate) mod by_name;
pub mod head;
pub mod load;
#[cfg(test)]
pub(crate) mod schema;
