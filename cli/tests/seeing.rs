//! `fullbore ring` and `fullbore walk`, held to what the command line promises, also where the system hides or refuses
//! what they need.

mod support;

use std::process::{Command, Stdio};

use support::{
    BINARY, Run, Stranger, To, fullbore, has_transparent_huge_pages, refused, seccomp, skip, start,
};

const ARTICLE: &str = "walk 0x0000f2705af953c0";

/// Everything that these commands do.
const LINES: [&str; 9] = [
    "ring",
    "ring --json",
    "ring --svg -",
    "walk 0x0000f2705af953c0",
    "walk 0x7f705af953c0 --levels 5 --page-size 1G --json",
    "walk --pages small --size 10000",
    "walk --pages huge --size 3M --json",
    "walk --pages hugetlb",
    "walk --pid 1 --address 0x1000",
];

fn run(line: &str) -> Run {
    finish(fullbore(line))
}

fn finish(command: Command) -> Run {
    start(command, Stdio::null(), To::Captured).finish()
}

/// `fullbore` with arguments that hold blanks.
fn ring(script: &str, more: &str) -> Run {
    let mut command = fullbore("ring --do");
    command.arg(script).args(more.split_whitespace());
    finish(command)
}

/// A result, or one line that says what, why, and what to do.
#[track_caller]
fn is_clear(run: &Run) {
    if run.status.code() == Some(0) {
        run.quiet_success();
        assert!(run.out.len() > 100, "{run}");
    } else {
        run.complains(&[1]);
        assert_eq!(run.out, "", "{run}");
    }
}

#[test]
fn ring_draws_each_step_and_says_what_happened() {
    let run = ring("write 5000; read 1000; write 4096; splice 2", "--slots 8");
    run.quiet_success();
    let told = "write 5000: two slots, 4096 + 904 bytes; the second may be merged into\n";
    assert!(run.out.starts_with(told), "{run}");
    assert!(run.out.contains("│A  @1000│B+      │"), "{run}");
    assert!(
        run.out
            .contains("second pipe: 2 of 8 slots in use, 4000 of 32768"),
        "{run}"
    );
    assert!(!run.out.contains('\x1b'), "no colours in a file: {run}");
    let run = ring("write 1", "--color always");
    assert!(run.out.contains('\x1b'), "{run}");
}

#[test]
fn ring_as_data_has_every_slot() {
    let run = ring("write 5000; resize 1; second read 1", "--json");
    let json = run.quiet_success().json();
    assert_eq!(json["schema"], "fullbore.ring/1");
    let steps = json["steps"].as_array().expect("steps");
    assert_eq!(steps[0]["moved"], 5000);
    assert_eq!(steps[0]["first"]["fionread"], 5000);
    assert_eq!(steps[0]["first"]["used"][1]["len"], 904);
    assert_eq!(steps[0]["first"]["used"][1]["page"], "B");
    assert_eq!(steps[1]["refused"], "EBUSY");
    assert_eq!(steps[2]["refused"], "EAGAIN");
}

#[test]
fn pictures_go_where_they_are_sent() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("picture.svg");
    for line in ["ring --svg", &format!("{ARTICLE} --svg")] {
        let mut command = fullbore(line);
        command.arg(&file);
        assert_eq!(finish(command).quiet_success().out, "");
        let drawn = std::fs::read_to_string(&file).expect("the picture");
        assert_eq!(run(&format!("{line} -")).quiet_success().out, drawn);
        assert!(drawn.starts_with("<svg ") && drawn.contains("<desc>"));
        run(&format!("{line} /nowhere/picture.svg")).complains(&[1]);
    }
}

#[test]
fn wrong_command_lines_exit_with_2() {
    for line in [
        "ring --slots 0",
        "ring --slots 65537",
        "ring --slots many",
        "ring --page-size 1000",
        "ring --do",
        "ring --svg",
        "ring --svg a --json",
        "ring eight",
        "walk",
        "walk 0x",
        "walk f2705af953c0",
        "walk 0x10000000000000000",
        "walk 0x5 0x6",
        "walk 0x5 --levels 3",
        "walk 0x5 --page-size 3M",
        "walk 0x5 --pages huge",
        "walk 0x5 --pid 1",
        "walk 0x5 --size 10",
        "walk --levels 5",
        "walk --size 10",
        "walk --svg a --pages huge",
        "walk --levels 5 --pages huge",
        "walk --page-size 2M --pid 1 --address 5",
        "walk --pages enormous",
        "walk --pages huge --size 0",
        "walk --pages huge --size 2G",
        "walk --pages huge --pid 1",
        "walk --pid 1",
        "walk --pid 0 --address 1",
        "walk --address 5",
    ] {
        refused(fullbore(line)).complains(&[2]);
    }
    for script in ["wrote 5", "write", "write -1", "splice 1 2", ";"] {
        let run = ring(script, "");
        run.complains(&[2]);
        assert!(run.err.contains("vmsplice N [at OFFSET]"), "{run}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for line in LINES
        .iter()
        .filter(|l| !l.contains("hugetlb") && !l.contains("--pid"))
    {
        assert_eq!(refused(fullbore(line)).quiet_success().out, "");
    }
}

#[test]
fn the_articles_address_is_decoded_and_judged() {
    let text = run(ARTICLE);
    text.quiet_success();
    assert!(
        text.out
            .contains("484       449       215       405        960"),
        "{text}"
    );
    assert!(text.out.contains("not canonical with 4 levels"), "{text}");
    let json = run(&format!("{ARTICLE} --json")).quiet_success().json();
    assert_eq!(json["place"], "not_canonical");
    assert_eq!(json["place_with_other_levels"], "user");
    assert_eq!(json["fields"][1]["value"], 484);
}

#[test]
fn buffers_are_made_of_the_pages_asked_for() {
    let small = run("walk --pages small --size 10000 --json")
        .quiet_success()
        .json();
    let pages = small["pages"].as_array().expect("pages");
    let page_size = small["page_size"].as_u64().expect("a size");
    assert_eq!(pages.len() as u64, 10_000_u64.div_ceil(page_size));
    if pages[0]["present"].is_null() {
        return skip("pagemap is hidden");
    }
    assert!(
        pages
            .iter()
            .all(|p| p["present"] == true && p["mapped_by"] != "pmd")
    );
    if !has_transparent_huge_pages() {
        return skip("no transparent huge pages");
    }
    let huge = run("walk --pages huge --json").quiet_success().json();
    let mapped: Vec<_> = huge["pages"].as_array().expect("pages").iter().collect();
    if huge["mapping"]["anon_huge_bytes"] == 0 {
        return skip("no huge page was available");
    }
    if mapped[0]["mapped_by"].is_null() {
        return skip("nothing tells what maps a page");
    }
    assert!(mapped.iter().all(|p| p["mapped_by"] == "pmd"), "{huge}");
    assert_eq!(mapped[0]["compound"], "head");
    assert!(mapped[1..].iter().all(|p| p["compound"] == "tail"));
}

#[test]
fn another_process_is_shown_or_refused_with_what_to_do() {
    let mut sleeper = Command::new("sleep").arg("60").spawn().expect("a process");
    let pid = sleeper.id();
    support::until("sleep runs", || {
        support::kernel(&format!("/proc/{pid}/maps")).contains("sleep")
    });
    let maps = support::kernel(&format!("/proc/{pid}/maps"));
    let stack = maps
        .lines()
        .find(|l| l.ends_with("[stack]"))
        .expect("a stack");
    let address = stack.split('-').next().expect("an address");
    let line = format!("walk --pid {pid} --address 0x{address}");
    let seen = run(&format!("{line} --size 64K"));
    let nothing = run(&format!("walk --pid {pid} --address 0x10"));
    let by_stranger = Stranger::new().map(|s| (s.is_another_user(), finish(s.fullbore(&line))));
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    assert!(seen.quiet_success().out.contains("[stack]"), "{seen}");
    assert!(
        nothing.complains(&[1]).err.contains("nothing is mapped"),
        "{nothing}"
    );
    let gone = run(&line);
    assert!(
        gone.complains(&[1]).err.contains("no such process"),
        "{gone}"
    );
    match by_stranger {
        Ok((true, run)) => {
            run.complains(&[1]);
        }
        Ok((false, _)) => skip("of another user: this one has no other"),
        Err(why) => skip(why),
    }
}

#[test]
fn nobody_gets_a_clear_answer() {
    let stranger = match Stranger::new() {
        Ok(stranger) => stranger,
        Err(why) => return skip(why),
    };
    for line in LINES {
        is_clear(&finish(stranger.fullbore(line)));
    }
    let run = finish(stranger.fullbore("walk --pages small"));
    assert!(run.quiet_success().out.contains("hidden: frame"), "{run}");
}

/// A program that its user may run but not read has a /proc/self that belongs to root.
#[test]
fn a_process_that_may_not_look_at_itself_says_so() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        return skip("only root can take the right to read a program from its user");
    }
    let place = tempfile::tempdir().expect("a directory");
    let access = |path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permissions");
    };
    access(place.path(), 0o755);
    let binary = place.path().join("fullbore");
    let copied = Command::new("cp").arg(BINARY).arg(&binary).status();
    assert!(copied.is_ok_and(|s| s.success()));
    access(&binary, 0o711);
    for line in LINES {
        // One that every user namespace knows.
        let [_, user] = support::users();
        let mut command = support::setpriv(user, &binary);
        command.args(line.split_whitespace());
        let run = finish(command);
        if run.err.starts_with("setpriv") {
            return skip(run.err.trim());
        }
        is_clear(&run);
        if line.contains("--pages small") {
            // Most kernels hide everything then, some only what they hide from every user.
            let hides = ["hidden: present", "hidden: frame"];
            assert!(hides.iter().any(|text| run.out.contains(text)), "{run}");
        }
    }
}

/// `fullbore` through a shell in new namespaces, or the reason to skip with.
fn in_namespaces(options: &str, before: &str, line: &str) -> Result<Run, String> {
    let shell = |script: &str| {
        let mut command = Command::new("unshare");
        command
            .args(options.split_whitespace())
            .args(["sh", "-c", script]);
        finish(command)
    };
    let trial = shell(&format!("{before} true"));
    if trial.status.code() != Some(0) {
        return Err(format!("unshare {options}: {}", trial.err.trim()));
    }
    Ok(shell(&format!("{before} exec '{BINARY}' {line}")))
}

#[test]
fn an_unshared_user_namespace_gets_a_clear_answer() {
    for line in LINES {
        match in_namespaces("--user --map-root-user", "", line) {
            Ok(run) => is_clear(&run),
            Err(why) => return skip(why),
        }
    }
}

#[test]
fn a_masked_proc_gets_a_clear_answer() {
    for line in LINES {
        let mask = "mount -t tmpfs none /proc &&";
        let run = match in_namespaces("--user --map-root-user --mount", mask, line) {
            Ok(run) => run,
            Err(why) => return skip(why),
        };
        is_clear(&run);
        if line.contains("--pages small") {
            assert!(run.out.contains("mount /proc"), "{run}");
        }
        if line.contains("--pid") {
            assert!(run.err.contains("mount /proc"), "{run}");
        }
    }
}

/// Each call that can be refused after the program was loaded, as old kernels and sandboxes do.
#[test]
fn a_refused_system_call_gets_a_clear_answer() {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    const PREAD_OFFSET: u8 = 3;
    const MMAP_FLAGS: u8 = 3;
    for errno in [libc::EPERM, libc::ENOSYS, libc::ENOTTY, libc::EINVAL] {
        for line in LINES {
            for call in [
                libc::SYS_ioctl,
                libc::SYS_madvise,
                libc::SYS_statx,
                libc::SYS_sched_getaffinity,
            ] {
                let mut command = fullbore(line);
                seccomp::refuse(&mut command, &[call], errno);
                is_clear(&finish(command));
            }
            let mut command = fullbore(line);
            // The loader reads at the beginning of files, pagemap and kpageflags are read further on.
            seccomp::refuse_flag(&mut command, libc::SYS_pread64, PREAD_OFFSET, !0xfff, errno);
            is_clear(&finish(command));
            let mut command = fullbore(line);
            let huge = libc::MAP_HUGETLB as u32;
            seccomp::refuse_flag(&mut command, libc::SYS_mmap, MMAP_FLAGS, huge, errno);
            is_clear(&finish(command));
        }
    }
    let mut command = fullbore("walk --pages small");
    seccomp::refuse(&mut command, &[libc::SYS_ioctl], libc::ENOTTY);
    let run = finish(command);
    if !run.out.contains("hidden: present") {
        // smaps tells, as no page of the mapping is huge.
        assert!(run.quiet_success().out.contains("pte"), "{run}");
    }
}
