//! What may be typed: values and options that several commands share, and names of saved runs.

pub(crate) mod pair;
pub(crate) mod rungs;
pub(crate) mod runs;
pub(crate) mod values;
