//! `fullbore compare`: saved runs side by side.

use std::ffi::OsString;

use clap::Args;
use fullbore_lab::compare::{Comparison, RunGroup, compare, group_by_machine, kind_of_machine};
use fullbore_lab::saved::load::{Kind, Saved};
use fullbore_lab::show::escape::shown;
use fullbore_sys::Error;

use crate::args::rungs::{print, print_json};
use crate::args::runs::{self, Found, Name};
use crate::args::values::{Color, kind};
use crate::output::failure::{Failure, Outcome, complain};

mod compare_table;
mod list;

/// Compare saved runs, of kernels, machines or settings: a table with intervals and verdicts, and what else differs.
#[derive(Args, Debug)]
#[command(
    after_help = "A run is a file, `last` (the newest one saved for this user) or `last~1` (the one before it, of the same kind). A folder stands for all runs in it, in groups by kernel and CPU. Every run is compared with the first.\n\n\
    Exit code 3 with --fail-if-slower: something is slower by more than that, and not by noise. Exit code 4: the runs have nothing in common, or, with --fail-if-slower, a line is missing or refused in one of them, was measured in another state only, or has too few samples. A single run a side needs 7 rounds for that or more, and where sides are folders each run counts as one sample: 7 of either. Exit code 1: the runs cannot be read or compared at all.\n\n\
    Examples:\n  \
    fullbore compare --kind ladder last~1 last\n  \
    fullbore compare before.json after.json --fail-if-slower 5\n  \
    fullbore compare fleet/\n  \
    fullbore compare --list"
)]
pub struct CompareArgs {
    /// Runs: files, folders, last, last~1
    #[arg(value_name = "RUN", required_unless_present = "list")]
    runs: Vec<OsString>,
    /// List the saved runs of this user
    #[arg(long, conflicts_with_all = ["runs", "fail_if_slower"])]
    list: bool,
    /// Only runs of this kind, where a folder or `last` could mean several
    #[arg(long, value_parser = kind(), value_name = "KIND")]
    kind: Option<Kind>,
    /// Exit with code 3 where anything is slower than in the first run by more than so many percent, beyond noise
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    fail_if_slower: Option<f64>,
    /// Print one JSON document instead of the table
    #[arg(long)]
    json: bool,
    /// Colours in the table
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,
}

fn percent(text: &str) -> Result<f64, &'static str> {
    text.strip_suffix('%')
        .unwrap_or(text)
        .parse()
        .ok()
        .filter(|p: &f64| (0.0..100.0).contains(p))
        .ok_or("not a percentage; use a number from 0 to less than 100, for example 5")
}

pub fn run(args: &CompareArgs) -> Outcome {
    if args.list {
        let listed = list::list(args.kind)?;
        return if args.json {
            print_json(&listed)
        } else {
            print(&list::draw(&listed), args.color)
        };
    }
    let groups = groups(args)?;
    let comparison = compare(&groups)?;
    if args.json {
        print_json(&comparison)?;
    } else {
        print(&compare_table::draw(&comparison), args.color)?;
    }
    if !comparison.has_ratios() {
        return Err(Failure::Unjudged(Error::new(
            "nothing could be compared",
            "these runs have nothing in common that was measured in the same state of the machine",
            "run them again with the same rungs, and while the CPUs are as near to each other as they were",
        )));
    }
    match args.fail_if_slower {
        Some(percent) => judge(&comparison, percent),
        None => Ok(()),
    }
}

fn judge(comparison: &Comparison, percent: f64) -> Outcome {
    let mut slower = comparison.slower_by(percent);
    let Some((letter, row)) = slower.next() else {
        let unjudged = comparison.unjudged();
        let Some((letter, id, why)) = unjudged.first() else {
            return Ok(());
        };
        let more = match unjudged.len() {
            1 => String::new(),
            n => format!(", and {} more cannot be judged", n - 1),
        };
        return Err(Failure::Unjudged(Error::new(
            format!("{}, {letter} against A", shown(id)),
            format!("{why}{more}"),
            format!(
                "--fail-if-slower {percent} passes what was judged only: measure the same in both, 7 rounds or more in each run, or 7 runs of either side where a side is several runs"
            ),
        )));
    };
    let by = |ratio: f64| 100.0 * (1.0 - ratio);
    let more = match slower.count() {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    let detail = row.ratio.map_or(String::new(), |r| {
        format!(
            "{letter} is {:.1} % slower than A ({:.1} to {:.1} %){more}",
            by(r.median),
            by(r.ci95[1]),
            by(r.ci95[0]),
        )
    });
    Err(Failure::Slower(Error::new(
        format!("{}, {}", shown(&row.id), row.state),
        detail,
        format!("--fail-if-slower {percent} allows no more than that many percent"),
    )))
}

/// What the names on the command line stand for.
fn groups(args: &CompareArgs) -> Result<Vec<RunGroup>, Failure> {
    let names: Vec<Name> = args
        .runs
        .iter()
        .map(Name::of)
        .collect::<Result<_, _>>()
        .map_err(Failure::Usage)?;
    let texts: Vec<String> = args
        .runs
        .iter()
        .map(|r| r.to_string_lossy().into_owned())
        .collect();
    let mut found = Vec::new();
    // What is named exactly decides which kind is meant where a name leaves that open.
    let mut kind = args.kind;
    for (name, text) in names.iter().zip(&texts) {
        if let Name::Path(path) = name {
            found.push(Some(runs::at(path, text)?));
        } else {
            found.push(None);
        }
    }
    let mut files = found.iter().flatten().filter_map(|f| match f {
        Found::Run(run) => Some(run.kind()),
        Found::Folder(_) => None,
    });
    kind = kind.or(files.next());
    if kind.is_none() && names.iter().any(|n| matches!(n, Name::Last(_))) {
        kind = Some(runs::newest_kind()?);
    }
    let kind = kind.or_else(|| kind_of_folders(found.iter().flatten()));
    let mut groups = Vec::new();
    for ((name, text), found) in names.iter().zip(&texts).zip(found) {
        match (name, found) {
            (Name::Last(n), _) => {
                let run = runs::last(*n, kind)?;
                groups.push(single(text.clone(), run));
            }
            (_, Some(Found::Run(run))) => groups.push(single(text.clone(), run)),
            (_, Some(Found::Folder(runs))) => {
                groups.extend(folder(text, runs, kind, names.len() == 1)?);
            }
            (_, None) => {}
        }
    }
    Ok(groups)
}

fn single(name: String, run: Saved) -> RunGroup {
    RunGroup {
        name,
        runs: vec![run],
    }
}

/// The kind that a folder is about: the first of those that it has.
fn kind_of_folders<'a>(found: impl Iterator<Item = &'a Found>) -> Option<Kind> {
    let kinds = found.flat_map(|f| match f {
        Found::Folder(runs) => runs.iter().map(|(_, run)| run.kind()).collect(),
        Found::Run(_) => Vec::new(),
    });
    kinds.filter(|k| *k != Kind::Profile).min()
}

/// The runs of a folder in groups; where it is the only thing to compare and all its runs are of one kind of machine, each
/// for itself.
fn folder(
    name: &str,
    runs: Vec<(String, Saved)>,
    kind: Option<Kind>,
    is_alone: bool,
) -> Result<Vec<RunGroup>, Error> {
    let all = runs.len();
    let runs: Vec<_> = runs
        .into_iter()
        .filter(|(_, run)| kind.is_none_or(|kind| run.kind() == kind))
        .collect();
    let others = all - runs.len();
    if others > 0 {
        complain(&format!(
            "{}: {others} runs of other kinds are left out; --kind chooses",
            shown(name)
        ));
    }
    let Some((_, first)) = runs.first() else {
        return Err(Error::new(
            format!("{} holds no such run", shown(name)),
            kind.map_or("nothing in it was saved by fullbore".into(), |k| {
                format!("none in it is of kind {k}")
            }),
            "name a folder with runs that fullbore saved, or another --kind",
        ));
    };
    let machine = kind_of_machine(first);
    let is_one_kind = runs.iter().all(|(_, run)| kind_of_machine(run) == machine);
    if is_alone && is_one_kind {
        if runs.len() > 1 {
            complain("all these runs are of one kernel and CPU: each is compared with the first");
        }
        return Ok(runs
            .into_iter()
            .map(|(name, run)| single(name, run))
            .collect());
    }
    let mut groups = group_by_machine(runs.into_iter().map(|(_, run)| run).collect());
    if let [only] = &mut groups[..] {
        only.name = name.to_owned();
    }
    Ok(groups)
}
