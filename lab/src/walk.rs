//! How an address becomes memory: the walk through the page table, as an x86-64 processor makes it, and what the kernel
//! says about the pages behind an address.
//!
//! ```
//! use fullbore_lab::walk::{Decoded, Leaf, Levels, Place};
//!
//! let decoded = Decoded::of(0x0000_f270_5af9_53c0, Levels::Four, Leaf::Small);
//! let indexes: Vec<_> = decoded.fields.iter().map(|f| (f.name, f.value)).collect();
//! assert_eq!(indexes[1..], [("PGD", 484), ("PUD", 449), ("PMD", 215), ("PTE", 405), ("offset", 960)]);
//! // Bit 47 is set, and the bits above it are not: no such address exists with four levels, but one does with five.
//! assert_eq!(decoded.place(), Place::NotCanonical);
//! assert_eq!(Decoded::of(decoded.address, Levels::Five, Leaf::Small).place(), Place::User);
//! ```
//!
//! Nothing here asks the system: [`crate::walk::pagemap`] does.

mod address;
mod address_svg;
mod entry;
pub mod pagemap;
mod picture;
pub mod walk_document;

pub use address::{Decoded, Field, Leaf, Levels, Place, parse_address, verdict};
pub use address_svg::draw as svg;
pub(crate) use entry::compound;
pub use entry::{Entry, Mapping, flag_names};
pub use picture::draw as picture;
