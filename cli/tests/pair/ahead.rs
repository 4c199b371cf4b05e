//! What is filled ahead of what is sent arrives whole, in order, and however late it is read.

use std::io::Read;
use std::process::Stdio;

use crate::WAITS;
use crate::support::state::{until_it_waits, waiting};
use crate::support::{collect, fullbore, pair, pipe, refused, sequence, skip, start, until};

/// The ways that can, as far as this machine has them.
fn ways() -> Vec<&'static str> {
    ["reuse", "fresh", "fat", "cow", "auto"]
        .into_iter()
        .filter(|way| {
            let (run, _) = collect(fullbore(&format!("write --with {way} --bytes 1")));
            let is_there = run.status.success();
            if !is_there {
                skip(format_args!("--with {way}: {run}"));
            }
            is_there
        })
        .collect()
}

const MIB: usize = 1 << 20;

#[test]
fn every_byte_arrives_whatever_the_distance_and_the_limit() {
    for way in ways() {
        for wait in WAITS {
            for ahead in ["5001", "4M"] {
                // The last piece is most of one, a byte, and one that is too small to be lent.
                for bytes in [6_000_007, 5 * MIB + 1, 2 * MIB + 4097] {
                    let line = format!(
                        "write --with {way} --ahead {ahead} --wait {wait} --bytes {bytes} --verify"
                    );
                    let pair = pair(&line, &format!("read --wait {wait} --verify --json"));
                    pair.quiet_success();
                    assert_eq!(pair.reader.json()["bytes"], bytes, "{line}");
                }
            }
        }
    }
}

#[test]
fn every_byte_arrives_more_than_twice_round_the_pool() {
    for way in ways() {
        for options in [
            "",
            "--pages huge --pipe-size 1M --wait spin",
            "--buf-size 5001",
        ] {
            let line =
                format!("write --with {way} --ahead 4M {options} --bytes 150000007 --verify");
            let pair = pair(&line, "read --verify --json");
            pair.quiet_success();
            assert_eq!(pair.reader.json()["bytes"], 150_000_007, "{line}");
        }
    }
}

#[test]
fn pool_that_is_barely_large_enough_is_right() {
    // 64 MiB less a piece of 1 MiB and what the pipe holds.
    for (pipe, most, too_many) in [("1M", "62M", "63489K"), ("64K", "64448K", "64449K")] {
        let line = |ahead| format!("write --with reuse --pipe-size {pipe} --ahead {ahead}");
        let pair = pair(
            &format!("{} --bytes 150000007 --verify", line(most)),
            "read --verify --json",
        );
        pair.quiet_success();
        assert_eq!(pair.reader.json()["bytes"], 150_000_007);
        let run = refused(fullbore(&line(too_many)));
        run.complains(&[2]);
        assert!(
            run.err.contains(&format!("at most {most}iB ahead")),
            "{run}"
        );
    }
}

#[test]
fn what_is_not_sent_yet_waits_for_a_late_reader() {
    for way in ways() {
        for (wait, bytes) in WAITS
            .into_iter()
            .zip([70_001, MIB, 3_000_001, 4 * MIB, 9_000_001])
        {
            let (mut read_end, write_end) = pipe();
            let line =
                format!("write --with {way} --ahead 4M --wait {wait} --bytes {bytes} --verify");
            let mut writer = start(fullbore(&line), Stdio::null(), write_end);
            until("data in the pipe", || waiting(&read_end) > 0);
            if bytes > MIB {
                until_it_waits(writer.pid(), || waiting(&read_end));
            }
            // A pipe of 64 KiB, or of 512 KiB in fat slots.
            if bytes > MIB {
                assert!(
                    !writer.done(),
                    "{line}: it ended before its bytes were in the pipe"
                );
            }
            let mut data = Vec::new();
            read_end.read_to_end(&mut data).expect("data");
            writer.finish().quiet_success();
            assert!(data == sequence(bytes), "{line}: {} bytes", data.len());
        }
    }
}

#[test]
fn writer_whose_time_is_up_sends_what_it_has_filled() {
    for way in ways() {
        let line = format!("write --with {way} --ahead 4M --seconds 0.3 --verify --verbose");
        let (writer, data) = collect(fullbore(&line));
        assert!(writer.status.success(), "{writer}");
        let sent = format!("write: {} bytes,", data.len());
        assert!(writer.err.contains(&sent), "{}: {writer}", data.len());
        assert!(data == sequence(data.len()) && !data.is_empty(), "{line}");
    }
}

#[test]
fn only_what_is_copied_into_own_memory_can_be_filled_ahead() {
    for way in ["write", "vmsplice", "tee"] {
        let run = refused(fullbore(&format!("write --with {way} --ahead 1M")));
        run.complains(&[2]);
        assert!(run.err.contains("--ahead"), "{run}");
    }
    refused(fullbore("write --with cow --ahead 12Q")).complains(&[2]);
    // One line can be given to both sides, and each obeys what concerns it.
    let options = "--with reuse --ahead 4M --bytes 1000003 --verify";
    pair(
        &format!("write {options}"),
        "read --ahead 4M --bytes 1000003 --verify",
    )
    .quiet_success();
}
