//! What this machine moves per second, column by column, as lmbench's table of 2005 has it; and conduits: a pipe as the
//! buffer between two descriptors, with and without copies.
//!
//! The path: [`mod@column`] (what there is to measure, as data) → [`measuring`] (a trial of each) → `summary` (what they all
//! say) → [`result`] (how it is saved).
//!
//! What is the same as in lmbench 3 and what differs stands in `docs/method.md`.

mod buffer_size;
pub mod column;
pub mod measuring;
pub mod result;
mod summary;
pub mod year_2005;
