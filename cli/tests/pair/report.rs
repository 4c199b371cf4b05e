//! What `read` says about what it did.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::state::until_it_waits;
use crate::support::{
    Run, To, can_lock_memory, feed, fullbore, has_transparent_huge_pages, pair, pipe, skip, start,
};
use crate::{WAITS, WAYS_IN, WAYS_OUT};

/// The capacity a pipe of this user starts with, which is smaller for those who hold many.
fn usual_capacity() -> usize {
    rustix::pipe::fcntl_getpipe_size(pipe().0).expect("a capacity")
}

/// Iterations and piped size of the human line, which has to be the original's:
/// `^\d+(\.\d)?GiB/s, 256KiB buffer, \d+ iterations \(.* piped\)$`.
#[track_caller]
fn human(run: &Run) -> (u64, &str) {
    let parts = || {
        let line = run.out.strip_suffix('\n')?;
        let (speed, line) = line.split_once("GiB/s, 256KiB buffer, ")?;
        let (iterations, line) = line.split_once(" iterations (")?;
        let piped = line.strip_suffix(" piped)")?;
        let (whole, tenth) = speed.split_once('.').unwrap_or((speed, "0"));
        let sound = whole.parse::<u32>().is_ok() && tenth.len() == 1 && tenth.parse::<u8>().is_ok();
        (sound && !line.contains('\n')).then_some((iterations.parse().ok()?, piped))
    };
    parts().unwrap_or_else(|| panic!("not the human line: {run}"))
}

const FIELDS: [&str; 14] = [
    "gigabytes_per_second",
    "bytes_to_pipe",
    "buf_size",
    "pipe_size",
    "busy_loop",
    "poll",
    "huge_page",
    "check_huge_page",
    "write_with_vmsplice",
    "read_with_splice",
    "gift",
    "lock_memory",
    "dont_touch_pages",
    "same_buffer",
];

/// The one line of `--csv` as names and values, after the speed.
#[track_caller]
fn csv(run: &Run) -> Vec<(&'static str, usize)> {
    run.quiet_success();
    assert_eq!(run.out.lines().count(), 1, "{run}");
    let fields: Vec<&str> = run.out.trim_end().split(',').collect();
    assert_eq!(fields.len(), FIELDS.len(), "{run}");
    let speed: f64 = fields[0].parse().expect("a speed");
    assert!(speed.is_finite() && speed >= 0.0, "{run}");
    let values = fields[1..].iter().map(|value| {
        let number = value.parse();
        number.unwrap_or_else(|_| panic!("{value:?} is no whole number: {run}"))
    });
    FIELDS[1..].iter().copied().zip(values).collect()
}

#[test]
fn human_line_is_the_originals_and_counts_what_arrived() {
    for way_in in WAYS_IN {
        for way_out in WAYS_OUT {
            let pair = pair(
                &format!("write {way_in}"),
                &format!("read {way_out} --bytes 16M"),
            );
            pair.quiet_success();
            let (iterations, piped) = human(&pair.reader);
            assert_eq!(piped, "16MiB", "{}", pair.reader);
            // No call gets more than the pipe holds, and it holds half the buffer or less:
            // 16 MiB / 256 KiB = 64 would be computed, not counted.
            let least = match way_in.contains("fat") {
                true => 32, // 16 slots of 32 KiB hold 512 KiB
                false => 128,
            };
            assert!(iterations >= least, "{}", pair.reader);
        }
    }
}

#[test]
fn iterations_are_counted_calls() {
    // A relay takes whole slots, as many as there are.
    for way_out in ["--read-with read", "--read-with splice"] {
        // All data lies ready, so it takes 7 full reads, a short one, and perhaps one for the end.
        let line = format!("read {way_out} --buf-size 1000 --json");
        let run = feed_at_once(&line, &[b'X'; 7500]);
        run.quiet_success();
        let calls = run.json()["calls"].as_u64();
        assert!(matches!(calls, Some(8 | 9)), "{run}");
    }
}

/// Fills the pipe and closes it before the reader starts. `data` must fit.
fn feed_at_once(line: &str, data: &[u8]) -> Run {
    let (read_end, mut write_end) = pipe();
    write_end.write_all(data).expect("room in the pipe");
    drop(write_end);
    start(fullbore(line), read_end, To::Captured).finish()
}

#[test]
fn json_is_one_document_with_every_field() {
    for wait in WAITS {
        for way_out in WAYS_OUT {
            let side = format!("{way_out} --wait {wait}");
            let pair = pair(
                &format!("write {side} --bytes 1000003"),
                &format!("read {side} --json"),
            );
            pair.quiet_success();
            let report = pair.reader.json();
            assert_eq!(report["bytes"], 1_000_003, "{}", pair.reader);
            assert!(report["calls"].as_u64() > Some(0), "{}", pair.reader);
            assert!(report["eagain"].is_u64(), "{}", pair.reader);
            if wait == "block" {
                assert_eq!(report["eagain"], 0, "{}", pair.reader);
            }
            for field in ["gib_per_s", "seconds", "cpu_s"] {
                let value = report[field].as_f64();
                assert!(value >= Some(0.0), "{field}: {}", pair.reader);
            }
            assert!(!report["path"].is_null(), "{}", pair.reader);
        }
    }
}

#[test]
fn reader_takes_exactly_the_bytes_it_was_asked_for() {
    for way_out in WAYS_OUT {
        for wait in WAITS {
            let line =
                format!("read {way_out} --wait {wait} --buf-size 4096 --bytes 100003 --json");
            let pair = pair("write", &line);
            pair.quiet_success();
            let report = pair.reader.json();
            assert_eq!(report["bytes"], 100_003, "{}", pair.reader);
        }
    }
}

#[test]
fn csv_records_every_option_by_either_name() {
    let usual = usual_capacity();
    // What differs from the usual, on a pipe that the test itself fills.
    let mut cases: Vec<(&str, &[(&str, usize)])> = vec![
        ("", &[]),
        ("--bytes 2K", &[("bytes_to_pipe", 2048)]),
        ("--bytes_to_pipe=2K", &[("bytes_to_pipe", 2048)]),
        ("--buf-size 5001", &[("buf_size", 5001)]),
        ("--buf_size=1M", &[("buf_size", 1 << 20)]),
        ("--buf-size 1MiB", &[("buf_size", 1 << 20)]),
        ("--wait spin", &[("busy_loop", 1)]),
        ("--busy_loop", &[("busy_loop", 1)]),
        ("--wait poll", &[("poll", 1)]),
        ("--poll", &[("poll", 1)]),
        ("--wait poll-spin", &[("busy_loop", 1), ("poll", 1)]),
        ("--poll --busy_loop", &[("busy_loop", 1), ("poll", 1)]),
        ("--pages huge", &[("huge_page", 1)]),
        ("--huge_page", &[("huge_page", 1)]),
        ("--write-with vmsplice", &[("write_with_vmsplice", 1)]),
        ("--write_with_vmsplice", &[("write_with_vmsplice", 1)]),
        ("--read-with splice", &[("read_with_splice", 1)]),
        ("--with splice", &[("read_with_splice", 1)]),
        ("--read_with_splice", &[("read_with_splice", 1)]),
        ("--gift", &[("gift", 1)]),
        ("--dont-touch-pages", &[("dont_touch_pages", 1)]),
        ("--dont_touch_pages", &[("dont_touch_pages", 1)]),
        ("--same-buffer", &[("same_buffer", 1)]),
        ("--same_buffer", &[("same_buffer", 1)]),
    ];
    if can_lock_memory() {
        cases.push(("--lock-memory", &[("lock_memory", 1)]));
        cases.push(("--lock_memory", &[("lock_memory", 1)]));
    } else {
        skip("--lock-memory: too little memory may be locked (ulimit -l)");
    }
    let checked: &[_] = &[("huge_page", 1), ("check_huge_page", 1)];
    if has_transparent_huge_pages() {
        cases.push(("--pages huge --check-huge-page", checked));
        cases.push(("--huge_page --check_huge_page", checked));
    } else {
        skip("--check-huge-page: no transparent huge pages on this machine");
    }
    for (options, differences) in cases {
        let run = feed(fullbore(&format!("read {options} --csv")), vec![b'X'; 5000]);
        for (name, value) in csv(&run) {
            let usual = match name {
                "bytes_to_pipe" => 5000,
                "buf_size" => 256 << 10,
                "pipe_size" => usual,
                _ => 0,
            };
            let different = differences.iter().find(|(field, _)| *field == name);
            let expected = different.map_or(usual, |&(_, value)| value);
            assert_eq!(value, expected, "{name}: {run}");
        }
    }
}

#[test]
fn csv_names_the_capacity_the_pipe_really_had() {
    let usual = usual_capacity();
    for (options, capacity) in [
        ("", usual),
        ("--read-with splice", usual),
        ("--pipe-size 128K", 128 << 10),
        ("--pipe-size 4096 --buf-size 5001", 4096),
        ("--write-with vmsplice", 128 << 10),
        ("--write-with vmsplice --buf-size 8K", 4096),
        (
            "--write-with vmsplice --read-with splice --pages huge --buf-size 64K",
            32 << 10,
        ),
    ] {
        let pair = pair(
            &format!("write {options}"),
            &format!("read {options} --bytes 300K --csv"),
        );
        pair.quiet_success();
        let reported = csv(&pair.reader)[2];
        assert_eq!(reported, ("pipe_size", capacity), "{}", pair.reader);
    }
}

#[test]
fn time_before_the_first_byte_is_not_counted() {
    for wait in WAITS {
        let (read_end, mut write_end) = pipe();
        let reader = fullbore(&format!("read --wait {wait} --buf-size 1000 --json"));
        let reader = start(reader, read_end, To::Captured);
        until_it_waits(reader.pid(), || 0);
        // What it must not count.
        thread::sleep(Duration::from_millis(200));
        let since = Instant::now();
        write_end
            .write_all(&[b'X'; 4096])
            .expect("room in the pipe");
        drop(write_end);
        let run = reader.finish();
        let seconds = run.quiet_success().json()["seconds"].as_f64();
        assert!(seconds <= Some(since.elapsed().as_secs_f64()), "{run}");
    }
}

#[test]
fn verbose_leaves_the_result_alone_and_needs_no_permission() {
    for way_in in WAYS_IN {
        let pair = pair(
            &format!("write {way_in} --verbose"),
            &format!("read {way_in} --verbose --bytes 1M"),
        );
        assert!(pair.writer.status.success(), "{}", pair.writer);
        assert!(pair.reader.status.success(), "{}", pair.reader);
        human(&pair.reader);
    }
}

#[test]
fn empty_input_is_nothing_and_no_failure() {
    for way_out in WAYS_OUT {
        for wait in WAITS {
            let line = format!("read {way_out} --wait {wait}");
            for form in ["", "--csv", "--json", "--verify"] {
                if form == "--verify" && way_out != "--read-with read" {
                    continue; // nothing is copied that could be checked
                }
                let run = feed(fullbore(&format!("{line} {form}")), Vec::new());
                run.quiet_success();
                let lower = run.out.to_lowercase();
                assert!(!lower.contains("nan") && !lower.contains("inf"), "{run}");
                match form {
                    "--csv" => drop(csv(&run)),
                    "--json" => {
                        let report = run.json();
                        assert_eq!(report["bytes"], 0, "{run}");
                        assert_eq!(report["gib_per_s"].as_f64(), Some(0.0), "{run}");
                    }
                    _ => drop(human(&run)),
                }
            }
        }
    }
}
