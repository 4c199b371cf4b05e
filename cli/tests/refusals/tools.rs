//! The tools: what arrives is what went in, or the beginning of it and an error.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::support::kinds::{contents, file_of, source};
use crate::support::{BINARY, fullbore};
use crate::{Extent, Refused, each, ended, ended_well};

/// A tool at work.
struct Job {
    line: &'static str,
    /// Where its input comes from.
    from: &'static str,
    /// Where its output goes: a pipe, or a file.
    to: &'static str,
}

const fn job(line: &'static str, from: &'static str, to: &'static str) -> Job {
    Job { line, from, to }
}

const JOBS: &[Job] = &[
    job("cat", "pipe", "pipe"),
    job("cat", "file", "pipe"),
    job("cat", "file", "file"),
    job("cat", "unix socket", "pipe"),
    job("cat -n", "file", "pipe"),
    job("tee", "pipe", "pipe"),
    job("view -q", "pipe", "pipe"),
    job("view -q", "file", "file"),
    job("view -ql", "file", "pipe"),
    job("view -qC", "pipe", "file"),
    job("view -f -i 0.1", "unix socket", "pipe"),
    job("yes word", "nothing", "pipe"),
    job("fizzbuzz --count 30000", "nothing", "pipe"),
];

/// Not a whole number of pages, and more than a pipe holds as it comes. Little, since every run is a copy of this process at
/// first.
fn data() -> &'static [u8] {
    static DATA: OnceLock<Vec<u8>> = OnceLock::new();
    DATA.get_or_init(|| {
        let words =
            (0..40_001_u64).flat_map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        words.chain([10, 11, 12]).collect()
    })
}

/// What is taken of an output that never ends.
const ENOUGH: usize = 300_000;

/// A run of a job, with what arrived, and with what arrived in tee's file.
struct Moved {
    result: Result<bool, String>,
    got: Vec<u8>,
    copy: Option<Vec<u8>>,
}

/// Runs a job as `command`, which has its words.
fn run(job: &Job, mut command: Command, is_mute: bool) -> Moved {
    let copy = job.line.starts_with("tee").then(|| {
        let copy = tempfile::NamedTempFile::new().expect("a file");
        command.arg(copy.path());
        copy
    });
    let stdin: Stdio = match job.from {
        "nothing" => Stdio::null(),
        "file" => file_of(data()).into(),
        kind => source(kind, data()).into(),
    };
    let said = tempfile::tempfile().expect("a file");
    let most = match job.line {
        "yes word" => ENOUGH,
        _ => usize::MAX,
    };
    command
        .stdin(stdin)
        .stderr(said.try_clone().expect("a copy"));
    let (status, got) = match job.to {
        "file" => {
            let output = file_of(b"");
            command.stdout(output.try_clone().expect("a copy"));
            let mut child = command.spawn().expect("a child");
            (ended(&mut child), contents(output))
        }
        _ => {
            let (ours, theirs) = std::io::pipe().expect("a pipe");
            command.stdout(theirs);
            let mut child = command.spawn().expect("a child");
            drop(command); // and with it the write end
            let reader = std::thread::spawn(move || {
                let mut got = Vec::new();
                let _ = ours.take(most as u64).read_to_end(&mut got);
                got
            });
            let status = ended(&mut child);
            (status, reader.join().expect("a reader"))
        }
    };
    let said = String::from_utf8_lossy(&contents(said)).into_owned();
    let what = format!("{} from {} to {}", job.line, job.from, job.to);
    Moved {
        result: ended_well(&what, status, &said, is_mute),
        got,
        copy: copy.map(|copy| {
            let mut bytes = Vec::new();
            let mut file = File::open(copy.path()).expect("it");
            file.rewind()
                .and_then(|()| file.read_to_end(&mut bytes))
                .expect("its contents");
            bytes
        }),
    }
}

/// What each job moves where nothing is refused.
fn expected(job: usize) -> &'static [u8] {
    static EXPECTED: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let all = EXPECTED.get_or_init(|| {
        let undisturbed = |job: &Job| {
            let moved = run(job, fullbore(job.line), false);
            assert_eq!(moved.result, Ok(true), "{}", job.line);
            assert!(!moved.got.is_empty(), "{}", job.line);
            moved.got
        };
        JOBS.iter().map(undisturbed).collect()
    });
    &all[job]
}

fn check(job: usize, refused: Refused) -> Result<(), String> {
    let mut command = fullbore(JOBS[job].line);
    refused.apply(&mut command);
    compare(job, run(&JOBS[job], command, refused.is_mute()))
}

/// Everything, or the beginning of it where an error was told.
fn compare(job: usize, moved: Moved) -> Result<(), String> {
    let all = moved.result?;
    let what = format!("{} from {}", JOBS[job].line, JOBS[job].from);
    for got in [Some(moved.got), moved.copy].into_iter().flatten() {
        let right = match all {
            true => got == expected(job),
            false => expected(job).starts_with(&got),
        };
        if !right {
            let (got, all) = (got.len(), expected(job).len());
            return Err(format!("{what}: {got} of {all} bytes, or other ones"));
        }
    }
    Ok(())
}

#[test]
fn tools_move_everything_or_say_why_not() {
    each(Extent::Some, JOBS.len(), check);
}

#[test]
fn limits_of_a_process_lose_nothing_in_silence() {
    let limits = [
        "-n 4", "-n 5", "-n 6", "-n 7", "-n 8", "-n 10", "-v 60000", "-f 1",
    ];
    for limit in limits {
        for (i, job) in JOBS.iter().enumerate() {
            let mut limited = Command::new("sh");
            limited.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\"")]);
            limited.arg(BINARY).args(job.line.split_whitespace());
            let moved = run(job, limited, false);
            // A file that may not grow ends any program that does not ask for EFBIG.
            let is_ended_by_it = |why: &String| why.contains("died by signal 25");
            if limit == "-f 1" && moved.result.as_ref().is_err_and(is_ended_by_it) {
                assert!(expected(i).starts_with(&moved.got), "{}", job.line);
                continue;
            }
            if let Err(why) = compare(i, moved) {
                panic!("ulimit {limit}: {why}");
            }
        }
    }
}

#[test]
#[ignore = "every errno: minutes"]
fn tools_move_everything_or_say_why_not_whatever_the_errno() {
    each(Extent::All, JOBS.len(), check);
}
