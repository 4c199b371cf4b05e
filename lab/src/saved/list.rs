//! A list of saved runs as a document.

use std::path::PathBuf;

use serde::Serialize;

/// Name and version of the form of a list.
pub const SCHEMA: &str = "fullbore.runs/1";

/// Saved runs, newest first.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunList {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of Fullbore.
    pub version: &'static str,
    /// The runs.
    pub runs: Vec<ListedRun>,
}

/// A saved run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListedRun {
    /// `last`, `last~1`: what names it, among its kind.
    pub name: String,
    /// What was measured: `ladder`, `sweep` and so on.
    pub kind: String,
    /// When it began, as its directory says it: UTC.
    pub started: String,
    /// Kernel and CPU.
    pub machine: String,
    /// What its owner wants to say about the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Rungs, columns or cells.
    pub measured: String,
    /// The file.
    pub file: PathBuf,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl From<Vec<ListedRun>> for RunList {
    fn from(runs: Vec<ListedRun>) -> Self {
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            runs,
        }
    }
}
