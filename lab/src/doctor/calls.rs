//! The kernel and its system calls: each is tried.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use fullbore_sys::calls::{self, SpliceFlags};
use fullbore_sys::probe;
use fullbore_sys::read::discard::Discard;

use super::ALLOW_CALLS;
use super::Check;
use crate::machine::{Machine, value};
use crate::sys::plain;

/// What the trials showed; errors as text.
pub(super) struct Facts {
    pub(super) release: Option<String>,
    pub(super) pipe: Result<(), String>,
    /// Whether a process of this program could be started; `None` where it does not know its own file.
    pub(super) process: Option<Result<(), String>>,
    pub(super) null: Result<(), String>,
    pub(super) vmsplice_is_by_reference: Result<bool, String>,
    pub(super) fresh: Result<(), String>,
    /// How long a turn takes.
    pub(super) cow: Result<Duration, String>,
    pub(super) fat: Result<(), String>,
    pub(super) splice: Result<(), String>,
    pub(super) tee: Result<(), String>,
    /// Mode and number of filters.
    pub(super) seccomp: Option<(u32, Option<u32>)>,
}

impl Facts {
    pub(super) fn read(machine: &Machine, status: &str, program: Option<PathBuf>) -> Self {
        let text = |e: io::Error| plain(&e);
        let refusal = |refusal: Option<fullbore_sys::Error>| match refusal {
            None => Ok(()),
            Some(e) => Err(e.to_string()),
        };
        let seccomp = value(status, "Seccomp").and_then(|mode| mode.parse().ok());
        let filters = value(status, "Seccomp_filters").and_then(|n| n.parse().ok());
        Self {
            release: machine.kernel.clone(),
            pipe: calls::pipe().map(drop).map_err(text),
            process: program.and_then(|program| match start(&program) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => None,
                other => Some(other.map_err(text)),
            }),
            null: Discard::new().map(drop).map_err(|e| e.to_string()),
            vmsplice_is_by_reference: probe::vmsplice_is_by_reference().map_err(text),
            fresh: refusal(probe::fresh_refusal()),
            cow: refusal(probe::cow_refusal())
                .and_then(|()| probe::turn_takes().map_err(|e| e.to_string())),
            fat: refusal(probe::fat_refusal()),
            splice: move_one(|from, to| calls::splice(from, to, 1, SpliceFlags::NONBLOCK))
                .map_err(text),
            tee: move_one(|from, to| calls::tee(from, to, 1, SpliceFlags::NONBLOCK)).map_err(text),
            seccomp: seccomp.map(|mode| (mode, filters)),
        }
    }
}

/// Runs `program --version`, as the lab starts the two sides of a trial.
fn start(program: &std::path::Path) -> io::Result<()> {
    // Pipes, since there may be no /dev/null. They hold what it says, and are not read: std's way to read two at once
    // panics where poll(2) or ioctl(2) is refused.
    let mut child = Command::new(program)
        .arg("--version")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let status = child.wait()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("it ended with {status}")))
}

/// Whether a call moves one byte from a pipe into another.
fn move_one(
    call: impl Fn(&std::os::fd::OwnedFd, &std::os::fd::OwnedFd) -> io::Result<usize>,
) -> io::Result<()> {
    let (from_read, from_write) = calls::pipe()?;
    let (_to_read, to_write) = calls::pipe()?;
    calls::write(&from_write, b"X")?;
    match call(&from_read, &to_write)? {
        1 => Ok(()),
        n => Err(io::Error::other(format!("{n} bytes moved instead of 1"))),
    }
}

pub(super) fn judge(facts: &Facts) -> Vec<Check> {
    vec![
        pipe(&facts.pipe),
        process(facts.process.as_ref()),
        kernel(facts.release.as_deref()),
        vmsplice(&facts.vmsplice_is_by_reference),
        by_reference(&facts.vmsplice_is_by_reference),
        fresh(&facts.fresh),
        cow(&facts.cow),
        fat(&facts.fat),
        call(
            "splice",
            &facts.splice,
            "data is copied from descriptor to descriptor, and rungs that splice cannot run",
        ),
        call(
            "tee",
            &facts.tee,
            "constant data is written by write(2), at a hundredth of the rate or less",
        ),
        null(&facts.null),
        seccomp(facts.seccomp),
    ]
}

fn pipe(made: &Result<(), String>) -> Check {
    match made {
        Ok(()) => Check::ok("pipe", "a pipe can be made"),
        Err(why) => Check::missing("pipe", format!("no pipe can be made: {why}"))
            .costs("Fullbore cannot work at all")
            .change(format!("ulimit -n 1024, or {ALLOW_CALLS}"))
            .fatal(),
    }
}

fn process(started: Option<&Result<(), String>>) -> Check {
    match started {
        Some(Ok(())) => Check::ok("process", "a process can be started"),
        Some(Err(why)) => Check::missing("process", format!("no process can be started: {why}"))
            .costs("the lab cannot start the two sides of a trial")
            .change(format!("ulimit -u unlimited, or {ALLOW_CALLS}"))
            .fatal(),
        None => Check::missing("process", "this program does not find its own file")
            .costs("the lab cannot start the two sides of a trial; the pair by hand works")
            .change("mount -t proc proc /proc"),
    }
}

/// Major and minor number of a release such as `6.18.44-fc`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// What older kernels lack, newest first: what it costs not to have the first version that has it.
const SINCE: [((u32, u32), &str); 4] = [
    ((6, 7), "before 6.7 /dev/zero cannot be spliced from"),
    (
        (5, 6),
        "before 5.6 a pipe wakes all who sleep on it, where one would do",
    ),
    (
        (4, 14),
        "before 4.14 no memory is wiped on fork (MADV_WIPEONFORK): fresh and fat slots are refused",
    ),
    ((2, 6), "there is no splice, tee or vmsplice"),
];

fn kernel(release: Option<&str>) -> Check {
    let id = "kernel";
    let Some(release) = release else {
        return Check::unknown(id, "/proc/sys/kernel/osrelease cannot be read")
            .change("mount -t proc proc /proc");
    };
    let Some(version) = version(release) else {
        return Check::unknown(id, format!("{release} is no version of Linux known here"));
    };
    let lacks: Vec<_> = SINCE
        .iter()
        .filter(|(first, _)| version < *first)
        .map(|&(_, what)| what)
        .collect();
    if !lacks.is_empty() {
        return Check::slow(id, release)
            .costs(lacks.join("; "))
            .change("boot Linux 6.7 or later");
    }
    let write = if version < (7, 2) {
        "write(2) allocates its pages while it holds the pipe's mutex (until 7.2), vmsplice, tee and fat slots do not"
    } else {
        "write(2) allocates up to 8 pages before it takes the pipe's mutex (since 7.2)"
    };
    Check::ok(
        id,
        format!("{release}: all that Fullbore uses is there; {write}"),
    )
}

fn vmsplice(by_reference: &Result<bool, String>) -> Check {
    match by_reference {
        Ok(_) => Check::ok("vmsplice", "permitted"),
        Err(why) => Check::missing("vmsplice", format!("refused: {why}"))
            .costs("new data goes by fat slots or write(2), at about 0.7 or 0.3 of the speed; vmsplice rungs cannot run")
            .change(ALLOW_CALLS),
    }
}

fn by_reference(by_reference: &Result<bool, String>) -> Check {
    let id = "vmsplice-by-reference";
    match by_reference {
        Ok(true) => Check::ok(id, "a page changed after vmsplice is seen changed: it lends pages"),
        Ok(false) => Check::missing(id, "a page changed after vmsplice is seen as it was: it copies")
            .costs("new data goes by fat slots or write(2), at about 0.7 or 0.3 of the speed; vmsplice rungs measure a copy")
            .change("boot a kernel whose vmsplice lends pages"),
        Err(_) => Check::unknown(id, "cannot be tried where vmsplice is refused"),
    }
}

fn fresh(refusal: &Result<(), String>) -> Check {
    match refusal {
        Ok(()) => Check::ok("fresh", "new data can be lent to a pipe in huge pages"),
        Err(why) => Check::missing("fresh", why)
            .costs("new data goes by fat slots or write(2), at about 0.7 or 0.3 of the speed")
            .change("see vmsplice and huge pages"),
    }
}

fn cow(turn: &Result<Duration, String>) -> Check {
    match turn {
        Ok(turn) => Check::ok(
            "cow",
            format!(
                "pages that were lent can be made copy-on-write and written again; to make them so takes {} µs in this process",
                turn.as_micros()
            ),
        ),
        Err(why) => Check::missing("cow", why)
            .costs("programs that would allow it take new pages for new data, or copy it")
            .change(ALLOW_CALLS),
    }
}

fn fat(refusal: &Result<(), String>) -> Check {
    match refusal {
        Ok(()) => Check::ok("fat-slots", "32 KiB through a socket make one slot"),
        Err(why) => Check::missing("fat-slots", why)
            .costs("constant data is written by write(2), at a hundredth of the rate or less, and new data as well where fresh cannot be had")
            .change(ALLOW_CALLS),
    }
}

fn call(id: &'static str, moved: &Result<(), String>, costs: &str) -> Check {
    match moved {
        Ok(()) => Check::ok(id, "permitted"),
        Err(why) => Check::missing(id, format!("refused: {why}"))
            .costs(costs)
            .change(ALLOW_CALLS),
    }
}

fn null(opened: &Result<(), String>) -> Check {
    match opened {
        Ok(()) => Check::ok("dev-null", "can be written"),
        Err(why) => Check::missing("dev-null", why)
            .costs("nothing can be dropped unread: no reader by splice or relay, no gup")
            .change("sudo mknod -m 666 /dev/null c 1 3"),
    }
}

fn seccomp(seccomp: Option<(u32, Option<u32>)>) -> Check {
    let id = "seccomp";
    match seccomp {
        None => Check::unknown(id, "/proc/self/status cannot be read, or does not say"),
        Some((0, _)) => Check::ok(id, "no filter"),
        Some((_, filters)) => {
            let many = match filters {
                None => "filters look".to_owned(),
                Some(1) => "1 filter looks".to_owned(),
                Some(n) => format!("{n} filters look"),
            };
            Check::slow(id, format!("{many} at every system call"))
                .costs("some of the time of each call (see system-call), and the calls they refuse (see above)")
                .change("docker run --security-opt seccomp=unconfined, where you trust what runs")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckState;

    #[test]
    fn versions_are_read_as_distributions_write_them() {
        assert_eq!(version("6.18.44-fc-v595"), Some((6, 18)));
        assert_eq!(version("5.4.0-150-generic"), Some((5, 4)));
        assert_eq!(version("7.2-rc1"), Some((7, 2)));
        assert_eq!(version("4.18.0-553.el8_10.x86_64"), Some((4, 18)));
        for wrong in ["", "6", "linux", "6.x"] {
            assert_eq!(version(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn older_kernels_cost_what_they_lack() {
        let state = |release| kernel(Some(release)).state;
        assert_eq!(state("6.7.0"), CheckState::Ok);
        assert_eq!(state("6.6.87-1"), CheckState::Costs);
        assert_eq!(kernel(None).state, CheckState::Unknown);
        assert_eq!(state("Haiku"), CheckState::Unknown);
        let costs = |release| kernel(Some(release)).costs.unwrap();
        assert!(!costs("5.15").contains("5.6"));
        assert!(costs("5.4.0").contains("5.6") && costs("5.4.0").contains("6.7"));
        assert!(costs("3.10.0-1160.el7").contains("MADV_WIPEONFORK"));
        assert!(kernel(Some("6.18")).found.contains("until 7.2"));
        assert!(kernel(Some("7.2")).found.contains("since 7.2"));
    }

    #[test]
    fn vmsplice_that_copies_or_is_refused_is_missing() {
        assert_eq!(vmsplice(&Ok(false)).state, CheckState::Ok);
        assert_eq!(by_reference(&Ok(false)).state, CheckState::Missing);
        assert_eq!(by_reference(&Ok(true)).state, CheckState::Ok);
        let refused = Err("Operation not permitted".to_owned());
        assert_eq!(vmsplice(&refused).state, CheckState::Missing);
        assert_eq!(by_reference(&refused).state, CheckState::Unknown);
    }

    #[test]
    fn only_what_nothing_works_without_is_fatal() {
        let no = || Err("Too many open files".to_owned());
        assert!(pipe(&no()).is_fatal);
        assert!(process(Some(&no())).is_fatal);
        assert!(!process(None).is_fatal);
        assert!(!vmsplice(&Err(String::new())).is_fatal);
        assert!(!fat(&no()).is_fatal);
    }

    #[test]
    fn filters_are_counted_where_the_kernel_counts_them() {
        assert_eq!(seccomp(Some((0, Some(0)))).state, CheckState::Ok);
        assert_eq!(seccomp(None).state, CheckState::Unknown);
        assert!(
            seccomp(Some((2, Some(1))))
                .found
                .starts_with("1 filter looks")
        );
        assert!(
            seccomp(Some((2, Some(3))))
                .found
                .starts_with("3 filters look")
        );
        assert!(seccomp(Some((2, None))).found.starts_with("filters look"));
    }
}
