//! Where every nanosecond per page goes: both sides of a pair are sampled while they run, and each sample is put down to
//! a cause.

pub mod cause;
pub mod result;
