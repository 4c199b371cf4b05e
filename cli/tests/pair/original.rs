//! The names and the calling pattern of the original programs and of their `measure.py`.

use std::process::Stdio;

use crate::support::{
    Links, Run, To, can_lock_memory, collect, command, fullbore, has_transparent_huge_pages, pair,
    pipe, skip, start,
};

/// Both programs with one line of options, as `measure.py` does it: it keeps the read end open
/// until the reader has ended, and lets go of it then. Returns the reader's run.
#[track_caller]
fn measure(links: &Links, options: &str) -> Run {
    let (read_end, write_end) = pipe();
    let kept = read_end.try_clone().expect("the parent's descriptor");
    let writer = command(links.path("write"), options);
    let writer = start(writer, Stdio::null(), write_end);
    let reader = command(links.path("read"), options);
    let reader = start(reader, read_end, To::Captured).finish();
    drop(kept);
    writer.finish().quiet_success();
    reader.quiet_success();
    reader
}

/// Everything after the speed.
#[track_caller]
fn settings(run: &Run) -> &str {
    let (speed, settings) = run.out.split_once(',').expect("a line of CSV");
    assert!(speed.parse::<f64>().is_ok_and(f64::is_finite), "{run}");
    settings
}

#[test]
fn measure_py_gets_its_seven_cases() {
    let links = Links::new(&["write", "read"]);
    let usual = rustix::pipe::fcntl_getpipe_size(pipe().0).expect("a capacity");
    let (half, same) = ("131072", usual.to_string());
    let common = "--bytes_to_pipe=67108864 --buf_size=262144 --csv";
    for (case, capacity, flags) in [
        ("", &*same, "0,0,0,0,0,0"),
        ("--huge_page", &*same, "0,0,1,0,0,0"),
        ("--write_with_vmsplice", half, "0,0,0,0,1,0"),
        ("--write_with_vmsplice --huge_page", half, "0,0,1,0,1,0"),
        (
            "--write_with_vmsplice --read_with_splice",
            half,
            "0,0,0,0,1,1",
        ),
        (
            "--write_with_vmsplice --read_with_splice --huge_page",
            half,
            "0,0,1,0,1,1",
        ),
        (
            "--write_with_vmsplice --read_with_splice --huge_page --busy_loop",
            half,
            "1,0,1,0,1,1",
        ),
    ] {
        let run = measure(&links, &format!("{common} {case}"));
        let expected = format!("67108864,262144,{capacity},{flags},0,0,0,0\n");
        assert_eq!(settings(&run), expected, "{run}");
    }
}

#[test]
fn every_original_option_works_for_both_programs() {
    let links = Links::new(&["write", "read"]);
    let mut options = vec![
        "--gift",
        "--poll",
        "--busy_loop",
        "--busy_loop --poll",
        "--dont_touch_pages",
        "--same_buffer",
        "--gift --poll --busy_loop --dont_touch_pages --same_buffer --huge_page",
    ];
    if can_lock_memory() {
        options.push("--lock_memory");
    } else {
        skip("--lock_memory: too little memory may be locked (ulimit -l)");
    }
    if has_transparent_huge_pages() {
        options.push("--huge_page --check_huge_page");
    } else {
        skip("--check_huge_page: no transparent huge pages on this machine");
    }
    for ways in [
        "--pipe_size=131072",
        "--write_with_vmsplice",
        "--write_with_vmsplice --read_with_splice",
    ] {
        for option in &options {
            let line = format!("--bytes_to_pipe=8M --buf_size=256K {ways} {option} --csv");
            let run = measure(&links, &line);
            let expected = "8388608,262144,131072,";
            assert!(settings(&run).starts_with(expected), "{run}");
        }
    }
}

#[test]
fn writer_ignores_bytes_to_pipe_and_obeys_bytes() {
    let pair = pair(
        "write --bytes_to_pipe=4096",
        "read --bytes_to_pipe=1M --json",
    );
    pair.quiet_success();
    assert_eq!(pair.reader.json()["bytes"], 1 << 20, "{}", pair.reader);

    let (writer, data) = collect(fullbore("write --bytes_to_pipe=1M --bytes=4099"));
    writer.quiet_success();
    assert_eq!(data.len(), 4099, "{writer}");
}

#[test]
fn link_and_subcommand_are_the_same_command() {
    let links = Links::new(&["write", "read"]);
    for name in ["write", "read"] {
        let help = |command| start(command, Stdio::null(), To::Captured).finish();
        let by_link = help(command(links.path(name), "--help"));
        let by_name = help(fullbore(&format!("{name} --help")));
        by_link.quiet_success();
        by_name.quiet_success();
        // The usage line may differ by the name it was called with; the options may not.
        let options = |run: &Run| -> Vec<String> {
            let words = run.out.split_whitespace();
            let options = words.filter(|word| word.starts_with("--"));
            options.map(str::to_owned).collect()
        };
        assert_eq!(options(&by_link), options(&by_name), "{by_link}");
    }
}
