//! Memory that the caller keeps, and writes to as soon as it was sent.

use std::cell::Cell;
use std::io::{ErrorKind, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::thread::{self, JoinHandle};

use fullbore_sys::pages::{PageKind, Pages, Request};
use fullbore_sys::writer::{Unbuffered, Way};
use fullbore_sys::{calls, capacity};

use crate::cow::{hold_and_compare, may_hold};
use crate::feed::set_nonblocking;
use crate::processes::{finish, fork};
use crate::readers::{self, Kind};
use crate::sequence::{Rng, Sequence};
use crate::watch::for_each_seed;
use crate::{is_to_be_had, skip};

const MIB: usize = 1 << 20;
/// Pipes of 1 MiB in which a reader holds what it got: more than any buffer here.
const HELD: usize = 40;

fn pages(len: usize, kind: PageKind) -> Pages {
    let (lock, fill) = (false, Some(0));
    let map = |kind| {
        Pages::map(&Request {
            len,
            kind,
            lock,
            fill,
        })
    };
    // Where there are no huge pages small ones do: they are copied.
    map(kind).or_else(|_| map(PageKind::Small)).expect("memory")
}

/// A writer that lends whatever can be lent.
fn lender(fd: OwnedFd) -> Unbuffered<OwnedFd> {
    Unbuffered::new(fd).with_way(Way::Cow)
}

/// A reader that holds much of what it got, and compares it late.
fn holder(pipe: OwnedFd, sequence: Sequence) -> JoinHandle<usize> {
    thread::spawn(move || hold_and_compare(pipe, sequence, HELD, Rng(7)))
}

fn fill(buffer: &mut [u8], sequence: Sequence, at: usize) {
    for (i, piece) in buffer.chunks_mut(MIB).enumerate() {
        piece.copy_from_slice(sequence.at(at + i * MIB, piece.len()));
    }
}

/// Whether anything can be lent here, and held.
fn can_lend(test: &str) -> bool {
    if !is_to_be_had(test, Some(Way::Cow)) || !may_hold(test, HELD + 16) {
        return false;
    }
    let (_read_end, write_end) = calls::pipe().expect("a pipe");
    capacity::set(&write_end, MIB).expect("asked above");
    let reader =
        thread::spawn(move || while calls::read(&_read_end, &mut [0; MIB]).expect("read") > 0 {});
    let mut writer = lender(write_end);
    let buffer = pages(4 * MIB, PageKind::Huge);
    writer.lend(&buffer).expect("a reader");
    let (lent, path) = (writer.bytes_lent(), writer.path());
    drop(writer);
    reader.join().expect("no panic");
    if lent == 0 {
        skip(test, path);
    }
    lent > 0
}

/// Lends `buffer` again and again; between, `spoil` writes to it: the first thing after each return. Returns the writer's own
/// account.
fn lend_and_spoil(mut buffer: Pages, mut spoil: impl FnMut(&mut [u8])) -> (u64, String) {
    let (sequence, times) = (Sequence::new(3), 8);
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let reader = holder(read_end, sequence);
    let mut writer = lender(write_end);
    for time in 0..times {
        let at = time * buffer.len();
        fill(&mut buffer, sequence, at);
        let sent = writer.lend(&buffer).expect("a reader");
        spoil(&mut buffer);
        assert_eq!(sent, buffer.len(), "a pipe that blocks takes all");
    }
    let account = (writer.bytes_lent(), writer.path().to_string());
    let counted: u64 = Way::ALL.map(|way| writer.bytes_by(way)).iter().sum();
    assert_eq!(account.0 + counted, (times * buffer.len()) as u64);
    drop(writer);
    assert_eq!(reader.join().expect("no panic"), times * buffer.len());
    account
}

/// Fails unless something was lent, or this user had too many pipes for that.
fn assert_lent(test: &str, (lent, path): (u64, String)) {
    if lent == 0 && path.contains("not lent: fcntl(F_SETPIPE_SZ)") {
        return skip(test, path);
    }
    assert!(lent > 0, "{test}: {path}");
}

#[test]
fn caller_that_writes_in_the_next_instruction_changes_nothing() {
    let test = "caller_that_writes_in_the_next_instruction";
    if !can_lend(test) {
        return;
    }
    for len in [6 * MIB, 34 * MIB] {
        let all = |bytes: &mut [u8]| bytes.fill(0xEE);
        assert_lent(test, lend_and_spoil(pages(len, PageKind::Huge), all));
        let backwards =
            |bytes: &mut [u8]| bytes.iter_mut().rev().step_by(4096).for_each(|b| *b ^= 1);
        assert_lent(test, lend_and_spoil(pages(len, PageKind::Huge), backwards));
    }
}

#[test]
fn other_threads_that_write_at_once_change_nothing() {
    let test = "other_threads_that_write_at_once";
    if !can_lend(test) {
        return;
    }
    let account = lend_and_spoil(pages(8 * MIB, PageKind::Huge), |bytes| {
        thread::scope(|scope| {
            for part in bytes.chunks_mut(3 * MIB + 5) {
                scope.spawn(|| part.fill(0xEE));
            }
        });
    });
    assert_lent(test, account);
}

/// Turns of others come while this one fills, lends and spoils.
#[test]
fn many_threads_that_lend_change_nothing() {
    let test = "many_threads_that_lend";
    if !can_lend(test) {
        return;
    }
    let accounts = thread::scope(|scope| {
        let lends = || lend_and_spoil(pages(6 * MIB, PageKind::Huge), |bytes| bytes.fill(0xEE));
        let threads = [(); 6].map(|()| scope.spawn(lends));
        threads.map(|thread| thread.join().expect("no panic"))
    });
    let most = accounts.into_iter().max_by_key(|(lent, _)| *lent);
    assert_lent(test, most.expect("some threads"));
}

#[test]
fn memory_that_is_freed_and_used_for_something_else_arrives() {
    if !can_lend("memory_that_is_freed") {
        return;
    }
    let sequence = Sequence::new(4);
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let reader = holder(read_end, sequence);
    let mut writer = lender(write_end);
    let (mut sent, mut used_again) = (0, 0);
    drop(Vec::<u8>::with_capacity(12 * MIB)); // glibc: less than that is not mapped any more
    let mut between = Vec::new();
    for _ in 0..20 {
        let mut buffer = Vec::<u8>::with_capacity(9 * MIB);
        let start = buffer.as_ptr() as usize;
        let unit = fullbore_sys::pages::page_size(PageKind::Huge).expect("huge pages");
        let (from, to) = (
            start.next_multiple_of(unit),
            (start + buffer.capacity()) / unit * unit,
        );
        // SAFETY: a part of the allocation, whose contents stay as they are.
        unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_HUGEPAGE) };
        buffer.resize(9 * MIB, 0);
        fill(&mut buffer, sequence, sent);
        sent += writer.lend(&buffer).expect("a reader");
        between.push(Vec::<u8>::with_capacity(5000)); // so that it is not at the end of the heap, which is given back
        drop(buffer);
        let other = std::hint::black_box(vec![0xEE_u8; 9 * MIB]);
        used_again += usize::from(other.as_ptr() as usize == start);
    }
    if used_again == 0 {
        skip("memory_that_is_freed", "this allocator uses none again");
    }
    for _ in 0..4 {
        let mut buffer = pages(6 * MIB, PageKind::Huge);
        fill(&mut buffer, sequence, sent);
        sent += writer.lend(&buffer).expect("a reader");
        drop(buffer);
        pages(16 * MIB, PageKind::Huge).fill(0xEE);
    }
    let account = (writer.bytes_lent(), writer.path().to_string());
    assert_lent("memory_that_is_freed", account);
    drop(writer);
    assert_eq!(reader.join().expect("no panic"), sent);
}

#[test]
fn both_sides_of_a_fork_may_write_to_what_was_lent() {
    alone!();
    if !can_lend("both_sides_of_a_fork") {
        return;
    }
    let sequence = Sequence::new(5);
    let len = 6 * MIB;
    let mut buffer = pages(len, PageKind::Huge);
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let (read_childs, childs) = calls::pipe().expect("a pipe");
    let reader = holder(read_end, sequence);
    let mut writer = lender(write_end);
    let mut of_child = lender(childs);
    for time in 0..5 {
        fill(&mut buffer, sequence, time * len);
        assert_eq!(writer.lend(&buffer).expect("a reader"), len);
        let child = fork(|| {
            buffer.fill(0xEE);
            if time == 4 {
                for again in 0..5 {
                    fill(&mut buffer, sequence, again * len);
                    assert_eq!(of_child.lend(&buffer).expect("a reader"), len);
                    buffer.fill(0xDD);
                }
            }
        });
        if time < 4 {
            buffer.fill(0xCC);
            finish(child);
            continue;
        }
        drop(of_child);
        let reader = holder(read_childs, sequence);
        // With a child beside it that has some of it, too.
        for again in 5..9 {
            fill(&mut buffer, sequence, again * len);
            assert_eq!(writer.lend(&buffer).expect("a reader"), len);
            buffer.fill(0xCC);
        }
        finish(child);
        assert_eq!(reader.join().expect("no panic"), 5 * len);
        break;
    }
    let account = (writer.bytes_lent(), writer.path().to_string());
    assert_lent("both_sides_of_a_fork", account);
    drop(writer);
    assert_eq!(reader.join().expect("no panic"), 9 * len);
}

#[test]
fn any_part_of_a_buffer_may_be_lent_between_other_writes() {
    if !can_lend("any_part_of_a_buffer") {
        return;
    }
    let lent = Cell::new(0);
    for_each_seed("lend parts", 0..60, |seed| {
        let mut rng = Rng(seed);
        let sequence = Sequence::new(seed);
        let (read_end, write_end) = calls::pipe().expect("a pipe");
        if rng.once_in(2) {
            capacity::set(&write_end, 4096 << rng.below(9)).expect("small enough");
        }
        let kind = rng.pick(&[
            Kind::Copies,
            Kind::Onwards,
            Kind::Tees,
            Kind::Resizes,
            Kind::ResizesOnwards,
        ]);
        let reads = Rng(!seed);
        let reader = thread::spawn(move || {
            let mut at = 0;
            let read = readers::read(kind, &read_end, reads, &mut |bytes| {
                sequence.compare(at, bytes)?;
                at += bytes.len();
                Ok(())
            });
            assert_eq!(read, Ok(()));
            at
        });
        let mut writer = Unbuffered::new(write_end).copy_on_write();
        if rng.once_in(2) {
            writer = writer.with_way(Way::Cow);
        }
        if rng.once_in(2) {
            writer = writer.keep_capacity();
        }
        if rng.once_in(2) {
            writer = writer.with_ahead(rng.pick(&[100_000, 3 * MIB]));
        }
        let mut buffer = pages(rng.between(4, 14) * MIB, PageKind::Huge);
        let mut sent = 0;
        while sent < 30 * MIB {
            match rng.below(4) {
                0 => {
                    let len = rng.write_len();
                    sent += writer.write(sequence.at(sent, len)).expect("a reader");
                }
                1 => {
                    let block = writer.block(rng.write_len());
                    block.copy_from_slice(sequence.at(sent, block.len()));
                    let len = block.len();
                    writer.commit(len).expect("a reader");
                    sent += len;
                }
                _ => {
                    let page = 4096 * rng.below(2);
                    let from = rng.below(3 * MIB) / page.max(1) * page.max(1);
                    let to = rng.between(from, buffer.len());
                    let part = &mut buffer[from..to];
                    fill(part, sequence, sent);
                    sent += writer.lend(part).expect("a reader");
                    part.fill(0xEE);
                }
            }
        }
        lent.set(lent.get() + writer.bytes_lent());
        drop(writer);
        assert_eq!(reader.join().expect("no panic"), sent, "{kind:?}");
    });
    assert!(lent.get() > 0);
}

#[test]
fn pipe_that_does_not_block_takes_what_it_says() {
    let sequence = Sequence::new(6);
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    set_nonblocking(&write_end);
    let mut writer = lender(write_end);
    let mut buffer = pages(6 * MIB, PageKind::Huge);
    let reader = holder(read_end, sequence);
    let mut sent = 0;
    while sent < 24 * MIB {
        fill(&mut buffer, sequence, sent);
        let taken = writer.lend(&buffer);
        buffer.fill(0xEE);
        match taken {
            Ok(n) => sent += n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => thread::yield_now(),
            Err(e) => panic!("{e}"),
        }
    }
    assert_eq!(writer.bytes_lent(), 0);
    let path = writer.path().to_string();
    if can_lend("pipe_that_does_not_block") {
        assert!(path.contains("not lent: the pipe does not block"), "{path}");
    }
    drop(writer);
    assert_eq!(reader.join().expect("no panic"), sent);
}

#[test]
fn reader_that_goes_away_is_a_broken_pipe() {
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let mut writer = lender(write_end);
    let buffer = pages(6 * MIB, PageKind::Huge);
    let reader = thread::spawn(move || {
        let mut left = 2 * MIB + 1;
        while left > 0 {
            left -= calls::read(&read_end, &mut vec![0; left]).expect("read");
        }
    });
    let sent = writer.lend(&buffer).expect("a part was read");
    assert!((2 * MIB..6 * MIB).contains(&sent), "{sent}");
    reader.join().expect("no panic");
    let gone = writer.lend(&buffer).expect_err("nobody reads");
    assert_eq!(gone.kind(), ErrorKind::BrokenPipe);
}

/// Memory of every kind. What cannot be lent soundly is copied, and arrives.
#[test]
fn memory_of_any_kind_arrives() {
    alone!(); // some of it is pinned, or reserved
    let test = "memory_of_any_kind";
    if !can_lend(test) {
        return;
    }
    let (private, shared) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::MAP_SHARED);
    let hugetlb = libc::MAP_HUGETLB;
    let _ = std::fs::write("/proc/sys/vm/nr_hugepages", "8"); // refused without privilege
    let huge = |at: *mut libc::c_void, advice| {
        // SAFETY: the caller's own mapping, whose contents stay as they are.
        let advised = |advice| unsafe { libc::madvise(at, LEN, advice) };
        advised(libc::MADV_HUGEPAGE) == 0 && (advice == 0 || advised(advice) == 0)
    };
    const LEN: usize = 6 * MIB;
    // What is lent, and whether it may be.
    let kinds: [(&str, i32, bool, i32, bool); 8] = [
        ("private, huge", private, false, 0, true),
        (
            "private, small",
            private,
            false,
            libc::MADV_NOHUGEPAGE,
            false,
        ),
        (
            "kept from children",
            private,
            false,
            libc::MADV_DONTFORK,
            false,
        ),
        (
            "emptied in children",
            private,
            false,
            libc::MADV_WIPEONFORK,
            false,
        ),
        ("shared", shared | libc::MAP_ANONYMOUS, false, 0, false),
        ("of a file, shared", shared, true, 0, false),
        ("of a file, private", libc::MAP_PRIVATE, true, 0, false),
        ("hugetlb", private | hugetlb, false, 0, false),
    ];
    for (name, flags, of_file, advice, may_be_lent) in kinds {
        let fd = if of_file {
            // SAFETY: a name, and no flags.
            let fd = unsafe { libc::memfd_create(c"lend".as_ptr(), 0) };
            // SAFETY: the kernel has just made it, or -1, which the next call refuses.
            unsafe { libc::ftruncate(fd, (LEN + 2 * MIB) as i64) };
            fd
        } else {
            -1
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), LEN + 2 * MIB, access, flags, fd, 0) };
        if at == libc::MAP_FAILED {
            skip(
                test,
                format_args!("{name}: {}", std::io::Error::last_os_error()),
            );
            continue;
        }
        let at = (at as usize).next_multiple_of(2 * MIB) as *mut u8;
        huge(at.cast(), advice); // where it does not apply it is as it is
        // SAFETY: inside the mapping made above, which stays for the life of the process, and used nowhere else.
        let buffer = unsafe { std::slice::from_raw_parts_mut(at, LEN) };
        let lent = lend_kind(buffer);
        if advice == 0 && may_be_lent {
            assert!(lent > 0, "{name}");
        }
        assert!(may_be_lent || lent == 0, "{name}: {lent} bytes were lent");
    }
    let _ = std::fs::write("/proc/sys/vm/nr_hugepages", "0");
    match pinned(LEN) {
        Ok((buffer, _ring)) => assert_eq!(lend_kind(buffer), 0, "pinned"),
        Err(e) => skip(test, format_args!("pinned: {e}")),
    }
}

/// Lends a buffer several times, spoils it each time, and compares. Returns how many bytes were lent.
fn lend_kind(buffer: &mut [u8]) -> u64 {
    let sequence = Sequence::new(8);
    let (read_end, write_end) = calls::pipe().expect("a pipe");
    let reader = holder(read_end, sequence);
    let mut writer = lender(write_end);
    for time in 0..4 {
        fill(buffer, sequence, time * buffer.len());
        assert_eq!(writer.lend(buffer).expect("a reader"), buffer.len());
        buffer.fill(0xEE);
    }
    let lent = writer.bytes_lent();
    drop(writer);
    assert_eq!(reader.join().expect("no panic"), 4 * buffer.len());
    lent
}

/// Huge pages that are registered with `io_uring`, through which the kernel could write to them without any fault.
fn pinned(len: usize) -> std::io::Result<(&'static mut [u8], OwnedFd)> {
    let buffer = Box::leak(Box::new(pages(len, PageKind::Huge)));
    let mut params = [0_u64; 15]; // struct io_uring_params
    // SAFETY: the kernel writes the parameters to `params`, which has their size.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) };
    if ring < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it.
    let ring = unsafe { OwnedFd::from_raw_fd(i32::try_from(ring).expect("a descriptor")) };
    let buffers = [libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: len,
    }];
    let number = std::os::fd::AsRawFd::as_raw_fd(&ring);
    // SAFETY: registers one buffer that stays for the life of the process; nothing is ever read into it.
    let registered =
        unsafe { libc::syscall(libc::SYS_io_uring_register, number, 0, buffers.as_ptr(), 1) };
    if registered < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok((&mut buffer[..], ring))
}
