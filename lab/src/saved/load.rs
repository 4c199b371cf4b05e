//! Reads saved runs of every kind and version, whoever wrote them: what a file says is checked before anyone relies on it.
//!
//! Nothing of a file is kept but what has a place in a run: unknown fields are passed over, and what is too much for any run
//! is refused first.

mod older;
mod survey;

use std::fmt;

use fullbore_sys::{Error, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::head::Head;
use crate::bandwidth::{
    self,
    result::{BandwidthRun, ColumnResult},
};
use crate::ladder::run::{self, Run};
use crate::profile::profiled::{Profile, RungProfile};
use crate::show::escape::shown;
use crate::sweep::{self, Sweep};

/// A saved run.
#[derive(Clone, Debug)]
pub enum Saved {
    /// `fullbore ladder`.
    Ladder(Box<Run>),
    /// `fullbore profile`.
    Profile(Box<Profile>),
    /// `fullbore sweep`.
    Sweep(Box<Sweep>),
    /// `fullbore bandwidth`.
    Bandwidth(Box<BandwidthRun>),
}

/// What kind of run was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `fullbore ladder`.
    Ladder,
    /// `fullbore profile`.
    Profile,
    /// `fullbore sweep`.
    Sweep,
    /// `fullbore bandwidth`.
    Bandwidth,
}

impl Kind {
    /// Every kind, with the name and version of its newest form.
    pub const ALL: [(Self, &str); 4] = [
        (Self::Ladder, run::SCHEMA),
        (Self::Profile, crate::profile::profiled::SCHEMA),
        (Self::Sweep, sweep::SCHEMA),
        (Self::Bandwidth, bandwidth::result::SCHEMA),
    ];

    fn schema(self) -> &'static str {
        let found = Self::ALL.iter().find(|(kind, _)| *kind == self);
        found.map_or("", |(_, schema)| schema)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.schema().strip_prefix(PREFIX).unwrap_or_default();
        f.pad(name.split_once('/').map_or(name, |(name, _)| name))
    }
}

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let known = Self::ALL.map(|(kind, _)| kind);
        let found = known.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| {
            let names = known.map(|kind| kind.to_string()).join(", ");
            format!("no such kind of run; use one of {names}")
        })
    }
}

const PREFIX: &str = "fullbore.";

impl Saved {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Ladder(_) => Kind::Ladder,
            Self::Profile(_) => Kind::Profile,
            Self::Sweep(_) => Kind::Sweep,
            Self::Bandwidth(_) => Kind::Bandwidth,
        }
    }

    /// What it begins with. The label may hold anything: see [`shown`].
    pub fn head(&self) -> &Head {
        match self {
            Self::Ladder(run) => &run.head,
            Self::Profile(profile) => &profile.head,
            Self::Sweep(sweep) => &sweep.head,
            Self::Bandwidth(run) => &run.head,
        }
    }
}

/// Reads one saved run.
///
/// # Errors
/// `what: why; what to do`, safe to print: not JSON (cut short, say), not a run of ours, of a newer version, a field
/// that is missing or of the wrong type, a number that cannot be one.
pub fn load(text: &str) -> Result<Saved> {
    load_named("the saved run", text.as_bytes())
}

/// [`load`] of a run that has a name, which errors then begin with.
///
/// # Errors
/// As [`load`].
pub fn load_named(name: &str, text: &[u8]) -> Result<Saved> {
    parse(text).map_err(|Bad(why, what_to_do)| {
        Error::new(format!("{} cannot be read", shown(name)), why, what_to_do)
    })
}

/// Why a text is no saved run, and what to do about it.
struct Bad(String, &'static str);

fn parse(text: &[u8]) -> std::result::Result<Saved, Bad> {
    let (survey, walked) = survey::survey(text);
    if survey.too_large {
        return Err(foreign("it is larger than any saved run".to_owned()));
    }
    walked.map_err(not_json)?;
    let no_schema = || foreign("it has no \"schema\": \"fullbore.…\"".to_owned());
    let (kind, version) = kind_of(&survey.schema.ok_or_else(no_schema)?)?;
    survey.bad_number.map_or(Ok(()), Err)?;
    Ok(match kind {
        Kind::Ladder if version > 1 => Saved::Ladder(typed::<_, RungParts>(kind, text)?),
        Kind::Ladder => {
            let mut run: Box<Run> = typed::<_, RungParts>(kind, text)?;
            older::complete_ladder(&mut run);
            Saved::Ladder(run)
        }
        Kind::Profile => Saved::Profile(typed::<_, ProfileParts>(kind, text)?),
        Kind::Sweep if version == 1 => {
            let text = older::without_apart(text).map_err(not_json)?;
            let mut sweep: Box<Sweep> = typed::<_, CellParts>(kind, &text)?;
            older::sum_up_sweep(&mut sweep);
            Saved::Sweep(sweep)
        }
        Kind::Sweep => Saved::Sweep(typed::<_, CellParts>(kind, text)?),
        Kind::Bandwidth => {
            let mut run: Box<BandwidthRun> = typed::<_, ColumnParts>(kind, text)?;
            older::complete_bandwidth(&mut run);
            Saved::Bandwidth(run)
        }
    })
}

fn not_json(e: serde_json::Error) -> Bad {
    if e.is_eof() {
        return Bad(
            "it ends in the middle: it was cut short".to_owned(),
            "copy it again, or use another run",
        );
    }
    Bad(
        format!("it is not JSON: {}", shown(&e.to_string())),
        "name a run.json that fullbore saved",
    )
}

fn foreign(why: String) -> Bad {
    Bad(why, "name a run.json that fullbore saved")
}

fn kind_of(schema: &str) -> std::result::Result<(Kind, u32), Bad> {
    for (kind, ours) in Kind::ALL {
        let (name, newest) = ours.split_once('/').unwrap_or((ours, ""));
        let Some(version) = schema.strip_prefix(name).and_then(|s| s.strip_prefix('/')) else {
            continue;
        };
        return match (version.parse::<u32>(), newest.parse::<u32>()) {
            (Ok(version), Ok(newest)) if (1..=newest).contains(&version) => Ok((kind, version)),
            (Ok(version), Ok(newest)) if version > newest => Err(Bad(
                format!(
                    "its form is {} and this version of fullbore knows {ours}",
                    shown(schema)
                ),
                "use a newer fullbore",
            )),
            _ => Err(foreign(format!("no form {} was ever saved", shown(schema)))),
        };
    }
    let known = Kind::ALL.map(|(_, schema)| schema).join(", ");
    Err(foreign(format!(
        "its form is {}, and this version of fullbore knows {known}",
        shown(schema)
    )))
}

/// The results of each kind, without what serde joins with them: see [`typed`].
#[derive(Deserialize)]
struct RungParts {
    #[serde(rename = "rungs")]
    _rungs: Vec<run::RungResult>,
}

#[derive(Deserialize)]
struct ProfileParts {
    #[serde(rename = "rungs")]
    _rungs: Vec<RungProfile>,
}

#[derive(Deserialize)]
struct CellParts {
    #[serde(rename = "cells")]
    _cells: Vec<sweep::Cell>,
}

#[derive(Deserialize)]
struct ColumnParts {
    #[serde(rename = "columns")]
    _columns: Vec<ColumnResult>,
}

fn typed<T: DeserializeOwned, P: DeserializeOwned>(
    kind: Kind,
    text: &[u8],
) -> std::result::Result<Box<T>, Bad> {
    placed(kind, text).map(Box::new).map_err(|bad| {
        // Of a field that is wrong in a part that is joined with another one (`flatten`), the whole document cannot say which.
        let of_part = placed::<Head>(kind, text).err();
        of_part
            .or_else(|| placed::<P>(kind, text).err())
            .unwrap_or(bad)
    })
}

fn placed<T: DeserializeOwned>(kind: Kind, text: &[u8]) -> std::result::Result<T, Bad> {
    let mut json = serde_json::Deserializer::from_slice(text);
    serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let path = match e.path().to_string() {
            path if path == "." => String::new(),
            path => format!(" at {}", shown(&path)),
        };
        Bad(
            format!(
                "it is not {}{path}: {}",
                kind.schema(),
                shown(&e.inner().to_string())
            ),
            "it was damaged or changed: use another run",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// A run that an earlier version saved, and that every later one must read.
    const OLD: &str = include_str!("../../tests/data/ladder.json");

    fn error(text: &str) -> String {
        load(text).unwrap_err().to_string()
    }

    fn changed(change: impl FnOnce(&mut Value)) -> String {
        let mut document = serde_json::from_str(OLD).unwrap();
        change(&mut document);
        error(&document.to_string())
    }

    #[test]
    fn run_of_an_earlier_version_is_read() {
        let saved = load(OLD).unwrap();
        assert_eq!(saved.kind(), Kind::Ladder);
        assert_eq!(saved.head().label.as_deref(), Some("2-CPU KVM guest"));
        let Saved::Ladder(run) = saved else {
            panic!("not a ladder");
        };
        assert_eq!(run.rungs[0].id, "write-read");
        assert!(run.rungs.iter().all(|r| r.gib_per_s.is_some()));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_place() {
        assert!(error(&OLD[..OLD.len() / 2]).contains("cut short"));
        assert!(error("").contains("cut short"));
        assert!(error("#!/bin/sh").contains("not JSON"));
        assert!(error("{}").contains("has no \"schema\""));
        assert!(error("[1]").contains("has no \"schema\""));
        let newer = changed(|d| d["schema"] = "fullbore.ladder/3".into());
        assert!(
            newer.contains("knows fullbore.ladder/2; use a newer"),
            "{newer}"
        );
        for schema in ["fullbore.ladder/0", "fullbore.ladder/x", "hyperfine/1"] {
            let text = changed(|d| d["schema"] = schema.into());
            assert!(text.contains(schema), "{text}");
        }
        let text = changed(|d| {
            d["rungs"][2]
                .as_object_mut()
                .unwrap()
                .remove("touches_data");
        });
        assert!(
            text.contains("at rungs[2]: missing field `touches_data`"),
            "{text}"
        );
        let text = changed(|d| d["rungs"][1]["gib_per_s"]["median"] = Value::Null);
        assert!(text.contains("at rungs[1].gib_per_s.median: "), "{text}");
        let text = changed(|d| d["machine"]["topology"]["cores"][0] = "all".into());
        assert!(text.contains("at machine.topology.cores[0]: "), "{text}");
    }

    #[test]
    fn numbers_that_nothing_measures_are_refused() {
        let text = changed(|d| d["rungs"][0]["gib_per_s"]["median"] = 1e300.into());
        assert!(
            text.contains("rungs[0].gib_per_s.median is 1e+300"),
            "{text}"
        );
        let text = changed(|d| d["rungs"][0]["samples"][0]["gib_per_s"] = (-1.0).into());
        assert!(text.contains("no rate is negative"), "{text}");
        let text = changed(|d| d["rungs"][0]["gib_per_s"]["ci95"][0] = (-1).into());
        assert!(text.contains("ci95[0] is -1, and no rate"), "{text}");
        let text = changed(|d| d["rungs"][0]["gib_per_s"]["median"] = u64::MAX.into());
        assert!(text.contains("which nothing measures"), "{text}");
        let text = changed(|d| d["started_unix_s"] = 1e14.into());
        assert!(text.contains("at started_unix_s"), "{text}");
        let nan = OLD.replacen("\"median\": ", "\"median\": NaN", 1);
        assert!(error(&nan).contains("not JSON"));
        let huge = OLD.replacen("\"median\": ", "\"median\": 1e999", 1);
        assert!(
            error(&huge).contains("not JSON: number out of range"),
            "{}",
            error(&huge)
        );
    }

    #[test]
    fn an_error_never_speaks_to_the_terminal() {
        for at in ["schema", "version", "label", "rungs"] {
            let text = changed(|d| {
                d["rungs"][0]["verdict"] = "\u{1b}[2J\u{202e}".into();
                d[at] = "fullbore.\u{1b}]0;x\u{7}/1".into();
            });
            assert!(!text.contains(char::is_control), "{text:?}");
        }
    }

    #[test]
    fn what_is_too_much_for_a_run_is_refused_wherever_it_is() {
        let many = |value: &str, n| format!("[{}]", vec![value; n].join(","));
        for (at, value) in [
            ("unknown", many("1", 100_001)),
            ("unknown", many("{\"a\":[null]}", 50_000)),
            ("warnings", many("\"\"", 100_001)),
            ("machine", many("[[]]", 50_000)),
            ("rungs", many("0", 301)),
            ("cells", many("0", 2501)),
            ("cells", format!("[{}]", many("\"\"", 600_001))),
            ("cells", format!("[{}]", many("1", 2_500_000))),
            ("label", format!("\"{}\"", "x".repeat((1 << 20) + 1))),
        ] {
            // Whatever comes behind it is not looked at.
            let text = format!("{{\"schema\":\"fullbore.ladder/1\",\"{at}\":{value}, ?");
            assert!(error(&text).contains("larger than any saved run"), "{at}");
        }
        // Less than that is a question of the form.
        let text = format!("{{\"unknown\":{},{}", many("1", 90_000), &OLD[1..]);
        assert_eq!(load(&text).unwrap().kind(), Kind::Ladder);
    }

    #[test]
    fn bytes_that_are_no_text_are_no_run() {
        let mut bytes = OLD.as_bytes().to_vec();
        let at = OLD.find("KVM guest").unwrap();
        bytes[at] = 0xFF;
        let text = load_named("it", &bytes).unwrap_err().to_string();
        assert!(text.contains("not JSON"), "{text}");
    }

    #[test]
    fn deep_nesting_is_an_error_not_a_crash() {
        assert!(error(&"[".repeat(100_000)).contains("recursion limit"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn any_text_gives_a_run_or_a_clean_error(text in "[ -~\\PC\u{0}-\u{1f}]{0,200}") {
            if let Err(e) = load(&text) {
                prop_assert!(!e.to_string().contains(char::is_control));
            }
        }

        #[test]
        fn a_run_cut_anywhere_is_an_error(at: prop::sample::Index) {
            let mut cut = at.index(OLD.trim_end().len());
            while !OLD.is_char_boundary(cut) {
                cut -= 1;
            }
            prop_assert!(error(&OLD[..cut]).contains("cut short"));
        }
    }
}
