//! What every document of ours begins with, whatever was measured.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Which document this is, and of which machine; its fields stand among those of the document itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Head {
    /// Name and version of the form, such as [`crate::ladder::run::SCHEMA`].
    pub schema: String,
    /// Version of Fullbore.
    pub version: String,
    /// Start, in seconds since 1970 UTC.
    pub started_unix_s: u64,
    /// What the owner wants to say about the machine.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub label: Option<String>,
    /// The machine's kind.
    pub machine: Machine,
}

impl Head {
    /// Of what begins now.
    pub fn new(schema: &str, label: Option<String>, machine: Machine) -> Self {
        Self {
            schema: schema.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix_s: crate::sys::unix_s(),
            label,
            machine,
        }
    }
}
