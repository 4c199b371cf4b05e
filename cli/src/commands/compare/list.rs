//! The saved runs of this user.

use fullbore_lab::saved::list::{ListedRun, RunList};
use fullbore_lab::saved::load::{Kind, Saved};
use fullbore_lab::show::escape::shown;
use fullbore_sys::Result;

use crate::args::runs::{entries, read};
use crate::output::table::Table;

/// The saved runs, newest first.
pub fn list(only: Option<Kind>) -> Result<RunList> {
    let mut seen = std::collections::BTreeMap::<Option<Kind>, usize>::new();
    let mut lines = Vec::new();
    for entry in entries()?.into_iter().rev() {
        if only.is_some() && entry.kind != only {
            continue;
        }
        let before = seen.entry(entry.kind).or_default();
        let name = match *before {
            0 => "last".to_owned(),
            n => format!("last~{n}"),
        };
        *before += 1;
        let run = read(&entry.json, &entry.json.to_string_lossy());
        let (machine, label, measured) = match &run {
            Ok(run) => (
                fullbore_lab::compare::kind_of_machine(run),
                run.head().label.clone(),
                measured(run),
            ),
            Err(_) => Default::default(),
        };
        lines.push(ListedRun {
            name,
            kind: entry.kind.map_or("unknown".into(), |k| k.to_string()),
            started: entry.name.split("Z-").next().unwrap_or_default().to_owned(),
            machine,
            label,
            measured,
            file: entry.json,
            error: run.err().map(|e| e.to_string()),
        });
    }
    Ok(lines.into())
}

fn measured(run: &Saved) -> String {
    let names = |ids: Vec<&str>| match ids[..] {
        [] => "nothing".to_owned(),
        [one] => one.to_owned(),
        [one, two] => format!("{one}, {two}"),
        [first, .., last] => format!("{} of them: {first} … {last}", ids.len()),
    };
    match run {
        Saved::Ladder(run) => names(run.rungs.iter().map(|r| &*r.id).collect()),
        Saved::Profile(profile) => names(profile.rungs.iter().map(|r| &*r.id).collect()),
        Saved::Bandwidth(run) => names(run.columns.iter().map(|c| &*c.id).collect()),
        Saved::Sweep(sweep) => format!(
            "{} → {}, {} cells",
            sweep.method.write_with,
            sweep.method.read_with,
            sweep.cells.len()
        ),
    }
}

/// The list as text, one line a run.
pub fn draw(list: &RunList) -> String {
    if list.runs.is_empty() {
        return "No runs are saved for this user; fullbore ladder makes one.\n".into();
    }
    let mut table = Table::new(["kind", "name", "began (UTC)", "measured", "run on"]);
    for line in &list.runs {
        let mut cells = vec![line.kind.clone(), line.name.clone(), shown(&line.started)];
        match &line.error {
            // Errors are safe to print.
            Some(e) => cells.push(e.clone()),
            None => {
                let label = line.label.as_ref();
                let label = label.map_or(String::new(), |l| format!(" ({})", shown(l)));
                cells.extend([shown(&line.measured), shown(&line.machine) + &label]);
            }
        }
        table.row(cells);
    }
    let mut out = table.draw();
    out.push_str("\nNames count within a kind; --kind chooses which one last is of.\n");
    out
}
