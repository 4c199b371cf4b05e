//! Locked memory, no huge pages, little memory for pipes: slower perhaps, but nothing is lost or changed.

use std::ffi::CString;
use std::io::{self, BufRead, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use fullbore::moving::Fanout;
use fullbore::moving::Inspect;
use fullbore::moving::Pump;
use fullbore::{Constant, PipeReader, Reason, Route};
use fullbore_sys::calls::fault::{Call, inject};
use fullbore_sys::pages::{PageKind, page_size};
use fullbore_sys::writer::{Path, Unbuffered, Way};
use fullbore_sys::{calls, capacity};
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
        for way in Way::ALL {
            change_half_way(way, 12 << 20, || {
                lock(test, flags);
            });
            munlockall().expect("ours");
        }
    }
}

/// Whether `fresh` was left since the kernel gave small pages.
fn is_for_want_of_huge_pages(path: &Path) -> bool {
    path.fallbacks
        .contains(&(Route::Fresh, Reason::NoHugePages))
}

#[test]
fn without_huge_pages_another_way_is_taken_and_says_why() {
    alone!();
    if let Err(e) = disable_transparent_huge_pages(true) {
        return skip("without_huge_pages", e);
    }
    let (_read_end, pipe) = calls::pipe().expect("a pipe");
    let path = writer(&pipe, Some(Way::Fresh)).path();
    assert_eq!(path.way, Way::Copy);
    assert!(is_for_want_of_huge_pages(&path), "{path}");
    let path = writer(&pipe, None).path();
    assert_ne!(path.way, Way::Fresh);
    assert!(is_for_want_of_huge_pages(&path), "{path}");
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
    assert!(is_for_want_of_huge_pages(&path), "{path}");
}

/// Before 6.13 the addresses that had small pages meanwhile do not get huge ones any more.
#[test]
fn huge_pages_that_are_off_for_a_while_are_taken_again() {
    alone!();
    let test = "huge_pages_that_are_off_for_a_while";
    if !is_to_be_had(test, Some(Way::Fresh)) {
        return;
    }
    let sequence = Sequence::new(1);
    for in_place in [false, true] {
        let (read_end, pipe) = calls::pipe().expect("a pipe");
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut got = 0;
                let compare = &mut |bytes: &[u8]| {
                    sequence.compare(got, bytes)?;
                    got += bytes.len();
                    Ok(())
                };
                readers::read(Kind::Copies, &read_end, Rng(1), compare).map(|()| got)
            });
            let mut writer = writer(pipe, Some(Way::Fresh));
            let mut sent = 0;
            let mut send_until = |writer: &mut Unbuffered<OwnedFd>, way| {
                let until = Instant::now() + Duration::from_secs(60);
                loop {
                    let len = 1 << 20;
                    if in_place {
                        let block = writer.block(len);
                        block.copy_from_slice(sequence.at(sent, len));
                        writer.commit(len).expect("a reader");
                        sent += len;
                    } else {
                        sent += writer.write(sequence.at(sent, len)).expect("a reader");
                    }
                    let path = writer.path();
                    if path.way == way {
                        return path;
                    }
                    assert!(Instant::now() < until, "not {way} after 60 s: {path}");
                }
            };
            for _ in 0..3 {
                send_until(&mut writer, Way::Fresh);
                disable_transparent_huge_pages(true).expect("no privilege is needed");
                let path = send_until(&mut writer, Way::Copy);
                assert!(is_for_want_of_huge_pages(&path), "{path}");
                let until = Instant::now() + Duration::from_millis(100);
                while Instant::now() < until {
                    send_until(&mut writer, Way::Copy);
                }
                disable_transparent_huge_pages(false).expect("no privilege is needed");
            }
            let path = send_until(&mut writer, Way::Fresh);
            assert_eq!(path.fallbacks, [], "{path}");
            drop(writer);
            assert_eq!(reader.join().expect("no panic"), Ok(sent));
        });
    }
}

/// The proof of huge pages needs neither /proc nor /sys.
#[test]
fn without_proc_and_sys_fresh_is_taken_as_with_them() {
    alone!();
    let test = "without_proc_and_sys";
    if !is_to_be_had(test, Some(Way::Fresh)) {
        return;
    }
    if let Err(e) = hide(&["/proc", "/sys"]) {
        return skip(test, format!("/proc and /sys cannot be hidden: {e}"));
    }
    assert!(std::fs::read_dir("/proc/self").is_err());
    let (_read_end, pipe) = calls::pipe().expect("a pipe");
    let path = writer(&pipe, Some(Way::Fresh)).path();
    assert_eq!(path.way, Way::Fresh, "{path}");
    assert!(path.fallbacks.is_empty(), "{path}");
    nothing_is_lost("without /proc and /sys");
}

/// Mounts empty directories over these, for this process alone.
fn hide(directories: &[&str]) -> io::Result<()> {
    let done = |result| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    let private = || {
        // SAFETY: takes no pointers, and this process has one thread.
        done(unsafe { libc::unshare(libc::CLONE_NEWNS) }).or_else(|_| {
            // SAFETY: as above.
            done(unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWUSER) })
        })
    };
    private()?;
    let (none, tmpfs) = (c"none", c"tmpfs");
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the strings end with a zero and live on; no data goes with the call.
    let mounted = unsafe {
        libc::mount(
            none.as_ptr(),
            c"/".as_ptr(),
            std::ptr::null(),
            flags,
            std::ptr::null(),
        )
    };
    done(mounted)?;
    for directory in directories {
        let directory = CString::new(*directory).expect("no zero");
        // SAFETY: as above.
        let mounted = unsafe {
            libc::mount(
                none.as_ptr(),
                directory.as_ptr(),
                tmpfs.as_ptr(),
                0,
                std::ptr::null(),
            )
        };
        done(mounted)?;
    }
    Ok(())
}

/// Major and minor version of this kernel.
fn kernel() -> (u32, u32) {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse().ok());
    (
        numbers.next().expect("a version"),
        numbers.next().unwrap_or(0),
    )
}

/// A writer that is flushed now and then gives its memory back in between, and must not forget what is still held.
#[test]
fn flushes_do_not_raise_what_a_reader_pins() {
    alone!();
    for between in [1 << 20, 10 << 20] {
        flush_after_every(between);
    }
}

fn flush_after_every(between: usize) {
    let test = "flushes_do_not_raise";
    if !is_to_be_had(test, Some(Way::Fresh)) {
        return;
    }
    if kernel() < (6, 1) {
        return skip(test, "nothing tells before Linux 6.1");
    }
    let sequence = Sequence::new(1);
    let (read_end, pipe) = calls::pipe().expect("a pipe");
    let (_kept, keep) = calls::pipe().expect("a pipe");
    capacity::set(&keep, 1 << 20).expect("a pipe");
    let mut writer = writer(pipe, Some(Way::Fresh)).keep_capacity();
    let mut buffer = vec![0; 1 << 20];
    let (mut sent, mut got) = (0, 0);
    while sent < 256 << 20 {
        sent += writer.write(sequence.at(sent, 64 << 10)).expect("room");
        if got % (1 << 20) == 0 {
            let nonblocking = calls::SpliceFlags::NONBLOCK;
            got += calls::splice(&read_end, &keep, 4096, nonblocking).expect("room");
        }
        while got < sent {
            let n = calls::read(&read_end, &mut buffer).expect("data");
            sequence.check(got, &buffer[..n]);
            got += n;
        }
        if sent % between == 0 {
            writer.flush().expect("sent");
            writer.release();
        }
    }
    let lent = writer.bytes_by(Way::Fresh);
    assert!(
        lent <= 80 << 20,
        "{lent} bytes were lent: {}",
        writer.path()
    );
}

/// Keeps one slot of each 2 MiB in a pipe of its own, and reads the rest.
#[test]
fn reader_that_keeps_slots_pins_a_bounded_amount_and_gets_copies_then() {
    alone!();
    let test = "reader_that_keeps_slots";
    if !is_to_be_had(test, Some(Way::Fresh)) {
        return;
    }
    let sequence = Sequence::new(1);
    let (read_end, pipe) = calls::pipe().expect("a pipe");
    let (kept, keep) = calls::pipe().expect("a pipe");
    capacity::set(&keep, 1 << 20).expect("a pipe");
    let mut writer = writer(pipe, Some(Way::Fresh)).keep_capacity();
    let (mut sent, mut got) = (0, 0);
    let mut buffer = vec![0; 1 << 20];
    // One thread: what the reader has is known at every step.
    let mut step = |writer: &mut Unbuffered<OwnedFd>, keeps: bool| {
        let len = 64 << 10;
        sent += writer.write(sequence.at(sent, len)).expect("room");
        if keeps && got % (2 << 20) == 0 {
            let nonblocking = calls::SpliceFlags::NONBLOCK;
            got += calls::splice(&read_end, &keep, 4096, nonblocking).expect("room");
        }
        while got < sent {
            let n = calls::read(&read_end, &mut buffer).expect("data");
            sequence.check(got, &buffer[..n]);
            got += n;
        }
        sent
    };
    let mut total = 0;
    while writer.path().way == Way::Fresh {
        total = step(&mut writer, true);
        if total > 256 << 20 {
            let (release, path) = (kernel(), writer.path());
            assert!(release < (6, 1), "{path}, for {total} bytes");
            return skip(test, "nothing tells before Linux 6.1");
        }
    }
    let path = writer.path();
    let held = |(route, reason): &(Route, Reason)| {
        *route == Route::Fresh && matches!(reason, Reason::Held { .. })
    };
    assert!(path.fallbacks.iter().any(held), "{path}");
    assert!(total <= 80 << 20, "{total} bytes were lent");
    // Held for as long as it may: copies, and no page more is lent.
    let until = Instant::now() + Duration::from_millis(300);
    let lent = writer.bytes_by(Way::Fresh);
    while Instant::now() < until {
        step(&mut writer, false);
    }
    assert_eq!(writer.bytes_by(Way::Fresh), lent);
    // The slots are as they were sent, and once they are read pages are lent again.
    let mut slots = vec![0; 1 << 20];
    let n = calls::read(&kept, &mut slots).expect("data");
    for (i, slot) in slots[..n].chunks(4096).enumerate() {
        sequence.check(i * (2 << 20), slot);
    }
    let until = Instant::now() + Duration::from_secs(60);
    while writer.path().way != Way::Fresh {
        step(&mut writer, false);
        assert!(Instant::now() < until, "{}", writer.path());
    }
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
        let Ok((read_end, write_end)) = calls::pipe() else {
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
    while let Ok((read_end, write_end)) = calls::pipe() {
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
    let (read_end, pipe) = calls::pipe().expect("a pipe");
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
fn try_to_send(writer: &mut Unbuffered<OwnedFd>, bytes: &[u8], in_place: bool) {
    for _ in 0..100 {
        let sent = if in_place {
            let block = writer.block(bytes.len());
            block.copy_from_slice(bytes);
            writer.commit(bytes.len())
        } else {
            writer.write(bytes).map(drop)
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
            let (read_end, pipe) = calls::pipe().expect("a pipe");
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
                let _ = calls::splice(&read_end, &null, 16 << 20, calls::SpliceFlags::NONBLOCK);
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
    let (_read_end, pipe) = calls::pipe().expect("a pipe");
    let path = writer(&pipe, None).path();
    let reason = io::Error::from_raw_os_error(errno).to_string();
    let reason = reason.split(" (os").next().expect("a text");
    assert_eq!(path.way, left, "{path}");
    for way in refused {
        let said = path.fallbacks.iter().find(|(w, _)| w.to_string() == *way);
        let why = said.map(|(_, why)| why.to_string()).unwrap_or_default();
        assert!(why.contains(reason), "{path}");
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

/// As on a kernel before 6.4 without /proc.
#[test]
fn where_the_auxiliary_vector_cannot_be_read_nothing_panics() {
    alone!();
    let test = "where_the_auxiliary_vector_cannot_be_read";
    let calls = [
        libc::SYS_prctl,
        libc::SYS_openat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open,
    ];
    if refuse(test, &calls, libc::EPERM) {
        assert!(
            page_size(PageKind::Small)
                .expect("a page")
                .is_power_of_two()
        );
        nothing_is_lost("no auxiliary vector");
        constant_arrives();
    }
}

/// Puts a file with this text over another one, for this process alone, or says why not.
fn cover(test: &str, path: &str, text: &str) -> bool {
    let file = std::env::temp_dir().join(format!("{test}-{}", std::process::id()));
    std::fs::write(&file, text).expect("a temporary file");
    // SAFETY: takes no pointers.
    let mut covered = unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0;
    for (from, to, flags) in [
        (
            c"none".to_owned(),
            c"/".to_owned(),
            libc::MS_REC | libc::MS_PRIVATE,
        ),
        (
            CString::new(file.as_os_str().as_encoded_bytes()).expect("no zero"),
            CString::new(path).expect("no zero"),
            libc::MS_BIND,
        ),
    ] {
        let (from, to, none) = (from.as_ptr(), to.as_ptr(), std::ptr::null());
        // SAFETY: two texts that outlive the call, and no type and no options.
        covered = covered && unsafe { libc::mount(from, to, none, flags, none.cast()) } == 0;
    }
    if !covered {
        skip(test, io::Error::last_os_error());
    }
    std::fs::remove_file(&file).expect("ours");
    covered
}

#[test]
fn nobody_takes_more_than_1_mib_unasked() {
    alone!();
    let test = "nobody_takes_more_than_1_mib_unasked";
    if !cover(test, "/proc/sys/fs/pipe-max-size", "1073741824\n") {
        return;
    }
    assert_eq!(capacity::limit(), Some(1 << 30));
    // The kernel, which this limit does not bind, refuses more; so it is what was asked for that counts.
    let _asked = inject(|call, len| {
        assert!(
            call != Call::SetCapacity || len <= 1 << 20,
            "{len} bytes were asked for"
        );
        Ok(len)
    });
    let (_read_end, write_end) = calls::pipe().expect("a pipe");
    let largest = capacity::largest(write_end).expect("a pipe");
    // Or this user has used up the share of pipe memory.
    let refusal = largest.refusal.map(|e| e.to_string());
    assert!(
        largest.granted < 1 << 20 || refusal.is_none(),
        "{refusal:?}"
    );
    let is_modest = |who: &str, fd: &OwnedFd| {
        let granted = capacity::get(fd).expect("a pipe");
        assert!(granted <= 1 << 20, "{who} took {granted} bytes");
    };
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    writer(&write_end, None).path();
    is_modest("a writer", &write_end);
    calls::write(&write_end, &[1; 3]).expect("room");
    PipeReader::new(&read_end).discard(1).expect("bytes");
    is_modest("a reader", &read_end);
    let (end, to) = calls::pipe().expect("a pipe");
    Pump::new(read_end.as_fd(), to.as_fd())
        .step(1)
        .expect("bytes");
    Inspect::new(read_end.as_fd(), to.as_fd())
        .fill(1)
        .expect("bytes");
    is_modest("a pump, or an inspector", &read_end);
    is_modest("a pump, or an inspector", &to);
    drop(end);
    let file = std::fs::File::open("/dev/zero").expect("/dev/zero");
    let (read_end, to) = calls::pipe().expect("a pipe");
    let drained = thread::spawn(move || PipeReader::new(read_end).discard(1 << 20));
    let mut fanout = Fanout::new(file.as_fd(), [to.as_fd()]);
    for _ in 0..100 {
        fanout.step(8 << 10).expect("zeros");
    }
    is_modest("a fanout", &to);
    // Those that nobody else sees, too.
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let mut constant = Constant::new(b"y\n");
    constant.write_all(&write_end, 100).expect("room");
    let mut reader = PipeReader::new(&read_end).buffered(10);
    reader.fill_buf().expect("bytes");
    reader.discard(20).expect("bytes");
    let pump = Pump::new(file.as_fd(), write_end.as_fd());
    let inspect = Inspect::new(file.as_fd(), write_end.as_fd());
    let checked = for_each_pipe(|number, granted| {
        assert!(granted <= 1 << 20, "{number} holds {granted} bytes");
    });
    assert!(checked > 12, "only {checked}: {constant:?} {reader:?}");
    drop((pump, inspect, fanout));
    drop(to);
    drained.join().expect("no panic").expect("bytes");
}

/// Shows the capacity of each pipe that this process has, except those that it was started with; returns how many.
fn for_each_pipe(mut show: impl FnMut(i32, usize)) -> usize {
    let mut pipes = 0;
    for entry in std::fs::read_dir("/proc/self/fd").expect("/proc") {
        let name = entry.expect("/proc").file_name();
        let number: i32 = name
            .to_str()
            .and_then(|n| n.parse().ok())
            .expect("a number");
        if number > 2 {
            // SAFETY: it was open a moment ago, and the test, which runs alone, closes none meanwhile but the directory's;
            // a number that is closed gives an error.
            let fd = unsafe { BorrowedFd::borrow_raw(number) };
            if calls::is_pipe(fd) {
                show(number, capacity::get(fd).expect("a pipe"));
                pipes += 1;
            }
        }
    }
    pipes
}
