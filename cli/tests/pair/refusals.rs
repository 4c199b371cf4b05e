//! What is refused, and that each refusal says what, why, and what to do, on one line.

use std::fs::File;
use std::process::Stdio;

use crate::support::{
    Stranger, To, feed, fullbore, kernel, pair_of, pipe, refused, seccomp, skip, start,
};

#[test]
fn wrong_command_lines_exit_with_2() {
    let sizes = [
        "",
        "12Q",
        "-1",
        "1.5.5K",
        "K",
        "16777216T",
        "99999999999999999999T",
    ];
    let mut lines = Vec::new();
    for option in ["--buf-size", "--pipe-size", "--bytes", "--bytes_to_pipe"] {
        lines.extend(sizes.map(|size| format!("{option}={size}")));
    }
    lines.extend(
        [
            "--buf-size=0",
            "--buf_size=0",
            "--buf-size",
            "--seconds=soon",
            "--seconds=-1",
            "--seconds=nan",
            "--cpu=first",
            "--cpu=-1",
            "--wait=sometimes",
            "--pages=enormous",
            "--write-with=pen",
            "--read-with=eyes",
            "--with=care",
            "--no-such-option",
            "--gift=maybe",
            "too many words",
            // Contradictions.
            "--write-with vmsplice --pipe-size 128K",
            "--write_with_vmsplice --pipe_size=128K",
            "--pages huge --dont-touch-pages --check-huge-page",
            "--huge_page --dont_touch_pages --check_huge_page",
            "--check-huge-page",
            "--pages small --check-huge-page",
        ]
        .map(str::to_owned),
    );
    for command in ["write", "read"] {
        for line in &lines {
            refused(fullbore(&format!("{command} {line}"))).complains(&[2]);
        }
        // Whether there is such a CPU may be seen early or late.
        refused(fullbore(&format!("{command} --cpu 99999"))).complains(&[2]);
    }
}

#[test]
fn vmsplice_buffer_whose_half_is_no_capacity_exits_with_2() {
    for size in ["1", "4096", "5001", "12K", "20K", "384K", "1000000"] {
        for names in ["--write-with vmsplice", "--with vmsplice"] {
            refused(fullbore(&format!("write {names} --buf-size {size}"))).complains(&[2]);
        }
    }
}

#[test]
fn way_of_the_other_side_is_not_ones_own() {
    refused(fullbore("write --with splice")).complains(&[2]);
    refused(fullbore("read --with vmsplice")).complains(&[2]);
}

#[test]
fn capacity_that_the_kernel_would_round_is_refused() {
    // Seen on the command line or when the kernel answers.
    let (_reader, writer) = pipe();
    let line = "write --pipe-size 5001 --bytes 4096";
    let run = start(fullbore(line), Stdio::null(), writer).finish();
    run.complains(&[1, 2]);
}

#[test]
fn capacity_above_the_limit_is_refused_without_privilege() {
    let stranger = match Stranger::new() {
        Ok(stranger) => stranger,
        Err(why) => return skip(why),
    };
    let Ok(limit) = kernel("/proc/sys/fs/pipe-max-size").trim().parse::<u64>() else {
        return skip("no fs.pipe-max-size");
    };
    for line in [
        format!("--pipe-size {}", 2 * limit),
        format!("--with vmsplice --buf-size {}", 4 * limit),
    ] {
        let (_reader, writer) = pipe();
        let command = stranger.fullbore(&format!("write {line} --bytes 4096"));
        let run = start(command, Stdio::null(), writer).finish();
        run.complains(&[1]);
        assert!(run.err.contains("pipe-max-size"), "{run}");
    }
}

#[test]
fn vmsplice_into_what_is_no_pipe_is_refused_and_writes_nothing() {
    let line = "write --with vmsplice --bytes 4096";
    let file = tempfile::tempfile().expect("a file");
    let ours = file.try_clone().expect("a duplicate");
    start(fullbore(line), Stdio::null(), file)
        .finish()
        .complains(&[1]);
    assert_eq!(ours.metadata().expect("its size").len(), 0);

    let open = |path| File::options().read(true).write(true).open(path);
    for path in ["/dev/null", "/dev/ptmx"] {
        match open(path) {
            Ok(device) => {
                let run = start(fullbore(line), Stdio::null(), device).finish();
                run.complains(&[1]);
            }
            Err(why) => skip(format_args!("{path}: {why}")),
        }
    }
}

#[test]
fn splice_from_what_is_no_pipe_is_refused() {
    let line = "read --read-with splice --bytes 4096";
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), [b'X'; 8192]).expect("data");
    for path in [file.path().as_os_str(), "/dev/null".as_ref()] {
        let input = File::open(path).expect("something to read");
        start(fullbore(line), input, To::Captured)
            .finish()
            .complains(&[1]);
    }
}

#[test]
fn what_is_refused_is_named_and_what_to_do_fits() {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    let said = |line: &str, call, errno| {
        let (_reader, writer) = pipe();
        let mut command = fullbore(line);
        seccomp::refuse(&mut command, &[call], errno);
        let run = start(command, Stdio::null(), writer).finish();
        run.complains(&[1]);
        run.err
    };
    for errno in [libc::EPERM, libc::EACCES, libc::ENOMEM] {
        let err = said(
            "write --with vmsplice --bytes 1M",
            libc::SYS_vmsplice,
            errno,
        );
        assert!(err.contains("use --write-with write"), "{err}");
    }
    for errno in [libc::EINVAL, libc::EPERM] {
        let err = said("write --pipe-size 128K --bytes 1M", libc::SYS_fcntl, errno);
        assert!(!err.contains("not a pipe"), "{err}");
    }
}

#[test]
fn small_pages_need_no_advice() {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    for errno in [libc::EPERM, libc::ENOSYS, libc::EINVAL] {
        let mut commands = ["write --verify --bytes 4M", "read --verify --bytes 4M"].map(fullbore);
        for command in &mut commands {
            seccomp::refuse(command, &[libc::SYS_madvise], errno);
        }
        let [writer, reader] = commands;
        pair_of(writer, reader).quiet_success();
    }
}

#[test]
fn hugetlb_pages_are_refused_where_none_are_reserved() {
    let meminfo = kernel("/proc/meminfo");
    let free = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("HugePages_Free:"));
    let overcommit = kernel("/proc/sys/vm/nr_overcommit_hugepages");
    if free.is_some_and(|free| free.trim() != "0") {
        return skip("huge pages are reserved on this machine");
    }
    if !matches!(overcommit.trim(), "" | "0") {
        return skip("huge pages need no reservation on this machine");
    }
    refused(fullbore("write --pages hugetlb")).complains(&[1]);
    refused(fullbore("write --with vmsplice --pages hugetlb")).complains(&[1]);
    feed(fullbore("read --pages hugetlb"), vec![b'X'; 4096]).complains(&[1]);
}

#[test]
fn checked_huge_pages_are_refused_where_there_are_none() {
    let enabled = kernel("/sys/kernel/mm/transparent_hugepage/enabled");
    if !enabled.is_empty() && !enabled.contains("[never]") {
        return skip("this machine has transparent huge pages");
    }
    refused(fullbore("write --pages huge --check-huge-page")).complains(&[1]);
}
