//! Messages from one process to another: `bw_pipe`, `bw_unix`, `bw_tcp`; and the pipes and sockets between them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use fullbore_sys::pages::{PageKind, Pages, Request};
use fullbore_sys::{Error, Result, calls};
use rustix::io::retry_on_intr;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::outcome::{Ready, Report};
use super::timing::{Time, timed};

/// Bytes of a message: lmbench's `XFERSIZE`.
pub(crate) const MESSAGE: usize = 64 << 10;
/// lmbench's `SOCKBUF`, for TCP. The kernel grants less where its limits (`net.core.wmem_max`, `rmem_max`) say so.
const SOCKET_BUFFER: usize = 1 << 20;
/// lmbench moves the reader's buffer off page alignment by so much.
const OFF_ALIGNMENT: usize = 128;

/// Sends messages until nobody takes them any more.
pub(crate) fn send(to: OwnedFd, time: Time, ready: Ready<'_>) -> Result<Report> {
    let message = buffer(MESSAGE)?;
    ready()?;
    timed(time, || calls::write(&to, &message))
}

/// Takes them.
pub(crate) fn receive(from: OwnedFd, time: Time, ready: Ready<'_>) -> Result<Report> {
    let mut buffer = buffer(MESSAGE + OFF_ALIGNMENT)?;
    ready()?;
    timed(time, || {
        calls::read(&from, &mut buffer[OFF_ALIGNMENT..][..MESSAGE])
    })
}

/// Page aligned, and touched.
pub(crate) fn buffer(len: usize) -> Result<Pages> {
    Pages::map(&Request {
        len,
        kind: PageKind::Small,
        lock: false,
        fill: Some(b'X'),
    })
}

/// What connects two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Pipe,
    Unix,
    Tcp,
}

/// Both ends of a connection: the one to write to, the one to read from.
pub(crate) fn connect(link: Link) -> Result<(OwnedFd, OwnedFd)> {
    match link {
        Link::Pipe => calls::pipe()
            .map(|(read_end, write_end)| (write_end, read_end))
            .map_err(|e| Error::system("no pipe", e, "close some files")),
        Link::Unix => UnixStream::pair()
            .map(|(a, b)| (a.into(), b.into()))
            .map_err(|e| Error::system("no AF_UNIX socket pair", e, "allow socketpair(2)")),
        Link::Tcp => tcp().map_err(|e| {
            Error::system(
                "no TCP connection on the loopback interface",
                e,
                "bring it up (ip link set lo up), and allow sockets",
            )
        }),
    }
}

fn tcp() -> io::Result<(OwnedFd, OwnedFd)> {
    let socket = || -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        // Before the connection is made, as lmbench does: the window is agreed on then.
        sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER)?;
        sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER)?;
        Ok(socket)
    };
    let listener = socket()?;
    rustix::net::bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    rustix::net::listen(&listener, 1)?;
    let address = SocketAddr::try_from(rustix::net::getsockname(&listener)?)?;
    let client = socket()?;
    rustix::net::connect(&client, &address)?;
    let ours = SocketAddr::try_from(rustix::net::getsockname(&client)?)?;
    // Anyone on this machine may connect to the port: take our own connection only.
    loop {
        let accept = || rustix::net::acceptfrom_with(&listener, SocketFlags::CLOEXEC);
        let (server, peer) = retry_on_intr(accept)?;
        match peer.map(SocketAddr::try_from) {
            Some(Ok(peer)) if peer == ours => return Ok((client, server)),
            _ => {}
        }
    }
}

/// For each of two processes, where it writes and where it reads. A pipe has one direction, so it takes two.
pub(crate) fn both_ways(link: Link) -> Result<[[OwnedFd; 2]; 2]> {
    let (a, b) = connect(link)?;
    if link == Link::Pipe {
        let (c, d) = connect(link)?;
        return Ok([[a, d], [c, b]]);
    }
    let twice = |fd: OwnedFd| -> Result<[OwnedFd; 2]> {
        let again = rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 3)
            .map_err(|e| Error::system("no descriptors left", e, "close some files"))?;
        Ok([fd, again])
    };
    Ok([twice(a)?, twice(b)?])
}

#[cfg(test)]
mod tests {
    use super::super::timing::Until;
    use super::*;
    use crate::worker::round_trip;

    const SHORT: Time = Time {
        warm_up_s: 0.0,
        until: Some(Until::Seconds(0.01)),
    };
    const UNTIL_GONE: Time = Time {
        warm_up_s: 0.0,
        until: None,
    };

    #[test]
    fn messages_and_round_trips_go_through_every_link() {
        for link in [Link::Pipe, Link::Unix, Link::Tcp] {
            let (to, from) = connect(link).unwrap();
            let sender = std::thread::spawn(move || send(to, UNTIL_GONE, &mut || Ok(())));
            let received = receive(from, SHORT, &mut || Ok(())).unwrap();
            let sent = sender.join().unwrap().unwrap();
            let [sent, received] = [sent, received].map(|r| r.moved().unwrap().bytes);
            assert!(received > 0 && sent >= received, "{link:?}");

            let [ours, theirs] = both_ways(link).unwrap();
            let pong = std::thread::spawn(move || round_trip::pong(theirs, &mut || Ok(())));
            let trips = round_trip::ping(ours, SHORT, &mut || Ok(())).unwrap();
            let Report::RoundTrips(trips) = trips else {
                panic!("{trips:?}");
            };
            assert!(trips.median_us > 0.0 && trips.p99_us >= trips.median_us);
            pong.join().unwrap().unwrap();
        }
    }
}
