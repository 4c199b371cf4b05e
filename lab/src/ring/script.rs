//! What may be asked of the rings, as people write it: `write 5000; read 1000; second read 4K; splice 2`.

use std::fmt;
use std::str::FromStr;

use fullbore_sys::size::Size;
use fullbore_sys::{Error, Result};
use serde::Serialize;

use super::MOST_SLOTS;

/// One of the two pipes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Which {
    /// The one that the story is about.
    #[default]
    First,
    /// The one that `splice` and `tee` fill.
    Second,
}

impl Which {
    /// The one that is not this.
    pub fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// How much `splice`, `tee` and `resize` are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many slots, as they are when the call is made.
    Slots(usize),
    /// So many bytes.
    Bytes(usize),
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `write(2)` of so many bytes.
    Write(usize),
    /// `read(2)` of at most so many bytes.
    Read(usize),
    /// `vmsplice(2)` of memory that begins at `offset` in a page.
    Vmsplice {
        /// Bytes.
        len: usize,
        /// Bytes from the beginning of the page.
        offset: usize,
    },
    /// `splice(2)` to the other pipe.
    Splice(Amount),
    /// `tee(2)` to the other pipe.
    Tee(Amount),
    /// So many fat slots: 32 KiB each through a socket and an empty pipe, so that none is broken.
    Fat(usize),
    /// `F_SETPIPE_SZ`.
    Resize(Amount),
}

/// A call on one of the two pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The pipe that is written to, read from or changed; with `splice` and `tee` the one that they take from.
    pub on: Which,
    /// The call.
    pub op: Op,
}

/// Calls, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script(pub Vec<Step>);

const KNOWN: &str = "use write N, read N, vmsplice N [at OFFSET], splice N, tee N, fat N or resize N; splice, tee, fat and \
    resize count slots (bytes with a unit: splice 1000B, tee 8K, resize 64K); a leading `second` is about the second pipe";

fn wrong(step: &str, why: impl Into<String>) -> Error {
    Error::new(format!("step `{step}`"), why, KNOWN)
}

impl FromStr for Script {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let steps = text
            .split([';', '\n'])
            .map(str::trim)
            .filter(|step| !step.is_empty())
            .map(str::parse)
            .collect::<Result<Vec<_>>>()?;
        if steps.is_empty() {
            return Err(Error::new("no steps", "there is nothing to draw", KNOWN));
        }
        Ok(Self(steps))
    }
}

impl FromStr for Step {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut words = text.split_whitespace().peekable();
        let on = match words.next_if(|word| *word == "second") {
            Some(_) => Which::Second,
            None => Which::First,
        };
        let verb = words
            .next()
            .ok_or_else(|| wrong(text, "it names no call"))?;
        if !VERBS.contains(&verb) {
            return Err(wrong(text, format!("there is no call `{verb}`")));
        }
        let number = words
            .next()
            .ok_or_else(|| wrong(text, format!("`{verb}` needs a number")))?;
        let amount = amount(number).map_err(|why| wrong(text, why))?;
        let bytes = match amount {
            Amount::Slots(n) | Amount::Bytes(n) => n,
        };
        let mut offset = 0;
        if verb == "vmsplice" && words.next_if(|word| *word == "at").is_some() {
            offset = words
                .next()
                .ok_or_else(|| wrong(text, "`at` needs an offset in bytes"))
                .and_then(|word| size(word).map_err(|why| wrong(text, why)))?;
        }
        if let Some(word) = words.next() {
            return Err(wrong(
                text,
                format!("nobody knows what `{word}` means there"),
            ));
        }
        if matches!((verb, amount), ("resize", Amount::Slots(n)) if n > MOST_SLOTS)
            || matches!((verb, amount), ("resize", Amount::Bytes(n)) if n > MOST_SLOTS * 4096)
        {
            let why = format!("a ring of more than {MOST_SLOTS} slots is not drawn");
            return Err(wrong(text, why));
        }
        let op = match (verb, amount) {
            ("write", _) => Op::Write(bytes),
            ("read", _) => Op::Read(bytes),
            ("vmsplice", _) => Op::Vmsplice { len: bytes, offset },
            ("splice", amount) => Op::Splice(amount),
            ("tee", amount) => Op::Tee(amount),
            ("resize", amount) => Op::Resize(amount),
            (_, Amount::Slots(slots)) => Op::Fat(slots),
            (_, Amount::Bytes(_)) => {
                return Err(wrong(text, "fat slots are counted; each has 32 KiB"));
            }
        };
        Ok(Self { on, op })
    }
}

const VERBS: [&str; 7] = [
    "write", "read", "vmsplice", "splice", "tee", "fat", "resize",
];

/// More in one step helps nobody to see anything.
const MOST: usize = 1 << 30;

/// A bare number counts slots where slots can be meant.
fn amount(text: &str) -> std::result::Result<Amount, String> {
    let number = size(text)?;
    Ok(match text.bytes().all(|b| b.is_ascii_digit()) {
        true => Amount::Slots(number),
        false => Amount::Bytes(number),
    })
}

fn size(text: &str) -> std::result::Result<usize, String> {
    let Size(bytes) = text
        .parse()
        .map_err(|_| format!("`{text}` is not a number such as 5000, 1000B or 64K"))?;
    usize::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes <= MOST)
        .ok_or_else(|| format!("`{text}` is more than a step can move (1G)"))
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots(n) => write!(f, "{n}"),
            Self::Bytes(n) => write!(f, "{n}B"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.on == Which::Second {
            f.write_str("second ")?;
        }
        match self.op {
            Op::Write(n) => write!(f, "write {n}"),
            Op::Read(n) => write!(f, "read {n}"),
            Op::Vmsplice { len, offset: 0 } => write!(f, "vmsplice {len}"),
            Op::Vmsplice { len, offset } => write!(f, "vmsplice {len} at {offset}"),
            Op::Splice(n) => write!(f, "splice {n}"),
            Op::Tee(n) => write!(f, "tee {n}"),
            Op::Fat(n) => write!(f, "fat {n}"),
            Op::Resize(n) => write!(f, "resize {n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bare_numbers_count_slots_where_slots_can_be_meant() {
        let step = |text: &str| text.parse::<Step>().unwrap().op;
        assert_eq!(step("write 5000"), Op::Write(5000));
        assert_eq!(step("write 4K"), Op::Write(4096));
        assert_eq!(step("splice 2"), Op::Splice(Amount::Slots(2)));
        assert_eq!(step("tee 1000B"), Op::Tee(Amount::Bytes(1000)));
        assert_eq!(step("resize 64K"), Op::Resize(Amount::Bytes(65536)));
        let (len, offset) = (8192, 100);
        assert_eq!(step("vmsplice 8K at 100"), Op::Vmsplice { len, offset });
        assert_eq!(
            "second read 7".parse::<Step>().unwrap(),
            Step {
                on: Which::Second,
                op: Op::Read(7)
            }
        );
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (text, word) in [
            ("wrote 5", "`wrote`"),
            ("write", "`write` needs a number"),
            ("write much", "`much`"),
            ("write 5 6", "`6`"),
            ("write 5 at 6", "`at`"),
            ("vmsplice 5 at", "`at`"),
            ("second", "names no call"),
            ("fat 32K", "counted"),
            ("write 2G", "`2G`"),
            ("write -1", "`-1`"),
            ("; ;", "nothing to draw"),
        ] {
            let error = text.parse::<Script>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
            assert!(error.contains("vmsplice N [at OFFSET]"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused_without_panic(text in "[a-z0-9; KM]{0,40}") {
            let _ = text.parse::<Script>();
        }

        #[test]
        fn a_step_that_was_understood_reads_back(
            verb in prop::sample::select(&VERBS), n in 0..70_000_usize, second: bool, unit in prop::sample::select(&["", "B"]),
        ) {
            let text = format!("{}{verb} {n}{unit}", if second { "second " } else { "" });
            if let Ok(step) = text.parse::<Step>() {
                prop_assert_eq!(step.to_string().parse::<Step>().unwrap(), step);
            }
        }
    }
}
