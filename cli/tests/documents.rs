//! The documents of the repository: links that lead somewhere, figures that are those of the run they name, programs that are
//! compiled.

mod support;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde_json::Value;

use support::{To, fullbore, start};

/// What fits on a few screens.
const README_LINES: usize = 150;
/// The run of the README's table and picture.
const RUN: &str = "runs/2026-11-22-epyc-kvm-ahead/ladder.json";
/// Documents whose Rust programs the tests of their crate compile and run.
const COMPILED: [&str; 4] = [
    "docs/library.md",
    "docs/compare.md",
    "pipe/README.md",
    "sys/README.md",
];

fn root() -> PathBuf {
    let cli = Path::new(env!("CARGO_MANIFEST_DIR"));
    cli.parent().expect("a workspace").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Files below `folder` that end in one of `endings`; links and what is built are left out.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let (name, kind) = (entry.file_name(), entry.file_type().expect("a kind"));
        let name = name.to_string_lossy();
        if kind.is_dir() && name != "target" && name != ".git" {
            files(&entry.path(), endings, found);
        } else if kind.is_file() && endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(entry.path());
        }
    }
}

fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root(), &[".md"], &mut found);
    found
}

/// What a test needs to know of a document.
#[derive(Default)]
struct Document {
    /// Targets of links and pictures.
    links: Vec<String>,
    /// What a link may name behind `#`.
    anchors: Vec<String>,
    /// Its programs in Rust.
    rust: Vec<String>,
    /// Cells of its tables, row by row.
    rows: Vec<Vec<String>>,
}

impl Document {
    fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let mut heading = None;
        let mut program = None;
        let mut cell = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push(dest_url.into_string());
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    document.links.extend(html_links(&html));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    document.anchors.push(anchor);
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language)))
                    if language.starts_with("rust") =>
                {
                    program = Some(String::new());
                }
                Event::End(TagEnd::CodeBlock) => document.rust.extend(program.take()),
                Event::Start(Tag::TableHead | Tag::TableRow) => document.rows.push(Vec::new()),
                Event::Start(Tag::TableCell) => cell = Some(String::new()),
                Event::End(TagEnd::TableCell) => {
                    if let Some(row) = document.rows.last_mut() {
                        row.extend(cell.take());
                    }
                }
                Event::Text(text) | Event::Code(text) => {
                    let places = [heading.as_mut(), program.as_mut(), cell.as_mut()];
                    for place in places.into_iter().flatten() {
                        place.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        document
    }
}

/// The targets of `src` and `srcset` (of one picture each) in HTML.
fn html_links(html: &str) -> impl Iterator<Item = String> {
    let ends = ["src=\"", "srcset=\""].into_iter();
    ends.flat_map(move |name| {
        let found = html.split(name).skip(1);
        found.filter_map(|rest| rest.split_once('"').map(|(link, _)| link.to_owned()))
    })
}

/// The anchor that a heading gets where the repository is shown.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().flat_map(char::to_lowercase);
    kept.filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_exist() {
    let documents: HashMap<PathBuf, Document> = documents()
        .into_iter()
        .map(|path| {
            let document = Document::parse(&read(&path));
            (path.canonicalize().unwrap(), document)
        })
        .collect();
    let mut broken = Vec::new();
    let mut checked = 0;
    for (path, document) in &documents {
        for link in &document.links {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            let leads_somewhere = target.canonicalize().is_ok_and(|target| {
                let named = documents.get(&target);
                anchor.is_empty() || named.is_some_and(|d| d.anchors.iter().any(|a| a == anchor))
            });
            if !leads_somewhere {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(checked > 50, "links were found: {checked}");
}

#[test]
fn documents_that_sources_name_exist() {
    let mut sources = Vec::new();
    files(
        &root(),
        &[".rs", ".sh", ".toml", "run", "table", "api"],
        &mut sources,
    );
    let mut broken = Vec::new();
    let mut checked = 0;
    for path in sources {
        for line in read(&path).lines() {
            for (at, _) in line.match_indices("docs/") {
                let name = &line[at..];
                let end = name
                    .find(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_')))
                    .unwrap_or(name.len());
                let name = name[..end].trim_end_matches('.');
                if !name.ends_with(".md") {
                    continue;
                }
                checked += 1;
                if !root().join(name).is_file() {
                    broken.push(format!("{}: {name}", path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(checked > 5, "names were found: {checked}");
}

#[test]
fn readme_stays_short() {
    let lines = read(&root().join("README.md")).lines().count();
    assert!(lines <= README_LINES, "{lines} lines");
}

#[test]
fn table_of_the_readme_is_of_the_committed_run() {
    let run: Value = serde_json::from_str(&read(&root().join(RUN))).unwrap();
    let number = |value: &Value| value.as_f64().expect("a number");
    let of_the_run: Vec<Vec<String>> = run["rungs"]
        .as_array()
        .expect("rungs")
        .iter()
        .map(|rung| {
            let rate = &rung["gib_per_s"];
            let [low, high] = [0, 1].map(|end| three_digits(number(&rate["ci95"][end])));
            let touched = if rung["touches_data"] == true {
                "yes"
            } else {
                "no"
            };
            vec![
                rung["id"].as_str().expect("a name").to_owned(),
                three_digits(number(&rate["median"])),
                format!("{low}–{high}"),
                format!("{:.3}", number(&rung["cpu_s_per_gib"])),
                touched.to_owned(),
            ]
        })
        .collect();
    let mut shown = Document::parse(&read(&root().join("README.md"))).rows;
    // Other tables, heads and names of groups have no rate.
    shown.retain(|row| row.len() == 5 && row[1].parse::<f64>().is_ok());
    assert_eq!(shown, of_the_run);
}

fn three_digits(number: f64) -> String {
    match number {
        n if n >= 99.95 => format!("{n:.0}"),
        n if n >= 9.995 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}

#[test]
fn every_program_in_a_document_is_compiled_by_a_test() {
    let root = root();
    let programs = |name: &str| Document::parse(&read(&root.join(name))).rust;
    let compiled: Vec<String> = COMPILED.into_iter().flat_map(programs).collect();
    for path in documents() {
        for program in Document::parse(&read(&path)).rust {
            assert!(
                compiled.contains(&program),
                "{}: in no document whose programs are compiled: {program}",
                path.display()
            );
        }
    }
    // They are, where the crate includes them: `pipe/docs` has links to the documents, of which its package has copies.
    for name in COMPILED {
        let (folder, file) = name.split_once('/').unwrap();
        let (folder, file) = match folder {
            "docs" => ("pipe", format!("../docs/{file}")),
            folder => (folder, format!("../{file}")),
        };
        let sources = root.join(folder).join("src");
        let include = format!("include_str!(\"{file}\")");
        assert!(read(&sources.join("lib.rs")).contains(&include), "{name}");
        let included = sources.join(file).canonicalize().unwrap();
        assert_eq!(included, root.join(name).canonicalize().unwrap());
    }
}

#[test]
fn every_result_is_in_the_index() {
    let index = Document::parse(&read(&root().join("docs/measurements.md")));
    let mut results = Vec::new();
    files(&root().join("docs/results"), &[".md"], &mut results);
    assert!(!results.is_empty());
    for path in results {
        let link = format!("results/{}", path.file_name().unwrap().to_string_lossy());
        assert!(index.links.contains(&link), "{link}");
    }
}

#[test]
fn ring_of_the_document_is_what_the_program_prints() {
    let text = read(&root().join("docs/lab.md"));
    let (_, after) = text.split_once("\nfullbore ring ").expect("a command");
    let (arguments, after) = after.split_once('\n').expect("a line");
    let (before, quoted) = arguments.split_once("--do '").expect("calls");
    let (_, shown) = after.split_once("```text\n").expect("what it prints");
    let (shown, _) = shown.split_once("```").expect("an end");

    let mut ring = fullbore(&format!("ring {before}"));
    ring.args(["--do", quoted.trim_end_matches('\'')]);
    let run = start(ring, Stdio::null(), To::Captured).finish();
    run.quiet_success();
    assert!(run.out.contains(shown), "docs/lab.md shows:\n{shown}{run}");
}
