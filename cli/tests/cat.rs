//! `fullbore cat`, and as a link named `cat`.

#![allow(clippy::unwrap_used)]

mod support;
mod tools;

use std::io::{Read, Write};
use std::process::Stdio;

use support::kinds::{MIB, Sink, raw_terminal, seeded, source};
use support::{BINARY, Links, command, fullbore, pipe, start};

#[test]
fn link_does_what_the_original_does() {
    tools::same_as_the_original(
        &["cat"],
        &[
            "cat f f",
            "cat - < f f; echo $?",
            "cat -A f; cat -e f; cat -t f; cat -v f; cat -T f; cat -E f",
            "cat -n f f; cat -b f; cat -s f; cat -bns f f; cat -nn --number --squeeze-blank -u f",
            "cat --show-all f; cat --show-ends f; cat --show-tabs f; cat --show-nonprinting --number-nonblank f",
            "printf 'a\\r' > g; printf '\\nb\\r' > h; cat -E g h; cat -E g; cat -nE g h f",
            "cat missing f; echo $?",
            "cat f missing 'with space' \"it's\" $'new\\nline' $'\\377' ''; echo $?",
            "cat $'\\n\\'x' $'\\'\\'$' 'a\\b' '~x' 'x~' '#a' 'a#b' '{' '{}' 'a=b' '=a' '!x' $'tab\\tü\\302' '$x' \"it's a\"",
            "cat d; cat -n d; echo $?",
            "cat f >> f; echo $?; cat < f >> f; cat f - < f > g; cat g",
            "cat f > g; cat f g >> g; cat g",
            "cat -n f > g; cat -n g >> g; cat g",
            "cat f > /dev/full; echo $?; cat -n f > /dev/full; echo $?; cat missing f > /dev/full",
            "cat >&-; echo $?",
            "cat <&-; echo $?; cat f - f <&-; echo $?",
            "cat -h; echo $?; cat --numb f; cat --numb=3 f; cat --help > /dev/full; echo $?; cat --help >&-; echo $?",
            "cat -z; echo $?; cat --nonsense; echo $?; cat --number=3; echo $?",
            "cat -- -n; echo x > ./-n; cat -- -n",
            "cat /dev/zero | head -c 100000 | md5sum; echo ${PIPESTATUS[*]}",
            "cat -n /dev/zero | head -c 1000 | md5sum; echo ${PIPESTATUS[*]}",
            "(echo x; sleep 0.1) | cat | head -1; echo ${PIPESTATUS[*]}",
            "(trap '' PIPE; cat /dev/zero; echo $? >&2) | head -c 1 > g",
            "cat /proc/filesystems /dev/null /proc/self/stat > g; grep -c . g",
            "cat /proc/filesystems | md5sum; cat /sys/kernel/mm/transparent_hugepage/enabled | cat",
            "cat /proc/self/mem; echo $?",
            ": > g; cat g; cat g | cat; cat g g > h; cat < g; wc -c h",
            "head -c 1000000 /dev/zero | cat - f > g; md5sum g; cat g f | md5sum; cat g f >> h; md5sum h",
            "echo head > g; (echo one; cat f) >> g; cat g; (cat f; cat f) > g; md5sum g",
            "(read line; cat) < f; (cat f; echo after) | cat",
            "mkfifo p; cat f > p & cat p p < /dev/null > g & wait %1; until [ -s g ]; do sleep 0.01; done; kill %2; cat g",
            "seq 100000 | cat -n | md5sum; seq 100000 | cat -b | tail -1",
        ],
    );
}

#[test]
fn explanation_names_path_and_reason_for_each_file() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("large"), vec![7; 200_000]).unwrap();
    std::fs::write(place.path().join("small"), "x").unwrap();
    let mut cat = fullbore("cat --explain large small missing /proc/self/stat");
    cat.current_dir(place.path());
    let (read_end, write_end) = pipe();
    let reading = std::thread::spawn(move || std::io::read_to_string(read_end).is_ok());
    let run = start(cat, Stdio::null(), write_end).finish();
    reading.join().unwrap();
    assert_eq!(run.status.code(), Some(1), "{run}");
    let lines: Vec<_> = run.err.lines().collect();
    assert_eq!(lines.len(), 4, "{run}");
    assert!(
        lines[0].starts_with("fullbore: missing: No such file or directory; "),
        "{run}"
    );
    assert!(
        lines[1].contains("large") && lines[1].ends_with(" by splice through a private pipe"),
        "{run}"
    );
    assert!(
        lines[2].ends_with("by read and write, a small file"),
        "{run}"
    );
    assert!(
        lines[3].contains("by read and write, splice through a private pipe was refused: "),
        "{run}"
    );
}

#[test]
fn what_is_typed_comes_out_at_once() {
    for line in ["cat", "cat -n", "cat -A"] {
        let (from_us, mut to_cat) = pipe();
        let (mut from_cat, to_us) = pipe();
        let run = start(fullbore(line), from_us, to_us);
        for text in ["a\n", "part of ", "b\n"] {
            to_cat.write_all(text.as_bytes()).unwrap();
            let mut got = [0; 64];
            let n = from_cat.read(&mut got).unwrap();
            assert!(n >= text.len(), "{line}: {:?}", &got[..n]);
        }
        drop(to_cat);
        run.finish().quiet_success();
    }
}

#[test]
fn reader_that_goes_away_is_success_under_our_own_name_and_death_under_the_other() {
    use std::os::unix::process::ExitStatusExt;
    let links = Links::new(&["cat"]);
    for line in ["", "-n"] {
        let own = fullbore(&format!("cat {line} /dev/zero"));
        let link = command(links.path("cat"), &format!("{line} /dev/zero"));
        for (command, signal) in [(own, None), (link, Some(13))] {
            let (read_end, write_end) = pipe();
            let run = start(command, Stdio::null(), write_end);
            drop(read_end);
            let run = run.finish();
            assert_eq!(run.status.signal(), signal, "{run}");
            assert_eq!(run.status.success(), signal.is_none(), "{run}");
            assert_eq!(run.err, "", "{run}");
        }
    }
}

#[test]
fn end_of_file_on_a_terminal_is_read_once() {
    use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
    let (ours, theirs) = raw_terminal();
    let mut mode = tcgetattr(&theirs).unwrap();
    mode.local_modes |= rustix::termios::LocalModes::ICANON;
    mode.special_codes[rustix::termios::SpecialCodeIndex::VEOF] = 4;
    tcsetattr(&theirs, OptionalActions::Now, &mode).unwrap();
    for line in ["cat", "cat -n"] {
        let (mut from_cat, to_us) = pipe();
        let run = start(fullbore(line), theirs.try_clone().unwrap(), to_us);
        let mut terminal = ours.try_clone().unwrap();
        terminal.write_all(b"typed\n\x04").unwrap();
        let mut got = String::new();
        from_cat.read_to_string(&mut got).unwrap();
        assert!(got.ends_with("typed\n"), "{got:?}");
        run.finish().quiet_success();
    }
}

/// Where the user's share of pipe memory is used up, or no descriptor is left, bytes go another way.
#[test]
fn capacity_and_pipes_that_are_refused_cost_nothing_but_speed() {
    let data = &seeded()[..20 * MIB];
    for limit in ["ulimit -n 5", "ulimit -n 4", "ulimit -n 20"] {
        let mut shell = command("bash", "");
        shell.args(["-c", &format!("{limit}; exec \"$0\" cat"), BINARY]);
        let output = Sink::new("unix socket", data);
        start(shell, source("file", data), output.stdio())
            .finish()
            .quiet_success();
        output.check(limit);
    }
}
