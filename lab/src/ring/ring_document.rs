//! The steps as a document.

use serde::Serialize;

use super::{Part, Pipe, Slot, StepResult, Which};

/// Name and version of the form of the steps.
pub const SCHEMA: &str = "fullbore.ring/1";

/// What a script did to both rings.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RingDocument {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of Fullbore.
    pub version: &'static str,
    /// Bytes in a page.
    pub page_size: usize,
    /// One for each call.
    pub steps: Vec<StepDocument>,
}

/// One call, and what it left.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StepDocument {
    /// The call.
    #[serde(rename = "do")]
    pub call: String,
    /// What it did, in a sentence.
    pub sentence: String,
    /// Bytes asked for.
    pub asked: usize,
    /// Bytes moved; of `resize` the capacity granted.
    pub moved: usize,
    /// Name of the error, where nothing was moved.
    pub refused: Option<&'static str>,
    /// What became of each slot concerned.
    pub parts: Vec<Part>,
    /// The first pipe afterwards.
    pub first: RingState,
    /// The second pipe afterwards.
    pub second: RingState,
}

/// A ring.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RingState {
    /// Slots, free and in use.
    pub slots: usize,
    /// Counter of what was written, in slots.
    pub head: u32,
    /// Counter of what was read, in slots.
    pub tail: u32,
    /// Bytes in it, as `FIONREAD` says.
    pub fionread: usize,
    /// Bytes of capacity, as `F_GETPIPE_SZ` says.
    pub capacity: usize,
    /// Whether no slot is left.
    pub full: bool,
    /// The slots in use, oldest first.
    pub used: Vec<UsedSlot>,
}

/// A slot in use.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UsedSlot {
    /// Its place in the array.
    pub place: usize,
    /// What it refers to.
    #[serde(flatten)]
    pub slot: Slot,
}

impl RingDocument {
    /// Of these steps, on pages of so many bytes.
    pub fn new(page_size: usize, steps: &[StepResult]) -> Self {
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            page_size,
            steps: steps.iter().map(StepDocument::of).collect(),
        }
    }
}

impl StepDocument {
    fn of(result: &StepResult) -> Self {
        Self {
            call: result.step.to_string(),
            sentence: result.sentence.clone(),
            asked: result.outcome.asked,
            moved: result.outcome.moved,
            refused: result.outcome.refusal.map(|r| r.errno()),
            parts: result.outcome.parts.clone(),
            first: RingState::of(result.pipes.pipe(Which::First)),
            second: RingState::of(result.pipes.pipe(Which::Second)),
        }
    }
}

impl RingState {
    fn of(pipe: &Pipe) -> Self {
        Self {
            slots: pipe.slots().len(),
            head: pipe.head(),
            tail: pipe.tail(),
            fionread: pipe.bytes(),
            capacity: pipe.capacity(),
            full: pipe.is_full(),
            used: pipe
                .in_order()
                .map(|(place, &slot)| UsedSlot { place, slot })
                .collect(),
        }
    }
}
