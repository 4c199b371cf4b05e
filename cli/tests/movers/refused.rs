//! Kernels without a system call, sandboxes that refuse one, and users who may have no more pipe memory: everything arrives
//! all the same, and `--explain` says how, and why not in a better way.

use std::io;
use std::process::Command;

use libc::{EBUSY, EINVAL, EMFILE, ENOSYS, EPERM};

use crate::support::kinds::{MIB, Sink, seeded, source};
use crate::support::{fullbore, seccomp, skip, start};

const TOOLS: [&str; 4] = ["cat", "tee", "view -q", "view -ql"];

const MIXES: [(&str, &str); 6] = [
    ("pipe", "pipe"),
    ("file", "pipe"),
    ("pipe", "file"),
    ("unix socket", "pipe"),
    ("unix socket", "tcp socket"),
    ("file", "file for appending"),
];

const SPLICE: &str = "splice";
const RELAY: &str = "splice through a private pipe";
const COPY: &str = "read and write";

/// The way from one kind to the other where nothing is refused.
fn usual(tool: &str, from: &str, to: &str) -> &'static str {
    match (tool, from, to) {
        (_, _, "file for appending") => COPY,
        ("cat" | "view -q", "pipe", "pipe") => SPLICE,
        _ => RELAY,
    }
}

/// Moves some MiB by each tool and through each mix, where the kernel refuses what `refuse` says, by each of these errors.
/// `way` says for a tool and a mix how the bytes have to go, and whether the reason is the refusal.
#[track_caller]
fn all_arrives(
    errors: &[i32],
    refuse: impl Fn(&mut Command, i32),
    way: impl Fn(&str, &str, &str) -> (&'static str, bool),
) {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    // Not a whole number of pages, and more than any pipe holds.
    let data = &seeded()[..3 * MIB + 5];
    for (i, &errno) in errors.iter().enumerate() {
        let text = io::Error::from_raw_os_error(errno).to_string();
        let why = text.split(" (os error").next().expect("a text");
        for tool in TOOLS {
            // Errors differ only in whether they are taken for a refusal.
            let mixes = if i == 0 { &MIXES[..] } else { &MIXES[..1] };
            for &(from, to) in mixes {
                let what = format!("{tool} from {from} to {to}");
                let output = Sink::new(to, data);
                let other = tool.starts_with("tee").then(|| Sink::new("pipe", data));
                let mut command = fullbore(&format!("{tool} --explain"));
                command.args(other.as_ref().map(Sink::path));
                refuse(&mut command, errno);
                let run = start(command, source(from, data), output.stdio()).finish();
                assert_eq!(run.status.code(), Some(0), "{what}: {run}");
                for output in [output].into_iter().chain(other) {
                    output.check(&what);
                }
                let (route, is_reason) = way(tool, from, to);
                assert_eq!(route_of(&run.err), route, "{what}: {run}");
                if is_reason {
                    assert!(run.err.contains(why), "{what}: {run}");
                }
            }
        }
    }
}

/// The way that `--explain` names first.
fn route_of(told: &str) -> &str {
    let line = told.lines().next().unwrap_or_default();
    let way = line
        .split_once("path of (stdin): ")
        .or_else(|| line.split_once(" by "));
    let way = way.map_or(line, |(_, way)| way);
    way.split([',', ';']).next().unwrap_or_default()
}

#[test]
fn larger_pipes_may_be_refused() {
    all_arrives(
        &[EPERM, EBUSY, ENOSYS],
        |command, errno| {
            let set_pipe_size = libc::F_SETPIPE_SZ as u32;
            seccomp::refuse_value(command, libc::SYS_fcntl, 1, set_pipe_size, errno);
        },
        |tool, from, to| (usual(tool, from, to), false),
    );
}

#[test]
fn private_pipes_may_be_refused() {
    all_arrives(
        &[EMFILE, EPERM, ENOSYS],
        |command, errno| seccomp::refuse(command, &[libc::SYS_pipe2], errno),
        |tool, from, to| match (tool, from, to) {
            ("cat" | "view -q", "pipe", "pipe") => (SPLICE, false),
            // Splice wants one pipe, and there is one.
            ("cat" | "view -q", "pipe", _) | ("cat" | "view -q", _, "pipe") => (SPLICE, true),
            ("cat" | "view -q", _, "file for appending") => (COPY, false),
            _ => (COPY, true),
        },
    );
}

#[test]
fn splice_may_be_refused() {
    all_arrives(
        &[EPERM, ENOSYS, EINVAL],
        |command, errno| seccomp::refuse(command, &[libc::SYS_splice], errno),
        |_, _, to| (COPY, to != "file for appending"),
    );
}

#[test]
fn tee_may_be_refused() {
    all_arrives(
        &[EPERM, ENOSYS, EINVAL],
        |command, errno| seccomp::refuse(command, &[libc::SYS_tee], errno),
        |tool, from, to| match tool {
            "tee" | "view -ql" => (COPY, true),
            _ => (usual(tool, from, to), false),
        },
    );
}
