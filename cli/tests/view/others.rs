//! `--watchfd` and `--remote`.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Stranger, To, pipe, skip, start, until};
use crate::tools::{as_pv, file_of, view};

/// A process that holds a file open at an offset, until its standard input ends.
fn reader_at(offset: usize) -> std::process::Child {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), vec![0; 1000]).expect("its data");
    let script = format!("exec 7< \"$0\"; head -c {offset} <&7 > /dev/null; echo; read x");
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .arg(file.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    // head reads a buffer full and may not give it back: wait until it is through.
    let mut ready = [0];
    child
        .stdout
        .as_mut()
        .expect("its output")
        .read_exact(&mut ready)
        .expect("a line");
    child
}

#[test]
fn watched_descriptor_shows_its_offset_until_it_is_closed() {
    let mut child = reader_at(1000);
    let line = format!("-n -b -i 0.1 -d {}:7", child.id());
    let running = start(view(&line), Stdio::null(), To::Captured);
    until("two lines", || running.said().lines().count() > 1);
    drop(child.stdin.take());
    child.wait().expect("its end");
    let run = running.finish();
    run_is(&run.err, "1000");
    assert_eq!(run.status.code(), Some(0), "{run}");
    assert_eq!(run.out, "");
}

fn run_is(err: &str, line: &str) {
    assert!(!err.is_empty() && err.lines().all(|l| l == line), "{err:?}");
}

#[test]
fn watched_process_shows_its_files_by_name() {
    let mut child = reader_at(1000);
    let line = format!("-f -p -w 70 -i 0.1 -d {}", child.id());
    let running = start(view(&line), Stdio::null(), To::Captured);
    until("a whole line", || running.said().contains("] 100%"));
    drop(child.stdin.take());
    child.wait().expect("its end");
    let run = running.finish();
    assert_eq!(run.status.code(), Some(0), "{run}");
    assert!(run.err.contains("   7:/"), "{run}");
    assert!(run.err.contains("] 100%"), "{run}");
}

#[test]
fn what_cannot_be_watched_is_named() {
    for (target, code) in [("999999999", 2), ("1:99999", 2)] {
        let run = as_pv(&format!("-d {target}"));
        assert_eq!(run.status.code(), Some(code), "{run}");
        assert!(run.err.starts_with("pv: pid "), "{run}");
    }
    let mut child = reader_at(0);
    let run = start(
        view(&format!("-d {}:0", child.id())),
        Stdio::null(),
        To::Captured,
    )
    .finish();
    run.complains(&[1]);
    assert!(
        run.err.contains("not a regular file or block device"),
        "{run}"
    );
    drop(child.stdin.take());
    child.wait().expect("its end");
}

#[test]
fn remote_changes_the_rate_limit_of_a_running_view() {
    let (read_end, mut write_end) = pipe();
    let output = file_of(b"");
    let running = start(
        view("-q -L 10"),
        read_end,
        output.try_clone().expect("a copy"),
    );
    write_end.write_all(&[b'x'; 60_000]).expect("room");
    drop(write_end);
    let line = format!("-R {} -L 100M", running.pid());
    // It may not listen yet.
    let since = Instant::now();
    loop {
        let run = start(view(&line), Stdio::null(), To::Captured).finish();
        if run.status.success() {
            run.quiet_success();
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{run}");
    }
    running.finish().quiet_success();
    assert_eq!(crate::tools::contents(output).len(), 60_000);
}

#[test]
fn remote_changes_format_size_and_interval() {
    let (read_end, mut write_end) = pipe();
    let null = File::create("/dev/null").expect("/dev/null");
    let running = start(view("-f -i 600 -F old"), read_end, null);
    write_end.write_all(b"12345").expect("room");
    let line = format!(
        "-R {} -s 10 -i 0.1 -F <%b>%{{progress-amount-only}}",
        running.pid()
    );
    until("a listener", || {
        start(view(&line), Stdio::null(), To::Captured)
            .finish()
            .status
            .success()
    });
    drop(write_end);
    let run = running.finish();
    assert_eq!(run.err, "<5.00  B> 50%\r\n", "{run}");
}

#[test]
fn remote_speaks_to_nobody_but_its_own_kind() {
    let run = start(view("-R 999999999 -L 1M"), Stdio::null(), To::Captured).finish();
    run.complains(&[1]);
    let run = as_pv("-R 999999999 -L 1M");
    assert_eq!(run.status.code(), Some(1), "{run}");
    // This very process is no view; a signal would have ended it.
    start(
        view(&format!("-R {} -L 1M", std::process::id())),
        Stdio::null(),
        To::Captured,
    )
    .finish()
    .complains(&[1]);

    let stranger = match Stranger::new() {
        Ok(stranger) if stranger.is_another_user() => stranger,
        Ok(_) => return skip("no other user can be set"),
        Err(why) => return skip(why),
    };
    let (read_end, write_end) = pipe();
    let running = start(view("-q -L 10"), read_end, To::Captured);
    until("a listener", || {
        let line = format!("-R {} -L 11", running.pid());
        start(view(&line), Stdio::null(), To::Captured)
            .finish()
            .status
            .success()
    });
    let line = format!("view -R {} -L 1M", running.pid());
    start(stranger.fullbore(&line), Stdio::null(), To::Captured)
        .finish()
        .complains(&[1]);
    drop(write_end);
    running.finish().quiet_success();
}
