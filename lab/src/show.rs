//! How text, numbers and shades look to a reader, on a terminal and on a page: one way for all commands.

pub mod escape;
pub mod number;
pub mod shade;
pub mod wrap;
