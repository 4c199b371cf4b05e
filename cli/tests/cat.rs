//! `fullbore cat`, and as a link named `cat`.

#![allow(clippy::unwrap_used)]

mod support;
#[allow(dead_code)]
mod tools;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::OFlags;
use support::{BINARY, Links, command, fullbore, pipe, skip, start};
use tools::{KINDS, data, same, source, target};

const MIB: usize = 1 << 20;

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
            "cat -z; echo $?; cat --nonsense; echo $?; cat --number=3; echo $?",
            "cat -- -n; echo x > ./-n; cat -- -n",
            "cat /dev/zero | head -c 100000 | md5sum; echo ${PIPESTATUS[*]}",
            "cat -n /dev/zero | head -c 1000 | md5sum; echo ${PIPESTATUS[*]}",
            "(trap '' PIPE; cat /dev/zero; echo $? >&2) | head -c 1 > g",
            "cat /proc/filesystems /dev/null /proc/self/stat > g; grep -c . g",
            "cat /proc/filesystems | md5sum; cat /sys/kernel/mm/transparent_hugepage/enabled | cat",
            "cat /proc/self/mem; echo $?",
            ": > g; cat g; cat g | cat; cat g g > h; cat < g; wc -c h",
            "head -c 1000000 /dev/zero | cat - f > g; md5sum g; cat g f | md5sum; cat g f >> h; md5sum h",
            "echo head > g; (echo one; cat f) >> g; cat g; (cat f; cat f) > g; md5sum g",
            "(read line; cat) < f; (cat f; echo after) | cat",
            "mkfifo p; cat f > p & cat p p < /dev/null & wait %1; kill %2",
            "seq 100000 | cat -n | md5sum; seq 100000 | cat -b | tail -1",
        ],
    );
}

/// Every byte through every mix of kinds: 256 MiB from pipe to pipe, and more than half as much again by the other ways.
#[test]
fn contents_arrive_through_any_mix_of_kinds() {
    let all = data(256 * MIB);
    let part = std::sync::Arc::new(all[..10 * MIB + 1].to_vec());
    for from in KINDS {
        for to in KINDS {
            let data = if (from, to) == ("pipe", "pipe") {
                &all
            } else {
                &part
            };
            if to == "file" {
                let mut place = tempfile::NamedTempFile::new().unwrap();
                let output = place.reopen().unwrap();
                let run = start(fullbore("cat"), source(from, data), output).finish();
                run.quiet_success();
                same(&mut place, data).unwrap_or_else(|why| panic!("{from} to {to}: {why}"));
                continue;
            }
            let (output, arrived) = target(to, data);
            let run = start(fullbore("cat"), source(from, data), output).finish();
            run.quiet_success();
            let arrived = arrived.join().unwrap();
            arrived.unwrap_or_else(|why| panic!("{from} to {to}: {why}"));
        }
    }
}

/// 10 GiB from pipe to pipe: nothing is missing, and nothing too much. The pages are not looked at.
#[test]
fn ten_gibibytes_go_through_pipes() {
    let (from_writer, to_cat) = pipe();
    let (mut from_cat, to_reader) = pipe();
    let len = 10_u64 << 30;
    let cat = start(fullbore("cat"), from_writer, to_reader);
    let writer = std::thread::spawn(move || {
        let mut constant = fullbore::Constant::new(b"ten gibibytes\n");
        constant.write_all(&to_cat, len).unwrap();
    });
    let mut reader = fullbore::PipeReader::new(&mut from_cat);
    // Here and there a piece is read and compared.
    let period = 14;
    let mut at = 0;
    let mut piece = vec![0; 64 << 10];
    while at < len {
        let skipped = reader
            .discard((500 * MIB as u64 + 3).min(len - at))
            .unwrap();
        at += skipped;
        let n = reader.read(&mut piece).unwrap();
        let phase = (at % period) as usize;
        let expected = b"ten gibibytes\nten gibibytes\n";
        let first = n.min(14);
        assert_eq!(&piece[..first], &expected[phase..phase + first], "at {at}");
        at += n as u64;
        assert!(skipped > 0 || n > 0, "only {at} bytes");
    }
    assert_eq!(at, len);
    assert_eq!(reader.read(&mut piece).unwrap(), 0);
    writer.join().unwrap();
    cat.finish().quiet_success();
}

#[test]
fn counts_are_right_into_dev_null() {
    let data = data(30 * MIB + 5);
    for from in KINDS {
        let null = File::options().write(true).open("/dev/null").unwrap();
        let run = start(fullbore("cat --explain"), source(from, &data), null).finish();
        assert_eq!(run.status.code(), Some(0), "{run}");
        assert!(
            run.err.contains("-: 30.0MiB by ") || run.err.contains(" 31457285B by "),
            "{run}"
        );
    }
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
        lines[3].contains("by read and write, splice through a private pipe refused: "),
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
fn non_blocking_descriptors_are_waited_for_and_left_as_they_are() {
    let data = data(3 * MIB);
    for line in ["cat", "cat -u", "cat -s"] {
        let (from_us, mut to_cat) = pipe();
        let (mut from_cat, to_us) = pipe();
        rustix::fs::fcntl_setfl(&from_us, OFlags::NONBLOCK).unwrap();
        rustix::fs::fcntl_setfl(&to_us, OFlags::NONBLOCK).unwrap();
        let (ours, theirs) = (from_us.try_clone().unwrap(), to_us.try_clone().unwrap());
        let run = start(fullbore(line), from_us, to_us);
        let sent = data.clone();
        let feeding = std::thread::spawn(move || {
            for piece in sent.chunks(400_001) {
                std::thread::sleep(Duration::from_millis(3));
                to_cat.write_all(piece).unwrap();
            }
        });
        let mut got = vec![0; data.len()];
        let mut at = 0;
        while at < got.len() {
            std::thread::sleep(Duration::from_millis(2));
            let end = got.len().min(at + 300_000);
            at += from_cat.read(&mut got[at..end]).unwrap();
        }
        feeding.join().unwrap();
        run.finish().quiet_success();
        assert!(got == **data, "{line}");
        for fd in [ours.as_fd(), theirs.as_fd()] {
            let flags = rustix::fs::fcntl_getfl(fd).unwrap();
            assert!(flags.contains(OFlags::NONBLOCK), "{line}");
        }
    }
}

#[test]
fn inherited_descriptors_never_become_non_blocking() {
    let (from_us, to_cat) = pipe();
    let (from_cat, to_us) = pipe();
    let (ours, theirs) = (from_us.try_clone().unwrap(), to_us.try_clone().unwrap());
    let run = start(fullbore("cat"), from_us, to_us);
    std::thread::sleep(Duration::from_millis(30));
    for fd in [ours.as_fd(), theirs.as_fd()] {
        let flags = rustix::fs::fcntl_getfl(fd).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK));
    }
    drop((to_cat, from_cat));
    run.finish().quiet_success();
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
fn file_that_grows_is_read_to_the_end_that_it_has_then() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("grows");
    let mut grows = File::create(&path).unwrap();
    let all = data(8 * MIB);
    grows.write_all(&all[..2 * MIB]).unwrap();
    let (mut from_cat, to_us) = pipe();
    let mut cat = fullbore("cat");
    cat.arg(&path);
    let run = start(cat, Stdio::null(), to_us);
    // Cat is at the beginning still: the pipe is full and nobody reads.
    let mut got = vec![0; 1000];
    from_cat.read_exact(&mut got).unwrap();
    grows.write_all(&all[2 * MIB..]).unwrap();
    from_cat.read_to_end(&mut got).unwrap();
    run.finish().quiet_success();
    assert!(got == **all, "{} bytes", got.len());
}

/// A terminal whose line discipline passes bytes on as they are.
fn raw_terminal() -> std::io::Result<(OwnedFd, OwnedFd)> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name, flags, rustix::fs::Mode::empty())?;
    let mut mode = tcgetattr(&theirs)?;
    mode.make_raw();
    tcsetattr(&theirs, OptionalActions::Now, &mode)?;
    Ok((ours, theirs))
}

#[test]
fn raw_terminal_carries_16_mib_both_ways() {
    let Ok((ours, theirs)) = raw_terminal() else {
        return skip("no pseudo-terminal to be had");
    };
    let data = data(16 * MIB);
    // Into the terminal.
    let run = start(
        fullbore("cat"),
        source("pipe", &data),
        theirs.try_clone().unwrap(),
    );
    let mut got = vec![0; data.len()];
    File::from(ours.try_clone().unwrap())
        .read_exact(&mut got)
        .unwrap();
    assert!(got == **data);
    run.finish().quiet_success();
    // Out of it.
    let (mut from_cat, to_us) = pipe();
    let run = start(fullbore("cat"), theirs, to_us);
    let sent = data.clone();
    let feeding = std::thread::spawn(move || {
        let mut ours = File::from(ours);
        ours.write_all(&sent).map(|()| ours)
    });
    from_cat.read_exact(&mut got).unwrap();
    assert!(got == **data);
    // Without our side of the terminal there is an end of file, or an error of the input.
    drop(feeding.join().unwrap().unwrap());
    run.finish();
}

#[test]
fn end_of_file_on_a_terminal_is_read_once() {
    use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
    let Ok((ours, theirs)) = raw_terminal() else {
        return skip("no pseudo-terminal to be had");
    };
    let mut mode = tcgetattr(&theirs).unwrap();
    mode.local_modes |= rustix::termios::LocalModes::ICANON;
    mode.special_codes[rustix::termios::SpecialCodeIndex::VEOF] = 4;
    tcsetattr(&theirs, OptionalActions::Now, &mode).unwrap();
    for line in ["cat", "cat -n"] {
        let (mut from_cat, to_us) = pipe();
        let run = start(fullbore(line), theirs.try_clone().unwrap(), to_us);
        let mut terminal = File::from(ours.try_clone().unwrap());
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
    let data = data(20 * MIB);
    for limit in ["ulimit -n 5", "ulimit -n 4", "ulimit -n 20"] {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("{limit}; exec \"$0\" cat"), BINARY]);
        let (output, arrived) = target("unix socket", &data);
        let run = start(shell, source("file", &data), output).finish();
        run.quiet_success();
        arrived
            .join()
            .unwrap()
            .unwrap_or_else(|why| panic!("{limit}: {why}"));
    }
}
