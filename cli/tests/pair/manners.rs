//! `--version` and `--help`.

use std::process::Stdio;

use crate::support::{Run, To, fullbore, start};

fn said(line: &str) -> Run {
    let run = start(fullbore(line), Stdio::null(), To::Captured).finish();
    run.quiet_success();
    run
}

#[test]
fn version_names_program_and_version() {
    let run = said("--version");
    let mut words = run.out.split_whitespace();
    assert_eq!(words.next(), Some("fullbore"), "{run}");
    assert_eq!(words.next(), Some(env!("CARGO_PKG_VERSION")), "{run}");
}

#[test]
fn nothing_typed_is_a_short_help_that_begins_with_the_ladder() {
    let run = said("");
    assert!(run.out.starts_with("fullbore ladder "), "{run}");
    assert!(run.out.lines().count() < 12, "short: {run}");
    let option = start(fullbore("--json"), Stdio::null(), To::Captured).finish();
    option.complains(&[2]);
}

#[test]
fn help_begins_with_a_sentence_and_ends_with_examples() {
    for command in ["write", "read"] {
        let run = said(&format!("{command} --help"));
        // Long sentences are wrapped: the first paragraph is the sentence.
        let (first, _) = run.out.split_once("\n\n").expect("paragraphs");
        let sentence = first.replace('\n', " ");
        assert!(!sentence.contains(". "), "one sentence: {run}");
        assert!(sentence.starts_with(|c: char| c.is_uppercase()), "{run}");

        let (before, examples) = run.out.rsplit_once("Examples:").expect("examples");
        assert!(before.contains("--buf-size"), "options come first: {run}");
        let call = format!("fullbore {command}");
        assert!(examples.contains(&call), "{run}");
        assert!(!examples.contains("\n  -"), "examples come last: {run}");
    }
}

#[test]
fn help_names_every_option_of_the_pair() {
    for command in ["write", "read"] {
        let run = said(&format!("{command} --help"));
        for option in [
            "--write-with",
            "--read-with",
            "--with",
            "--pages",
            "--wait",
            "--buf-size",
            "--pipe-size",
            "--bytes",
            "--seconds",
            "--cpu",
            "--gift",
            "--lock-memory",
            "--dont-touch-pages",
            "--same-buffer",
            "--check-huge-page",
            "--verify",
            "--csv",
            "--json",
            "--verbose",
        ] {
            assert!(run.out.contains(option), "{option}: {run}");
        }
    }
}
