//! Linux pipes at full bore.
//!
//! Building blocks to move bytes through a pipe as fast as the kernel allows: memory that can be lent to a pipe
//! ([`pages`]), ways in ([`write`](mod@write)), ways out ([`read`](mod@read)), capacity, and how to wait.
#![warn(missing_docs)]

pub mod capacity;
pub mod error;
pub mod pages;
pub mod probe;
pub mod read;
pub mod size;
pub mod sys;
pub mod wait;
pub mod write;
pub mod writer;

pub use error::{Error, Result};
pub use write::constant::Constant;
pub use writer::{PipeWriter, stdout};
