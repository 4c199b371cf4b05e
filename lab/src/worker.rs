//! What runs in the processes of a trial, and how they get their orders and report.

pub(crate) mod conduit;
pub mod config;
pub(crate) mod crew;
pub(crate) mod failure;
pub(crate) mod files;
pub(crate) mod memory_loops;
pub(crate) mod one_byte;
pub mod page_faults;
pub mod pair;
pub mod reader;
pub mod round_trip;
pub mod sequence;
pub mod side;
pub(crate) mod stream;
pub(crate) mod timing;
pub mod trial;
pub(crate) mod wire;
pub(crate) mod work;
pub mod writer;
