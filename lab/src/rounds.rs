//! When each trial runs.

pub mod plan;
