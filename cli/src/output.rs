//! What commands print and save.

pub(crate) mod conditions;
pub(crate) mod csv;
pub(crate) mod failure;
pub(crate) mod file;
pub(crate) mod quote;
pub(crate) mod saved;
pub(crate) mod session;
pub(crate) mod style;
pub(crate) mod table;
