//! A pipe of packets (`O_DIRECT`): what is read in one call is what was written in one.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::thread;

use fullbore_sys::Reason;
use fullbore_sys::calls;
use fullbore_sys::writer::Way;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::sequence::Sequence;
use crate::{WAYS, skip, writer};

/// Writes of these sizes, one after the other: small ones, pages, and more than a page, by a little and by much.
const SIZES: [usize; 9] = [1, 100, 4096, 5000, 16 << 10, 50_001, 300_000, 1 << 20, 7];

/// What each read of the pipe gives, until its end.
fn packets(write: impl FnOnce(OwnedFd) + Send + 'static) -> Option<Vec<Vec<u8>>> {
    let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::DIRECT).ok()?;
    let writing = thread::spawn(move || write(write_end));
    let (mut all, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    loop {
        match calls::read(&read_end, &mut buffer).expect("a pipe") {
            0 => break,
            n => all.push(buffer[..n].to_vec()),
        }
    }
    writing.join().expect("no panic");
    Some(all)
}

fn pieces() -> impl Iterator<Item = &'static [u8]> {
    let sequence = Sequence::new(5);
    let starts = SIZES
        .iter()
        .scan(0, |at, len| Some(std::mem::replace(at, *at + len)));
    let places: Vec<_> = starts.zip(SIZES).collect();
    places
        .into_iter()
        .map(move |(at, len)| sequence.at(at, len))
}

#[test]
fn packets_are_those_that_write_makes() {
    let plain = packets(|pipe| {
        for piece in pieces() {
            let mut sent = 0;
            while sent < piece.len() {
                sent += calls::write(&pipe, &piece[sent..]).expect("a reader");
            }
        }
    });
    let Some(plain) = plain else {
        return skip("packets_are_those_that_write_makes", "no such pipes");
    };
    assert_eq!(
        plain[..2].iter().map(Vec::len).collect::<Vec<_>>(),
        SIZES[..2]
    );
    for way in WAYS {
        for in_place in [false, true] {
            let got = packets(move |pipe| {
                let mut writer = writer(pipe, way);
                for piece in pieces() {
                    if in_place {
                        writer.block(piece.len()).copy_from_slice(piece);
                        writer.commit(piece.len()).expect("a reader");
                    } else {
                        writer.write_all(piece).expect("a reader");
                    }
                }
                let path = writer.path();
                assert_eq!(path.way, Way::Copy);
                let told = path.fallbacks.iter().any(|(_, r)| *r == Reason::Packets);
                assert!(told || way == Some(Way::Copy), "{path}");
                assert_eq!(path.capacity, fullbore_sys::capacity::get(&writer).ok());
            });
            let lengths = |packets: &[Vec<u8>]| packets.iter().map(Vec::len).collect::<Vec<_>>();
            let got = got.expect("as before");
            assert_eq!(
                lengths(&got),
                lengths(&plain),
                "{way:?}, in place: {in_place}"
            );
            assert!(got == plain, "{way:?}, in place: {in_place}");
        }
    }
}
