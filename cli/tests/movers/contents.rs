//! Large contents, byte for byte.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::process::Stdio;
use std::thread;

use crate::MOVERS;
use crate::support::kinds::{KINDS, MIB, Sink, checker, feed, raw_terminal, seeded, source};
use crate::support::{fullbore, pipe, start};

/// 256 MiB through each mix of kinds.
fn every_mix_arrives(line: &str) {
    for from in KINDS {
        for to in KINDS {
            let output = Sink::new(to, seeded());
            let run = start(fullbore(line), source(from, seeded()), output.stdio()).finish();
            run.quiet_success();
            output.check(&format!("{line} from {from} to {to}"));
        }
    }
}

#[test]
fn cat_carries_every_byte_between_any_two_kinds() {
    every_mix_arrives("cat");
}

#[test]
fn view_carries_every_byte_between_any_two_kinds() {
    every_mix_arrives("view -q");
}

/// A socket cannot be opened by name, so that the other output is a pipe or a file, and with each kind of input and of
/// standard output it is either of them in turn.
#[test]
fn tee_carries_every_byte_from_any_kind_to_any_two() {
    for (i, from) in KINDS.into_iter().enumerate() {
        for (j, to) in KINDS.into_iter().enumerate() {
            let other = KINDS[(i + j) % 2];
            let outputs = [to, other].map(|kind| Sink::new(kind, seeded()));
            let mut tee = fullbore("tee");
            tee.arg(outputs[1].path());
            start(tee, source(from, seeded()), outputs[0].stdio())
                .finish()
                .quiet_success();
            for output in outputs {
                output.check(&format!("tee from {from} to {to} and {other}"));
            }
        }
    }
}

/// 10 GiB through all of them at once. The data is one piece after the other that repeats after a prime number of bytes:
/// what is missing, or comes twice, shows in its phase and in the sum.
#[test]
fn ten_gibibytes_go_through_a_line_of_all_three() {
    const LEN: u64 = 10 << 30;
    const PERIOD: usize = 4093;
    let (from_writer, to_cat) = pipe();
    let (from_cat, to_tee) = pipe();
    let (from_tee, to_view) = pipe();
    let (mut from_view, to_reader) = pipe();
    let runs = [
        start(fullbore("cat"), from_writer, to_tee),
        start(fullbore("tee"), from_cat, to_view),
        start(fullbore("view -q"), from_tee, to_reader),
    ];
    let piece = &seeded()[..PERIOD];
    let writer = thread::spawn(move || fullbore::Constant::new(piece).write_all(&to_cat, LEN));
    let mut buffer = vec![0; 256 << 10];
    let expected: Vec<u8> = piece
        .iter()
        .copied()
        .cycle()
        .take(buffer.len() + PERIOD)
        .collect();
    let mut at = 0;
    loop {
        let n = from_view.read(&mut buffer).expect("data");
        if n == 0 {
            break;
        }
        let phase = (at % PERIOD as u64) as usize;
        assert!(buffer[..n] == expected[phase..phase + n], "behind {at}");
        at += n as u64;
    }
    assert_eq!(at, LEN);
    writer.join().expect("a writer").expect("all of it");
    for run in runs {
        run.finish().quiet_success();
    }
}

#[test]
fn counts_into_dev_null_are_right() {
    let data = &seeded()[..256 * MIB - 3];
    for line in ["cat --explain", "tee --explain", "tee --explain /dev/null"] {
        for from in KINDS {
            let null = File::create("/dev/null").expect("/dev/null");
            let run = start(fullbore(line), source(from, data), null).finish();
            assert_eq!(run.status.code(), Some(0), "{run}");
            for told in run.err.lines() {
                assert!(told.contains(": 268435453B by "), "from {from}: {run}");
            }
            let outputs = line.split_whitespace().count() - 1;
            assert_eq!(run.err.lines().count(), outputs, "from {from}: {run}");
        }
    }
}

#[test]
fn raw_terminals_carry_every_byte() {
    let data = &seeded()[..16 * MIB];
    for line in MOVERS {
        let (ours, theirs) = raw_terminal();
        let checked = checker(ours, data);
        let run = start(fullbore(line), source("pipe", data), theirs).finish();
        run.quiet_success();
        let arrived = checked.join().expect("the same bytes");
        assert_eq!(arrived, data.len(), "{line}");

        let (ours, theirs) = raw_terminal();
        let (from_tool, to_us) = pipe();
        let run = start(fullbore(line), theirs, to_us);
        // A terminal whose other side is closed loses what it holds: this side stays open, and so there is no end.
        feed(ours.try_clone().expect("a copy"), data);
        assert!(all_arrives(from_tool, data), "{line}");
        run.kill();
    }
}

/// Two terminals that a tee writes to, and one that it reads from.
#[test]
fn tee_carries_every_byte_between_raw_terminals() {
    let data = &seeded()[..16 * MIB];
    let (input, theirs) = raw_terminal();
    let outputs = [raw_terminal(), raw_terminal()];
    let mut tee = fullbore("tee");
    tee.arg(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        outputs[1].1.as_raw_fd()
    ));
    let [(one, to_one), (other, _to_other)] = outputs;
    let run = start(tee, theirs, to_one);
    feed(input.try_clone().expect("a copy"), data);
    let other = thread::spawn(move || all_arrives(other, data));
    assert!(all_arrives(one, data));
    assert!(other.join().expect("a reader"));
    run.kill();
}

/// Reads no further than the data goes.
fn all_arrives(from: impl Read + Send + 'static, data: &'static [u8]) -> bool {
    let checked = checker(from.take(data.len() as u64), data);
    checked.join().is_ok_and(|n| n == data.len())
}

#[test]
fn empty_inputs_end_at_once() {
    for line in MOVERS {
        for from in KINDS {
            for to in KINDS {
                let output = Sink::new(to, b"");
                start(fullbore(line), source(from, b""), output.stdio())
                    .finish()
                    .quiet_success();
                output.check(&format!("{line} from {from} to {to}"));
            }
        }
        start(fullbore(line), Stdio::null(), Stdio::null())
            .finish()
            .quiet_success();
    }
}
