//! How a run ends: the other side vanishes, the time is up, Ctrl-C; and what it must leave as it was.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl};

use crate::support::state::{ticks, until_it_waits, waiting};
use crate::support::{
    Running, Stranger, To, ctrl_c_is_ignored, feed, fullbore, pair, pair_of, pipe, skip, start,
    until,
};
use crate::{WAITS, WAYS_IN, WAYS_OUT};

/// A side that has used so much CPU time, in ticks of 10 ms, moves data: it starts in less.
const AT_WORK: u64 = 2;

#[test]
fn fewer_bytes_than_asked_for_are_a_failure_with_both_figures() {
    for line in [
        "read --verify --bytes 32M",
        "read --bytes 32M --json",
        "read --read-with relay --bytes_to_pipe=32M",
    ] {
        let run = feed(fullbore(line), crate::support::sequence(1 << 20));
        run.complains(&[1]);
        assert!(run.err.contains("1048576 of 33554432"), "{run}");
        assert!(!run.out.is_empty(), "the result all the same: {run}");
    }
    // What nobody asked for is not missing.
    feed(fullbore("read --verify"), Vec::new()).quiet_success();
    feed(fullbore("read --seconds 5 --bytes 1M"), vec![1; 5]).quiet_success();
}

#[test]
fn writer_whose_reader_vanishes_has_succeeded() {
    for way_in in WAYS_IN {
        for wait in WAITS {
            let line = format!("write {way_in} --wait {wait}");
            // Before the first byte, with the pipe full, and in between.
            for already_read in [None, Some(0), Some(100_000)] {
                let (mut read_end, write_end) = pipe();
                if already_read.is_none() {
                    drop(read_end);
                    let writer = start(fullbore(&line), Stdio::null(), write_end);
                    writer.finish().quiet_success();
                    continue;
                }
                let writer = start(fullbore(&line), Stdio::null(), write_end);
                let mut some = vec![0; already_read.unwrap_or(0)];
                read_end.read_exact(&mut some).expect("data");
                until("data in the pipe", || waiting(&read_end) > 0);
                // It has filled it, and fallen asleep where the writer does that.
                until_it_waits(writer.pid(), || waiting(&read_end));
                drop(read_end);
                writer.finish().quiet_success();
            }
        }
    }
}

#[test]
fn writer_whose_reader_is_satisfied_or_killed_has_succeeded() {
    for way_in in WAYS_IN {
        for wait in WAITS {
            let line = format!("write {way_in} --wait {wait}");
            pair(&line, "read --bytes 1M").quiet_success();

            let (read_end, write_end) = pipe();
            let reader = start(fullbore("read --bytes 1T"), read_end, To::Captured);
            let writer = start(fullbore(&line), Stdio::null(), write_end);
            until("both at work", || {
                ticks(reader.pid()) >= AT_WORK && ticks(writer.pid()) >= AT_WORK
            });
            reader.kill();
            writer.finish().quiet_success();
        }
    }
}

#[test]
fn reader_whose_writer_vanishes_reports_what_it_got() {
    for way_in in WAYS_IN {
        for way_out in WAYS_OUT {
            for wait in WAITS {
                let (read_end, write_end) = pipe();
                let line = format!("write {way_in} --wait {wait}");
                let writer = start(fullbore(&line), Stdio::null(), write_end);
                until("data in the pipe", || waiting(&read_end) > 0);
                let line = format!("read {way_out} --wait {wait} --bytes 1T --json");
                let reader = start(fullbore(&line), read_end, To::Captured);
                until("the reader at work", || ticks(reader.pid()) >= AT_WORK);
                writer.kill();
                let run = reader.finish();
                run.complains(&[1]);
                let bytes = run.json()["bytes"].as_u64().expect("a number");
                assert!(bytes > 0, "{run}");
                assert!(run.err.contains(&format!("{bytes} of")), "{run}");
            }
        }
    }
}

#[test]
fn killed_writer_leaves_a_sequence_without_gaps() {
    for wait in WAITS {
        let (read_end, write_end) = pipe();
        let line = format!("read --wait {wait} --verify --json --bytes 1T");
        let reader = start(fullbore(&line), read_end, To::Captured);
        let line = format!("write --with vmsplice --wait {wait} --verify");
        let writer = start(fullbore(&line), Stdio::null(), write_end);
        until("the reader at work", || ticks(reader.pid()) >= 3 * AT_WORK);
        writer.kill();
        let run = reader.finish();
        run.complains(&[1]);
        let bytes = run.json()["bytes"].as_u64().expect("a number");
        assert!(bytes > 0, "{run}");
        assert!(run.err.contains("bytes arrived"), "{run}");
    }
}

#[test]
fn time_is_up_even_where_nothing_moves() {
    // All at once, since each takes its second.
    let mut held = Vec::new();
    let mut runs: Vec<(Instant, Running)> = Vec::new();
    for wait in WAITS {
        for way_out in WAYS_OUT {
            let (read_end, write_end) = pipe();
            let line = format!("read {way_out} --wait {wait} --seconds 1");
            let started = Instant::now();
            runs.push((started, start(fullbore(&line), read_end, To::Captured)));
            held.push((None, Some(write_end)));
        }
        for way_in in WAYS_IN {
            let (read_end, write_end) = pipe();
            let line = format!("write {way_in} --wait {wait} --seconds 1");
            let started = Instant::now();
            runs.push((started, start(fullbore(&line), Stdio::null(), write_end)));
            held.push((Some(read_end), None));
        }
    }
    // Each is looked at all the time, so that one that ends too early is seen.
    while !runs.is_empty() {
        for (started, mut run) in std::mem::take(&mut runs) {
            if run.done() {
                let took = started.elapsed();
                run.finish().quiet_success();
                assert!(took >= Duration::from_secs(1), "ended after {took:?}");
            } else {
                runs.push((started, run));
            }
        }
        thread::yield_now();
    }
}

#[test]
fn time_is_up_while_data_flows() {
    for (writer, reader) in [
        ("--seconds 1", "--seconds 60"),
        ("", "--seconds 1"),
        ("--seconds 1", "--seconds 1"),
    ] {
        let pair = pair(
            &format!("write {writer} --verify --bytes 1T"),
            &format!("read {reader} --verify --bytes 1T --json"),
        );
        pair.quiet_success();
        let seconds = pair.reader.json()["seconds"].as_f64();
        assert!(seconds > Some(0.5), "{}", pair.reader);
    }
}

#[test]
fn ctrl_c_ends_either_side_with_130() {
    if ctrl_c_is_ignored() {
        return skip("Ctrl-C is ignored by whoever started this test");
    }
    // A shell reports a death by SIGINT as 130, too.
    let ended_with_130 = |run: Running| {
        run.interrupt();
        let run = run.finish();
        let status = run.status;
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        assert_eq!(code, Some(130), "{run}");
        assert!(!run.err.contains("panicked"), "{run}");
    };
    for wait in WAITS {
        for way_in in WAYS_IN {
            let (read_end, write_end) = pipe();
            let line = format!("write {way_in} --wait {wait}");
            let writer = start(fullbore(&line), Stdio::null(), write_end);
            until("data in the pipe", || waiting(&read_end) > 0);
            ended_with_130(writer);
        }
        for way_out in WAYS_OUT {
            let (read_end, mut write_end) = pipe();
            write_end.write_all(b"some").expect("room in the pipe");
            let line = format!("read {way_out} --wait {wait}");
            let reader = start(fullbore(&line), read_end, To::Captured);
            until("an empty pipe", || waiting(&write_end) == 0);
            ended_with_130(reader);
        }
    }
}

#[test]
fn inherited_descriptions_are_never_made_nonblocking() {
    for way_in in WAYS_IN {
        for way_out in WAYS_OUT {
            for wait in WAITS {
                let (read_end, write_end) = pipe();
                let kept_read = read_end.try_clone().expect("a duplicate");
                let kept_write = write_end.try_clone().expect("a duplicate");
                // The duplicates keep end of file and EPIPE away: both sides count.
                let line = format!("write {way_in} --wait {wait} --bytes 3000001");
                let mut writer = start(fullbore(&line), Stdio::null(), write_end);
                let line = format!("read {way_out} --wait {wait} --bytes 3000001");
                let mut reader = start(fullbore(&line), read_end, To::Captured);
                loop {
                    // Asked before, so that the flags are looked at once more after both ended.
                    let ended = writer.done() & reader.done();
                    for (end, kept) in [
                        ("read", fcntl_getfl(&kept_read)),
                        ("write", fcntl_getfl(&kept_write)),
                    ] {
                        let flags = kept.expect("flags");
                        let what = format_args!("{end} end, {way_in}, {way_out}, {wait}");
                        assert!(!flags.contains(OFlags::NONBLOCK), "{what}");
                    }
                    if ended {
                        break;
                    }
                    thread::yield_now();
                }
                writer.finish().quiet_success();
                reader.finish().quiet_success();
            }
        }
    }
}

#[test]
fn every_wait_works_on_a_pipe_of_another_user() {
    let stranger = match Stranger::new() {
        Ok(stranger) if stranger.is_another_user() => stranger,
        Ok(_) => return skip("only root can make a pipe for another user"),
        Err(why) => return skip(why),
    };
    for wait in WAITS {
        for way_in in WAYS_IN {
            let pair = pair_of(
                stranger.fullbore(&format!(
                    "write {way_in} --wait {wait} --bytes 1000003 --verify"
                )),
                stranger.fullbore(&format!("read --wait {wait} --verify --json")),
            );
            pair.quiet_success();
            assert_eq!(pair.reader.json()["bytes"], 1_000_003, "{}", pair.reader);
        }
    }
}

#[test]
fn reader_whose_stdout_is_closed_fails_and_whose_result_nobody_reads_succeeds() {
    for form in ["", "--csv", "--json"] {
        let line = format!("read {form} --bytes 4096");

        let mut closed = std::process::Command::new("sh");
        closed
            .arg("-c")
            .arg(format!("exec \"$0\" {line} >&-"))
            .arg(crate::support::BINARY);
        let closed = feed(closed, vec![b'X'; 4096]);

        let (nobody, broken) = pipe();
        drop(nobody);
        let broken = start(fullbore(&line), full_of_data(), broken).finish();

        closed.complains(&[1]);
        assert!(closed.err.contains("standard output"), "{closed}");
        // Nobody wants the result.
        broken.quiet_success();
    }
}

#[test]
fn result_that_cannot_be_written_is_a_failure() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        return skip("no /dev/full");
    };
    for form in ["", "--csv", "--json"] {
        let full = full.try_clone().expect("a duplicate");
        let line = format!("read {form} --bytes 4096");
        let run = start(fullbore(&line), full_of_data(), full).finish();
        run.complains(&[1]);
    }
}

/// A closed pipe with 4096 bytes in it.
fn full_of_data() -> std::io::PipeReader {
    let (read_end, mut write_end) = pipe();
    write_end
        .write_all(&[b'X'; 4096])
        .expect("room in the pipe");
    read_end
}
