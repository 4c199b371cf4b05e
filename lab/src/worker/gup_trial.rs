//! One trial of what `get_user_pages_fast` costs: by the kernel's own benchmark, else estimated from the outside.

pub(crate) mod form;
mod inside;
mod outside;
pub mod test_file;

use std::time::Duration;

use fullbore_sys::Result;
use fullbore_sys::pages::{PageKind, Pages, Request};
use serde::{Deserialize, Serialize};

use super::outcome::{Ready, Report};
use super::timing::{Time, Until};
use crate::saved::by_name;
use crate::sys::gup_pages::Lent;
use inside::Inside;
use outside::{Outside, Rig};
use test_file::TestFile;

/// As many as vmsplice asks for at once (kernel source, `iov_iter_get_pages2` from `iter_to_pipe`).
pub const PAGES_PER_CALL: usize = 16;

/// How the cost is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GupSource {
    /// The kernel's own benchmark.
    GupTest,
    /// vmsplice against tee and splice of the same slots.
    Estimate,
}

/// What is measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct GupTrial {
    pub source: GupSource,
    #[serde(with = "by_name")]
    pub pages: PageKind,
    /// Whether the pages were written before.
    pub touched: bool,
}

/// How the cost is found here.
pub(crate) struct Possible {
    pub source: GupSource,
    /// Bytes of the request that the kernel's benchmark answers to.
    pub request_bytes: Option<usize>,
    /// Why it is an estimate.
    pub no_gup_test: Option<String>,
}

impl Possible {
    /// Finds out.
    ///
    /// # Errors
    /// There is no benchmark, and an estimate is not possible either.
    pub(crate) fn find() -> Result<Self> {
        Ok(match TestFile::open() {
            Ok(file) => Self {
                source: GupSource::GupTest,
                request_bytes: Some(file.form.size()),
                no_gup_test: None,
            },
            Err(why) => {
                Rig::new()?;
                Self {
                    source: GupSource::Estimate,
                    request_bytes: None,
                    no_gup_test: Some(why.to_string()),
                }
            }
        })
    }
}

pub(super) fn run(trial: GupTrial, time: Time, ready: Ready<'_>) -> Result<Report> {
    let time = match time.until {
        Some(Until::Seconds(s)) => Duration::from_secs_f64(s),
        _ => Duration::ZERO,
    };
    let GupTrial { pages, touched, .. } = trial;
    let timing = match trial.source {
        GupSource::GupTest => {
            let mut case = Inside::new(TestFile::open()?, pages, touched)?;
            ready()?;
            case.trial(time)
        }
        GupSource::Estimate => {
            let mut case = Outside::new(Rig::new()?, pages, touched)?;
            ready()?;
            case.trial(time)
        }
    };
    timing.map(Report::Gup)
}

/// Maps memory to be lent, written once or not at all.
fn map(kind: PageKind, touched: bool, len: usize) -> Result<Lent> {
    Pages::map(&Request {
        len,
        kind,
        lock: false,
        fill: touched.then_some(b'X'),
    })
    .map(Lent::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_gives_figures_or_reasons_for_every_case() {
        let possible = match Possible::find() {
            Ok(possible) => possible,
            Err(why) => {
                return crate::testing::skip(
                    "this_machine_gives_figures_or_reasons_for_every_case",
                    why,
                );
            }
        };
        let time = Time {
            warm_up_s: 0.0,
            until: Some(Until::Seconds(0.001)),
        };
        for pages in PageKind::ALL {
            for touched in [true, false] {
                let trial = GupTrial {
                    source: possible.source,
                    pages,
                    touched,
                };
                match run(trial, time, &mut || Ok(())) {
                    Ok(Report::Gup(timing)) => {
                        assert!(timing.ns_per_page.unwrap().is_finite(), "{timing:?}");
                    }
                    Ok(other) => panic!("{other:?}"),
                    // Small pages are there wherever anything is.
                    Err(e) => assert_ne!(pages, PageKind::Small, "{e}"),
                }
            }
        }
    }
}
