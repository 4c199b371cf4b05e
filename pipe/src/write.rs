//! Ways into a pipe.

pub mod constant;
pub mod fat;
pub mod fresh;
pub mod recycle;
