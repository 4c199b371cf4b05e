//! Locked memory, no huge pages, little memory for pipes: slower perhaps, but nothing is lost or changed.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::thread;

use fullbore::writer::{Path, PipeWriter, Way};
use fullbore::{Constant, capacity, sys};
use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{Uid, disable_transparent_huge_pages, set_thread_res_uid};

use crate::alone::status;
use crate::feed::set_nonblocking;
use crate::readers::{self, Kind};
use crate::schedules::{drive, flow};
use crate::sequence::{Rng, Sequence};
use crate::watch::for_each_seed;
use crate::{WAYS, is_to_be_had, skip, writer};

/// Schedules of every way against readers that hold on to pages, and one that does not.
fn nothing_is_lost(what: &str) {
    for way in WAYS {
        for kind in [Kind::Onwards, Kind::Tees, Kind::Copies] {
            for_each_seed(&format!("{what} {kind:?} {way:?}"), 0..10, |seed| {
                let result = flow(kind, seed, |pipe| drive(pipe, way, seed, 5 << 20));
                assert_eq!(result, Ok(()));
            });
        }
    }
}

/// Writes 12 MiB that a reader holds on to, and changes the rules of memory after the first.
fn change_half_way(way: Way, total: usize, change: impl FnOnce()) -> Path {
    let (mut change, mut path) = (Some(change), None);
    let result = flow(Kind::Onwards, 1, |pipe| {
        let mut writer = writer(pipe, Some(way));
        let mut sent = 0;
        while sent < total {
            sent += writer.write(Sequence::new(1).at(sent, 1 << 20))?;
            if let Some(change) = change.take() {
                change();
            }
        }
        path = Some(writer.path());
        Ok(sent)
    });
    assert_eq!(result, Ok(()));
    path.expect("was written")
}

/// Locks the memory of this process, or says why not.
fn lock(test: &str, flags: MlockAllFlags) -> bool {
    let locked = mlockall(flags);
    if let Err(e) = locked {
        skip(
            test,
            format!("memory cannot be locked ({e}); see ulimit -l"),
        );
    }
    locked.is_ok()
}

#[test]
fn locked_memory_is_never_written_again_while_it_is_held() {
    alone!();
    let test = "locked_memory";
    if lock(test, MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
        assert!(status("VmLck") > Some(0));
        nothing_is_lost("locked");
    }
}

/// Here the memory may still be of huge pages and `fresh` be taken, although nothing of it can be abandoned.
#[test]
fn memory_locked_on_fault_is_never_written_again_while_it_is_held() {
    alone!();
    let test = "memory_locked_on_fault";
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if lock(test, flags) {
        is_to_be_had(test, Some(Way::Fresh));
        nothing_is_lost("locked on fault");
    }
}

/// `MADV_DONTNEED` is refused for the pages the writer has: it must take others.
#[test]
fn memory_locked_half_way_is_never_written_again_while_it_is_held() {
    alone!();
    let test = "memory_locked_half_way";
    if !lock(test, MlockAllFlags::CURRENT) {
        return;
    }
    munlockall().expect("ours");
    is_to_be_had(test, Some(Way::Fresh));
    for flags in [
        MlockAllFlags::CURRENT,
        MlockAllFlags::CURRENT | MlockAllFlags::FUTURE,
    ] {
        for way in [Way::Fresh, Way::Fat, Way::Copy] {
            change_half_way(way, 12 << 20, || {
                lock(test, flags);
            });
            munlockall().expect("ours");
        }
    }
}

#[test]
fn without_huge_pages_another_way_is_taken_and_says_why() {
    alone!();
    if let Err(e) = disable_transparent_huge_pages(true) {
        return skip("without_huge_pages", e);
    }
    let (_read_end, pipe) = sys::pipe().expect("a pipe");
    let path = writer(&pipe, Some(Way::Fresh)).path();
    assert_eq!(path.way, Way::Copy);
    assert!(
        path.to_string().contains("not fresh: huge pages refused"),
        "{path}"
    );
    let path = writer(&pipe, None).path();
    assert_ne!(path.way, Way::Fresh);
    assert!(
        path.to_string().contains("not fresh: huge pages refused"),
        "{path}"
    );
    nothing_is_lost("no huge pages");
}

#[test]
fn huge_pages_that_run_out_half_way_are_noticed() {
    alone!();
    let test = "huge_pages_that_run_out";
    if !is_to_be_had(test, Some(Way::Fresh)) {
        return;
    }
    let path = change_half_way(Way::Fresh, 150 << 20, || {
        disable_transparent_huge_pages(true).expect("no privilege is needed");
    });
    assert_eq!(path.way, Way::Copy);
    assert!(path.to_string().contains("huge pages refused"), "{path}");
}

/// Becomes a user without privileges whom nobody else is: what memory others have in pipes counts for them, not for us.
fn be_nobody(test: &str) -> bool {
    if rustix::process::getuid().is_root() {
        // Tests that do this have a process of their own. Where a user namespace knows only the numbers below 65536, the
        // second one is there, if it is perhaps not ours alone.
        let own = 0x7800_0000 | std::process::id();
        let become_user = |user| {
            let user = Uid::from_raw(user);
            set_thread_res_uid(user, user, user)
        };
        if let Err(e) = become_user(own).or_else(|_| become_user(65534)) {
            skip(test, format!("cannot become nobody: {e}"));
            return false;
        }
        // Or /proc would be closed to it, and with it the look at huge pages.
        set_dumpable_behavior(DumpableBehavior::Dumpable).expect("our own");
    }
    true
}

#[test]
fn user_who_has_used_up_the_memory_for_pipes_loses_nothing() {
    alone!();
    let test = "user_who_has_used_up";
    if !rustix::process::getuid().is_root() {
        return skip(
            test,
            "it would leave this user's other tests without pipes; run it as root",
        );
    }
    if !be_nobody(test) {
        return;
    }
    let mut pipes = Vec::new();
    let refused = loop {
        let Ok((read_end, write_end)) = sys::pipe() else {
            break false;
        };
        let refused = capacity::set(&write_end, 1 << 20).is_err();
        pipes.push((read_end, write_end));
        if refused {
            break true;
        }
        if pipes.len() == 400 {
            break false;
        }
    };
    // The last pages of the share, too.
    while let Ok((read_end, write_end)) = sys::pipe() {
        let granted = capacity::get(&write_end).expect("a pipe");
        pipes.push((read_end, write_end));
        if granted < 64 << 10 || pipes.len() > 450 {
            break;
        }
    }
    if !refused {
        return skip(test, "pipe-user-pages-soft does not limit this user");
    }
    for way in WAYS {
        for kind in [Kind::Copies, Kind::Onwards] {
            for_each_seed(&format!("soft limit {kind:?} {way:?}"), 0..5, |seed| {
                let result = flow(kind, seed, |pipe| {
                    let granted = writer(&pipe, way).path().capacity;
                    assert!(granted < Some(1 << 20), "{granted:?}");
                    drive(pipe, way, seed, 1 << 20)
                });
                assert_eq!(result, Ok(()));
            });
        }
    }
    constant_arrives();
}

#[test]
fn user_without_privileges_gets_every_way() {
    alone!();
    if be_nobody("user_without_privileges") {
        nothing_is_lost("nobody");
        constant_arrives();
    }
}

fn constant_arrives() {
    let pattern = b"abcdefg";
    let (read_end, pipe) = sys::pipe().expect("a pipe");
    let all = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut all = Vec::new();
            let keep = &mut |bytes: &[u8]| {
                all.extend_from_slice(bytes);
                Ok(())
            };
            readers::read(Kind::Copies, &read_end, Rng(1), keep).map(|()| all)
        });
        Constant::new(pattern)
            .write_all(pipe, 7 << 20)
            .expect("a reader");
        reader.join().expect("no panic")
    });
    assert!(all.expect("read") == pattern.repeat(1 << 20));
}

/// Tries to send 100 MiB, in place or not, to a reader that is stalled; goes on where it cannot.
fn try_to_send(writer: &mut PipeWriter<OwnedFd>, bytes: &[u8], in_place: bool) {
    for _ in 0..100 {
        let sent = if in_place {
            let block = writer.block(bytes.len());
            block.copy_from_slice(bytes);
            writer.commit(bytes.len())
        } else {
            writer.write(bytes)
        };
        match sent {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => panic!("{e}"),
            _ => {}
        }
    }
}

#[test]
fn resident_size_stays_below_16_mib_with_a_stalled_reader() {
    alone!();
    let bytes = vec![7; 1 << 20];
    for way in WAYS {
        for in_place in [false, true] {
            let (read_end, pipe) = sys::pipe().expect("a pipe");
            set_nonblocking(&pipe);
            let mut writer = writer(pipe, way);
            try_to_send(&mut writer, &bytes, in_place);
            let resident = status("VmRSS").expect("/proc");
            assert!(resident < 16 << 10, "{way:?}: {resident} kB are resident");
            // And while data flows: what the pipe has is dropped after every piece.
            let null = std::fs::File::options()
                .write(true)
                .open("/dev/null")
                .expect("/dev/null");
            for _ in 0..50 {
                let _ = sys::splice(&read_end, &null, 16 << 20, sys::SpliceFlags::NONBLOCK);
                let _ = writer.write(&bytes);
            }
            let most = status("VmHWM").expect("/proc");
            assert!(most < 16 << 10, "{way:?}: {most} kB were resident");
        }
    }
}

/// Lets these system calls fail from now on, as the sandbox of a container does; says so where that cannot be had.
fn refuse(test: &str, calls: &[libc::c_long], errno: i32) -> bool {
    let code = |code: u32| u16::try_from(code).expect("16 bits");
    let instruction = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let give = |k| instruction(code(libc::BPF_RET | libc::BPF_K), 0, 0, k);
    let equals = code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
    // The number of the call is the first word of what a filter sees.
    let load = instruction(code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), 0, 0, 0);
    let mut program = vec![load];
    for &call in calls {
        program.push(instruction(equals, 0, 1, call as u32));
        program.push(give(libc::SECCOMP_RET_ERRNO | errno as u32));
    }
    program.push(give(libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: takes no pointers.
    let quiet = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: `filter` and the program it points to are alive until the call has copied them.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) };
    if quiet != 0 || set != 0 {
        skip(test, io::Error::last_os_error());
    }
    quiet == 0 && set == 0
}

/// In a sandbox from the start: the way that is left, and what is said of the others.
fn in_a_sandbox(test: &str, calls: &[libc::c_long], errno: i32, left: Way, refused: &[&str]) {
    if !refuse(test, calls, errno) {
        return;
    }
    let (_read_end, pipe) = sys::pipe().expect("a pipe");
    let path = writer(&pipe, None).path();
    let reason = io::Error::from_raw_os_error(errno).to_string();
    let reason = reason.split(" (os").next().expect("a text");
    assert_eq!(path.way, left, "{path}");
    for way in refused {
        let said = path.fallbacks.iter().find(|(w, _)| w.to_string() == *way);
        assert!(said.is_some_and(|(_, why)| why.contains(reason)), "{path}");
    }
    for way in WAYS {
        for_each_seed(&format!("{test} {way:?}"), 0..5, |seed| {
            let result = flow(Kind::Copies, seed, |pipe| drive(pipe, way, seed, 3 << 20));
            assert_eq!(result, Ok(()));
        });
    }
    constant_arrives();
}

#[test]
fn sandbox_without_vmsplice_leaves_fat() {
    alone!();
    let calls = [libc::SYS_vmsplice];
    in_a_sandbox(
        "sandbox_without_vmsplice",
        &calls,
        libc::EPERM,
        Way::Fat,
        &["fresh"],
    );
}

#[test]
fn sandbox_without_vmsplice_and_sockets_leaves_write() {
    alone!();
    let calls = [libc::SYS_vmsplice, libc::SYS_socketpair];
    let refused = ["fresh", "fat"];
    in_a_sandbox(
        "sandbox_without_sockets",
        &calls,
        libc::ENOSYS,
        Way::Copy,
        &refused,
    );
}

#[test]
fn sandbox_without_any_of_it_leaves_write() {
    alone!();
    let calls = [
        libc::SYS_vmsplice,
        libc::SYS_splice,
        libc::SYS_tee,
        libc::SYS_sendmmsg,
    ];
    let refused = ["fresh", "fat"];
    in_a_sandbox(
        "sandbox_without_any_of_it",
        &calls,
        libc::EPERM,
        Way::Copy,
        &refused,
    );
}

#[test]
fn sandbox_that_closes_half_way_loses_nothing() {
    alone!();
    let test = "sandbox_that_closes_half_way";
    if !is_to_be_had(test, Some(Way::Fresh)) {
        return;
    }
    let sends = [libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg];
    let lends = [libc::SYS_vmsplice];
    for (way, calls) in [(Way::Fat, &sends[..]), (Way::Fresh, &lends[..])] {
        let mut closed = true;
        let path = change_half_way(way, 8 << 20, || closed = refuse(test, calls, libc::EPERM));
        assert_eq!(path.way, if closed { Way::Copy } else { way }, "{path}");
    }
}
