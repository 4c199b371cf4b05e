//! A pipe's ring of slots as the kernel keeps it, without the kernel.
//!
//! ```
//! use fullbore_lab::ring::{Pipes, Script};
//!
//! let script: Script = "write 5000; read 1000; write 4096; splice 2".parse()?;
//! let steps = Pipes::new(4096, 8).run(&script);
//! assert_eq!(steps[0].sentence, "two slots, 4096 + 904 bytes; the second may be merged into");
//! assert_eq!(steps[3].outcome.moved, 4000);
//! # Ok::<(), fullbore_sys::Error>(())
//! ```
//!
//! A pipe is an array of slots, a power of two, and two counters that never wrap back: what is written goes in at `head`, what
//! is read comes out at `tail`, and `counter & (slots - 1)` is the place in the array. A slot refers to a page and says
//! where in it the data lie. A pipe is full when it has no slot left, however few bytes the slots hold.
//!
//! Modelled after `fs/pipe.c` (`anon_pipe_write`, `anon_pipe_read`, `pipe_resize_ring`) and `fs/splice.c` (`iter_to_pipe`,
//! `splice_pipe_to_pipe`, `link_pipe`), for calls that do not block, and checked on Linux 6.18. Left out: packets (`O_DIRECT`), the
//! notification queue, ends that were closed, and what a user may have (`fs.pipe-max-size`). `tests/ring.rs` holds the model to
//! the real kernel.

mod layout;
mod model;
pub mod ring_document;
mod script;
mod slots_svg;
mod step_result;

pub use layout::{Row, rows};
pub use model::{Outcome, Page, Part, Pipe, Pipes, Refusal, Slot, What};
pub use script::{Amount, Op, Script, Step, Which};
pub use slots_svg::draw as svg;
pub use step_result::{StepResult, state};

/// Bytes of a fat slot: what one send of exactly so many on an AF_UNIX stream becomes.
pub const FAT: usize = fullbore_sys::write::fat::FRAGMENT;

/// Most slots that a script may ask for. Without privilege `fs.pipe-max-size` allows 256 by default.
pub const MOST_SLOTS: usize = 1 << 16;
