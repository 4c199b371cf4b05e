//! A decoded address, and pages that were looked at, as documents.

use fullbore_sys::pages::PageKind;
use serde::Serialize;

use super::pagemap::Look;
use super::{Decoded, Field, Levels, Place, verdict};

/// Name and version of the form of a decoded address.
pub const SCHEMA: &str = "fullbore.walk/1";
/// Name and version of the form of pages that were looked at.
pub const PAGES_SCHEMA: &str = "fullbore.walk-pages/1";

/// A decoded address.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WalkDocument {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of Fullbore.
    pub version: &'static str,
    /// The processors that walk like this.
    pub paging: &'static str,
    /// The address.
    pub address: u64,
    /// Levels of the page table.
    pub levels: u32,
    /// Bytes of the page that the walk ends at.
    pub page_bytes: u64,
    /// Where the address lies.
    pub place: Place,
    /// Where it would lie with five levels instead of four, or four instead of five.
    pub place_with_other_levels: Place,
    /// The same in a sentence.
    pub verdict: String,
    /// Its bits, from the highest down.
    pub fields: Vec<Field>,
}

impl From<Decoded> for WalkDocument {
    fn from(decoded: Decoded) -> Self {
        let (address, leaf) = (decoded.address, decoded.leaf);
        let other = match decoded.levels {
            Levels::Four => Levels::Five,
            Levels::Five => Levels::Four,
        };
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            paging: "x86-64",
            address,
            levels: decoded.levels.count(),
            page_bytes: 1 << leaf.bits(),
            place: decoded.place(),
            place_with_other_levels: Decoded::of(address, other, leaf).place(),
            verdict: verdict(address),
            fields: decoded.fields,
        }
    }
}

/// Pages that were looked at.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PagesDocument {
    /// [`PAGES_SCHEMA`].
    pub schema: &'static str,
    /// Version of Fullbore.
    pub version: &'static str,
    /// Kind of pages of a buffer that was made to be looked at.
    pub pages_asked_for: Option<String>,
    /// The process, where it is another one.
    pub pid: Option<u32>,
    /// What could be seen.
    #[serde(flatten)]
    pub look: Look,
}

impl PagesDocument {
    /// Of a buffer of this kind of pages, or of another process.
    pub fn new(kind: Option<PageKind>, pid: Option<u32>, look: Look) -> Self {
        Self {
            schema: PAGES_SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            pages_asked_for: kind.map(|kind| kind.to_string()),
            pid,
            look,
        }
    }
}
