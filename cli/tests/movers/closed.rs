//! Outputs whose reader goes away: at once, while the tool waits for room, while it waits for input.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::support::kinds::{MIB, feed, seeded};
use crate::support::state::{until_it_waits, waiting};
use crate::support::{Links, Run, Running, command, fullbore, pipe, start};

const SIGPIPE: i32 = 13;

/// By our own name a tool has succeeded then; as `cat` and `tee` it dies by SIGPIPE, and as `pv` it ends with 0.
fn each(work: impl Fn(Command) -> Run) {
    let links = Links::new(&["cat", "tee", "pv"]);
    for (link, line, dies) in [
        ("", "cat", false),
        ("", "cat -n", false),
        ("", "tee", false),
        ("", "view -q", false),
        ("", "view -ql", false),
        ("", "view -qC", false),
        ("cat", "", true),
        ("cat", "-n", true),
        ("tee", "", true),
        ("tee", "-p", false),
        ("pv", "-q", false),
    ] {
        let run = work(match link {
            "" => fullbore(line),
            link => command(links.path(link), line),
        });
        let signal = dies.then_some(SIGPIPE);
        assert_eq!(run.status.signal(), signal, "{run}");
        assert_eq!(run.status.code(), (!dies).then_some(0), "{run}");
        assert_eq!(run.err, "", "{run}");
    }
}

/// From a pipe to a pipe.
fn begin(command: Command) -> (PipeWriter, Running, PipeReader) {
    let ((input, ours), (out, output)) = (pipe(), pipe());
    (ours, start(command, input, output), out)
}

/// One line goes through, and its reader away, which the tool finds out or waits for more.
fn leave_after_one_line(run: &Running, ours: &mut PipeWriter, mut out: PipeReader) {
    ours.write_all(b"a\n").expect("a reader");
    let mut got = [0; 100];
    let n = out.read(&mut got).expect("a line");
    assert!(got[..n].ends_with(b"a\n"));
    drop(out);
    until_it_waits(run.pid(), || 0);
}

#[test]
fn reader_that_leaves_while_there_is_no_room_ends_it() {
    each(|command| {
        let (ours, run, mut out) = begin(command);
        feed(ours, &seeded()[..16 * MIB]);
        let mut got = [0; 1000];
        out.read_exact(&mut got).expect("a beginning");
        // It has filled all pipes and fallen asleep.
        until_it_waits(run.pid(), || waiting(&out));
        drop(out);
        run.finish()
    });
}

#[test]
fn reader_that_leaves_while_there_is_no_input_is_noticed_with_the_next() {
    each(|command| {
        let (mut ours, run, out) = begin(command);
        leave_after_one_line(&run, &mut ours, out);
        let _ = ours.write_all(b"b\n"); // `tee -p` looks out for its reader, and has ended
        // This end stays open: it is not the end of the input that ends the tool.
        let run = run.finish();
        drop(ours);
        run
    });
}

/// Whoever reads one line of one line has left before the end of the input comes.
#[test]
fn reader_that_leaves_when_it_has_everything_is_no_error() {
    let links = Links::new(&["cat", "tee", "pv"]);
    let own = crate::ALL_WAYS.map(fullbore);
    let as_others = [("cat", ""), ("cat", "-n"), ("tee", ""), ("pv", "-q")]
        .map(|(link, line)| command(links.path(link), line));
    for command in own.into_iter().chain(as_others) {
        let (mut ours, run, out) = begin(command);
        leave_after_one_line(&run, &mut ours, out);
        drop(ours);
        run.finish().quiet_success();
    }
}

#[test]
fn input_that_ends_while_there_is_no_room_is_delivered() {
    for line in crate::ALL_WAYS {
        let (ours, run, mut out) = begin(fullbore(line));
        let data = &seeded()[..5 * MIB];
        let feeding = feed(ours, data);
        until_it_waits(run.pid(), || waiting(&out));
        let mut got = Vec::new();
        out.read_to_end(&mut got).expect("all of it");
        assert!(feeding.join().expect("a feeder"));
        assert!(got == data, "{line}: {} bytes", got.len());
        run.finish().quiet_success();
    }
}

/// Where SIGPIPE is ignored, as some shells and services have it, a stand-in reports the error if its original does.
#[test]
fn stand_ins_report_a_broken_pipe_where_sigpipe_is_ignored() {
    let links = Links::new(&["cat", "tee"]);
    for (link, code, told) in [
        ("cat", 1, "cat: write error: Broken pipe\n"),
        ("tee", 0, ""),
        (
            "tee --output-error=warn",
            1,
            "tee: 'standard output': Broken pipe\n",
        ),
    ] {
        let mut words = link.split(' ');
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "trap '' PIPE; exec \"$0\" \"$@\""])
            .arg(links.path(words.next().unwrap_or_default()))
            .args(words);
        let (ours, run, out) = begin(shell);
        feed(ours, &seeded()[..16 * MIB]);
        drop(out);
        let run = run.finish();
        assert_eq!(run.err, told, "{run}");
        assert_eq!(run.status.code(), Some(code), "{run}");
    }
}

/// However a writer waits for room, the end of its reader ends it.
#[test]
fn writers_without_input_end_with_their_reader() {
    let mut lines: Vec<_> = ["yes", "fizzbuzz", "fizzbuzz --threads 2"]
        .map(str::to_owned)
        .into();
    for with in ["write", "vmsplice", "fresh", "fat", "tee"] {
        for wait in ["block", "poll", "spin", "poll-spin", "adaptive"] {
            lines.push(format!("write --with {with} --wait {wait}"));
        }
    }
    for line in lines {
        let (mut out, output) = pipe();
        let run = start(fullbore(&line), Stdio::null(), output);
        let begun = out.read(&mut [0; 1000]).expect("a pipe");
        if begun > 0 {
            until_it_waits(run.pid(), || waiting(&out));
        }
        drop(out);
        let run = run.finish();
        // A way that is refused here ends at once, and says so.
        if begun > 0 {
            run.quiet_success();
        }
    }
}
