//! Signals that come while a tool sleeps in the kernel.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;

use rustix::process::{Signal, kill_process};

use crate::support::kinds::{MIB, feed, seeded};
use crate::support::state::{until_it_waits, until_stopped, waiting};
use crate::support::{ctrl_c_is_ignored, fullbore, pipe, skip, start};
use crate::{ALL_WAYS, MOVERS};

#[test]
fn stopped_and_continued_tools_lose_nothing() {
    let data = &seeded()[..6 * MIB];
    for line in ALL_WAYS {
        let ((input, ours), (mut out, output)) = (pipe(), pipe());
        let run = start(fullbore(line), input, output);
        let pid = run.pid();
        let feeding = feed(ours, data);
        let mut got = vec![0; data.len()];
        for piece in got.chunks_mut(MIB / 2) {
            // Asleep for want of room; then, when the pipe was read empty, wherever it is.
            kill_process(pid, Signal::STOP).expect("a signal");
            until_stopped(pid);
            kill_process(pid, Signal::CONT).expect("a signal");
            out.read_exact(piece).expect("all of it");
        }
        assert!(feeding.join().expect("a feeder"));
        assert!(got == data, "{line}");
        run.finish().quiet_success();
        assert_eq!(out.read(&mut [0]).expect("the end"), 0, "{line}");
    }
}

/// Stopped while it waits for input, which comes, and ends, before it goes on.
#[test]
fn what_comes_while_a_tool_is_stopped_is_moved_afterwards() {
    let data = &seeded()[..30_000];
    for line in ALL_WAYS {
        let ((input, ours), (mut out, output)) = (pipe(), pipe());
        let run = start(fullbore(line), input, output);
        until_it_waits(run.pid(), || 0);
        kill_process(run.pid(), Signal::STOP).expect("a signal");
        until_stopped(run.pid());
        assert!(feed(ours, data).join().expect("a feeder"));
        kill_process(run.pid(), Signal::CONT).expect("a signal");
        let mut got = Vec::new();
        out.read_to_end(&mut got).expect("all of it");
        assert!(got == data, "{line}: {} bytes", got.len());
        run.finish().quiet_success();
    }
}

/// Ctrl-C ends `view` with 130, after its own work, and kills the others; what had arrived then is a beginning of the data.
#[test]
fn interrupts_end_a_tool_that_waits() {
    if ctrl_c_is_ignored() {
        return skip("Ctrl-C is ignored by whoever started this test");
    }
    let data = &seeded()[..16 * MIB];
    for line in MOVERS.into_iter().chain(["view -ql", "view -qC"]) {
        for (waits_for, len) in [("input", 10_000), ("room", data.len())] {
            let ((input, ours), (mut out, output)) = (pipe(), pipe());
            let run = start(fullbore(line), input, output);
            let held = ours.try_clone().expect("a copy");
            let feeding = feed(ours, &data[..len]);
            // Asleep, when this is not the last that can be read now.
            let mut got = vec![0; 10_000];
            out.read_exact(&mut got).expect("a beginning");
            until_it_waits(run.pid(), || waiting(&out));
            run.interrupt();
            let run = run.finish();
            let ended = (run.status.code(), run.status.signal());
            let expected = if line.starts_with("view") {
                (Some(130), None)
            } else {
                (None, Some(2))
            };
            assert_eq!(ended, expected, "waiting for {waits_for}: {run}");
            assert_eq!(run.err, "", "{run}");
            out.read_to_end(&mut got).expect("what had arrived");
            assert!(data.starts_with(&got), "{line}: {} bytes", got.len());
            drop(held);
            feeding.join().expect("a feeder");
        }
    }
}
