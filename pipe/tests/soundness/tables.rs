//! Threads with a table of descriptors of their own: a number means one pipe here and another one there.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::thread;

use fullbore::PipeReader;
use fullbore_sys::calls;

use crate::skip;

#[test]
fn reader_reads_the_pipe_of_its_own_thread() {
    alone!();
    let (others, to_others) = calls::pipe().expect("a pipe");
    calls::write(&to_others, b"others").expect("room");
    let number = others.as_raw_fd();
    let read = thread::spawn(move || {
        // SAFETY: takes no pointers. The copies of the descriptors that this table begins with end with the thread.
        if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let (ours, to_ours) = calls::pipe()?;
        calls::write(&to_ours, b"ours")?;
        drop(to_ours);
        // SAFETY: only in the table of this thread, where nobody owns that number: its owner is in the other one.
        if unsafe { libc::dup2(ours.as_raw_fd(), number) } != number {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: open until this thread ends.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        let mut buffer = [0; 16];
        let n = PipeReader::new(fd).read(&mut buffer)?;
        Ok(buffer[..n].to_vec())
    });
    match read.join().expect("no panic") {
        Ok(bytes) => assert_eq!(bytes, b"ours"),
        Err(e) => return skip("reader_reads_the_pipe_of_its_own_thread", e),
    }
    assert_eq!(calls::bytes_in_pipe(others.as_fd()).expect("a pipe"), 6);
}
