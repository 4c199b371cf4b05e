//! One line of text and some descriptors, through a stream socket: how the processes of a trial get their orders.

use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Descriptors that go with one line at most.
const MOST_DESCRIPTORS: usize = 2;

/// Sends a line, its end included, with descriptors at its first byte.
pub(crate) fn send(
    mut socket: &UnixStream,
    line: &str,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let line = format!("{line}\n");
    let slices = [IoSlice::new(line.as_bytes())];
    let sent = retry_on_intr(|| {
        rustix::net::sendmsg(socket, &slices, &mut ancillary, SendFlags::NOSIGNAL)
    })?;
    socket.write_all(&line.as_bytes()[sent..])
}

/// Receives a line, without its end, and what came with it. Nothing behind the line is taken.
pub(crate) fn receive(socket: &UnixStream) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut first = [0];
    let mut slices = [IoSliceMut::new(&mut first)];
    let received = retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let descriptors = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    // Whoever sends waits for an answer after a line, so the buffer holds nothing of what follows.
    let mut line = String::from_utf8_lossy(&first).into_owned();
    BufReader::new(socket).read_line(&mut line)?;
    Ok((line.trim_end().to_owned(), descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn descriptors_arrive_with_their_line() {
        let (a, b) = UnixStream::pair().unwrap();
        let (read_end, write_end) = fullbore_sys::calls::pipe().unwrap();
        send(&a, "{}", &[read_end.as_fd(), write_end.as_fd()]).unwrap();
        drop((read_end, write_end));
        let (line, fds) = receive(&b).unwrap();
        assert_eq!((line.as_str(), fds.len()), ("{}", 2));
        fullbore_sys::calls::write(&fds[1], b"x").unwrap();
        let mut got = [0];
        assert_eq!(fullbore_sys::calls::read(&fds[0], &mut got).unwrap(), 1);
        drop(a);
        assert!(receive(&b).is_err());
    }
}
