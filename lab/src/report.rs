//! Charts and a page of saved runs. Pure: takes runs, gives text.
//!
//! Text and numbers of a run come from whoever made the file. Every text goes through `text::safe` and the escaping of the
//! templates; every number that is drawn is first checked to be finite and positive.

mod bandwidth_chart;
mod bars;
mod causes;
mod chart;
mod commands;
pub(crate) mod font;
mod heat;
mod ladder_chart;
mod page;
mod samples;
mod sections;
mod text;

pub use bandwidth_chart::{bandwidth, latency};
pub use causes::{Part, causes, parts};
pub use chart::{Chart, Layout};
pub use commands::command;
pub use heat::sweep;
pub use ladder_chart::{in_words, ladder, machine_line};
pub use page::page;
