//! Pipes that others hold, too: who read from them, write to them, or change how much they take.

use std::io::{PipeReader, Read, Write};
use std::thread;
use std::time::Duration;

use rustix::pipe::fcntl_setpipe_size;

use crate::support::kinds::{MIB, feed, seeded};
use crate::support::{fullbore, pipe, start};
use crate::{ALL_WAYS, MOVERS, Stop};

/// Reads to the end, now fast, now with pauses.
fn read_all(mut out: PipeReader) -> Vec<u8> {
    let mut got = Vec::new();
    let mut buffer = vec![0; 100_000];
    for i in 0_u32.. {
        match out.read(&mut buffer).expect("data") {
            0 => break,
            n => got.extend(&buffer[..n]),
        }
        if i.is_multiple_of(8) {
            thread::sleep(Duration::from_millis(1));
        }
    }
    got
}

/// One tool finds its input empty, or its output full, that was not so a moment before.
#[test]
fn two_tools_may_share_both_pipes() {
    let data = &seeded()[..8 * MIB];
    for line in MOVERS {
        let ((input, ours), (out, output)) = (pipe(), pipe());
        let (same_input, same_output) = (
            input.try_clone().expect("a copy"),
            output.try_clone().expect("a copy"),
        );
        let runs = [
            start(fullbore(line), input, output),
            start(fullbore(line), same_input, same_output),
        ];
        let feeding = feed(ours, data);
        let got = read_all(out);
        assert!(feeding.join().expect("a feeder"));
        for run in runs {
            run.finish().quiet_success();
        }
        // Pages stay whole: they are written, and move, as such. Their order is nobody's.
        let pages = |bytes| {
            let mut pages: Vec<&[u8]> = <[u8]>::chunks(bytes, 4096).collect();
            pages.sort_unstable();
            pages
        };
        assert!(pages(&got) == pages(data), "{line}: {} bytes", got.len());
    }
}

/// Lines that others write into the output stay whole, and all of them come.
#[test]
fn others_may_write_to_the_output() {
    let data = &[b'.'; 4 * MIB][..];
    for line in ALL_WAYS {
        let ((input, mut ours), (out, output)) = (pipe(), pipe());
        let mut theirs = output.try_clone().expect("a copy");
        let run = start(fullbore(line), input, output);
        let feeding = thread::spawn(move || ours.write_all(data));
        let writing = thread::spawn(move || {
            for _ in 0..300 {
                theirs.write_all(b"<line>").expect("a reader");
                thread::sleep(Duration::from_micros(100));
            }
        });
        let got = String::from_utf8(read_all(out)).expect("text");
        feeding.join().expect("a feeder").expect("a reader");
        writing.join().expect("a writer");
        run.finish().quiet_success();
        assert_eq!(got.matches("<line>").count(), 300, "{line}");
        assert_eq!(got.matches('.').count(), data.len(), "{line}");
        assert_eq!(got.len(), data.len() + 300 * 6, "{line}");
    }
}

/// Whoever holds an end of a pipe may make it larger or smaller at any time.
#[test]
fn capacities_may_change_meanwhile() {
    let data = &seeded()[..6 * MIB];
    for line in ALL_WAYS {
        let ((input, ours), (out, output)) = (pipe(), pipe());
        let shared = [
            input.try_clone().expect("a copy").into(),
            // Of the reader's end: this is not to keep the end of the data away.
            std::os::fd::OwnedFd::from(out.try_clone().expect("a copy")),
        ];
        let run = start(fullbore(line), input, output);
        let stop = Stop::default();
        thread::scope(|scope| {
            let _stop = stop.at_the_end();
            scope.spawn(|| {
                let sizes = [1, 64 << 10, 1 << 13, 1 << 20, 1 << 12, 1 << 18];
                for (i, &size) in sizes.iter().cycle().enumerate() {
                    if stop.is_told() {
                        break;
                    }
                    // Refused where it holds more.
                    let _ = fcntl_setpipe_size(&shared[i % 2], size);
                    thread::sleep(Duration::from_micros(100));
                }
            });
            let feeding = feed(ours, data);
            let got = read_all(out);
            assert!(feeding.join().expect("a feeder"));
            assert!(got == data, "{line}: {} bytes", got.len());
        });
        run.finish().quiet_success();
    }
}
