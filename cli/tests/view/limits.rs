//! `--rate-limit` and `--stop-at-size`.

use std::io::{Read, Seek};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{To, start};
use crate::tools::{file_of, view};

fn time_of(line: &str, data: &[u8]) -> (Duration, String) {
    let since = Instant::now();
    let run = start(view(line), file_of(data), To::Captured).finish();
    run.quiet_success();
    (since.elapsed(), run.out)
}

#[test]
fn rate_limit_holds_bytes_and_lines_back() {
    for line in ["-qL 100k", "-qCL 100k", "-qk -L 102.4k"] {
        let (time, out) = time_of(line, &[b'x'; 50 << 10]);
        assert_eq!(out.len(), 50 << 10);
        // At the rate, half a second; the upper bound is for loaded machines.
        assert!(time > Duration::from_millis(400), "{line}: {time:?}");
        assert!(time < Duration::from_secs(10), "{line}: {time:?}");
    }
    let long = format!("{}\n", "x".repeat(999)).repeat(10);
    let (time, out) = time_of("-qlL 20", long.as_bytes());
    assert_eq!(out.len(), 10_000);
    assert!(time > Duration::from_millis(350), "{time:?}");
}

#[test]
fn stop_at_size_takes_no_byte_more_from_the_input() {
    for line in ["-q", "-qC", "-q -A 5", "-f", "-qT"] {
        let mut input = file_of(b"0123456789");
        let stdin = Stdio::from(input.try_clone().expect("a copy"));
        let run = start(view(&format!("{line} -S -s 4")), stdin, To::Captured).finish();
        assert_eq!(
            (run.status.code(), run.out.as_str()),
            (Some(0), "0123"),
            "{run}"
        );
        assert_eq!(input.stream_position().expect("its offset"), 4, "{line}");
        let mut rest = String::new();
        input.read_to_string(&mut rest).expect("the rest");
        assert_eq!(rest, "456789");
    }
    // As in pv, which takes it for a size that is not known.
    let (_, out) = time_of("-q -S -s 0", b"data");
    assert_eq!(out, "data");
    let (_, out) = time_of("-ql -S -s 2", b"one\ntwo\nthree\n");
    assert_eq!(out, "one\ntwo\n");
}
