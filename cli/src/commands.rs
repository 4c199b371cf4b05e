//! The commands of the lab.

pub(crate) mod bandwidth;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod gup;
pub(crate) mod ladder;
pub(crate) mod pair_output;
pub(crate) mod profile;
pub(crate) mod read;
pub(crate) mod report;
pub(crate) mod ring;
pub(crate) mod sweep;
pub(crate) mod walk;
pub(crate) mod write;
