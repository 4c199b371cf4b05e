//! A pipe as the buffer between two descriptors: the kernel's own buffer in place of the user's, as splice(2) was meant.
//! Each job has a twin that does the same with read(2), write(2) and memory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fullbore::read::discard::Discard;
use fullbore::sys::{self, SpliceFlags};
use fullbore::{Error, Result};

use super::MESSAGE;
use super::files::rewind;
use super::stream::buffer;
use super::work::{Ready, Report, Time, timed};

const NO_FLAGS: SpliceFlags = SpliceFlags::empty();

/// File → pipe → descriptor.
pub(super) fn splice([from, to]: [OwnedFd; 2], time: Time, ready: Ready<'_>) -> Result<Report> {
    let pipe = Pipe::new()?;
    begin(&[&from, &to])?;
    ready()?;
    timed(time, || {
        let n = from_the_beginning(&from, &to, || pipe.fill(&from))?;
        pipe.empty(n, &to)?;
        Ok(n)
    })
}

/// File → buffer → descriptor.
pub(super) fn copy([from, to]: [OwnedFd; 2], time: Time, ready: Ready<'_>) -> Result<Report> {
    let mut buffer = buffer(MESSAGE)?;
    begin(&[&from, &to])?;
    ready()?;
    timed(time, || {
        let n = from_the_beginning(&from, &to, || sys::read(&from, &mut buffer))?;
        write_all(&to, &buffer[..n])?;
        Ok(n)
    })
}

/// File → pipe → several pipes, by reference.
pub(super) fn tee(all: Vec<OwnedFd>, time: Time, ready: Ready<'_>) -> Result<Report> {
    let (from, outputs) = split(&all)?;
    let Some((last, others)) = outputs.split_last() else {
        return Err(Error::new("nothing to tee to", "no outputs", ""));
    };
    let pipe = Pipe::new()?;
    // tee always begins at the head, so a short one could not be continued. Into an empty pipe with as many slots it is
    // never short; from there the slots go on by splice, which may be.
    let scratch = Pipe::new()?;
    begin(&[from])?;
    ready()?;
    timed(time, || {
        let n = from_the_beginning(from, from, || pipe.fill(from))?;
        for output in others {
            if sys::tee(&pipe.read_end, &scratch.write_end, n, NO_FLAGS)? != n {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            scratch.empty(n, output)?;
        }
        pipe.empty(n, last)?;
        Ok(n)
    })
}

/// File → buffer → several pipes, by copying.
pub(super) fn spread(all: Vec<OwnedFd>, time: Time, ready: Ready<'_>) -> Result<Report> {
    let (from, outputs) = split(&all)?;
    let mut buffer = buffer(MESSAGE)?;
    begin(&[from])?;
    ready()?;
    timed(time, || {
        let n = from_the_beginning(from, from, || sys::read(from, &mut buffer))?;
        for output in outputs {
            write_all(output, &buffer[..n])?;
        }
        Ok(n)
    })
}

/// Drops what comes out of the pipes, in turn, and counts what came out of the last one: what each of them got.
pub(super) fn drain(pipes: &[OwnedFd], time: Time, ready: Ready<'_>) -> Result<Report> {
    let discard = Discard::new()?;
    ready()?;
    timed(time, || {
        let mut n = 0;
        // All there is, so that the source finds room for a whole message in every pipe that it comes back to.
        for pipe in pipes {
            n = discard.discard(pipe, 1 << 30, NO_FLAGS)?;
        }
        Ok(n)
    })
}

/// A private pipe, which is empty between two steps.
struct Pipe {
    read_end: OwnedFd,
    write_end: OwnedFd,
}

impl Pipe {
    fn new() -> Result<Self> {
        let (read_end, write_end) =
            sys::pipe().map_err(|e| Error::system("no pipe", e, "close some files"))?;
        Ok(Self {
            read_end,
            write_end,
        })
    }

    fn fill(&self, from: impl AsFd) -> io::Result<usize> {
        sys::splice(from, &self.write_end, MESSAGE, NO_FLAGS)
    }

    fn empty(&self, mut left: usize, to: impl AsFd) -> io::Result<()> {
        while left > 0 {
            match sys::splice(&self.read_end, &to, left, NO_FLAGS)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => left -= n,
            }
        }
        Ok(())
    }
}

fn write_all(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = sys::write(&to, bytes)?;
        bytes = &bytes[n..];
    }
    Ok(())
}

fn split(all: &[OwnedFd]) -> Result<(&OwnedFd, &[OwnedFd])> {
    all.split_first()
        .ok_or_else(|| Error::new("nothing to read from", "no descriptor came", ""))
}

/// All files at their beginning; a socket has none.
fn begin(all: &[&OwnedFd]) -> Result<()> {
    for fd in all {
        match rewind(fd) {
            Err(e) if e.kind() != io::ErrorKind::NotSeekable => {
                return Err(Error::system("the temporary file cannot be used", e, ""));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Takes a piece of the file, at its end from the beginning again; the other file is as long, and goes back with it.
fn from_the_beginning(
    from: &OwnedFd,
    to: &OwnedFd,
    mut take: impl FnMut() -> io::Result<usize>,
) -> io::Result<usize> {
    match take()? {
        0 => {
            rewind(from)?;
            match rewind(to) {
                Err(e) if e.kind() != io::ErrorKind::NotSeekable => return Err(e),
                _ => take(),
            }
        }
        n => Ok(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bandwidth::files::temporary;
    use std::io::{Read, Seek};

    const SHORT: Time = Time {
        warm_up_s: 0.0,
        measured_s: Some(0.01),
    };
    const UNTIL_GONE: Time = Time {
        warm_up_s: 0.0,
        measured_s: None,
    };
    const BYTES: u64 = 5 * MESSAGE as u64;

    #[test]
    fn the_other_file_becomes_the_same_and_no_longer() {
        type Conduit = fn([OwnedFd; 2], Time, Ready<'_>) -> Result<Report>;
        let conduits: [Conduit; 2] = [splice, copy];
        for conduit in conduits {
            let from = temporary(BYTES).unwrap();
            let mut to = temporary(0).unwrap();
            let fds = [
                from.try_clone().unwrap().into(),
                to.try_clone().unwrap().into(),
            ];
            let report = conduit(fds, SHORT, &mut || Ok(())).unwrap();
            assert!(report.bytes > BYTES, "more than once: {report:?}");
            let mut text = Vec::new();
            to.rewind().unwrap();
            to.read_to_end(&mut text).unwrap();
            assert_eq!(text.len() as u64, BYTES);
            assert!(text.iter().all(|b| *b == 0x5a));
        }
    }

    #[test]
    fn every_output_gets_everything() {
        type Source = fn(Vec<OwnedFd>, Time, Ready<'_>) -> Result<Report>;
        let sources: [Source; 2] = [tee, spread];
        for source in sources {
            let mut all = vec![temporary(BYTES).unwrap().into()];
            let mut drains = Vec::new();
            for _ in 0..4 {
                let (read_end, write_end) = sys::pipe().unwrap();
                all.push(write_end);
                drains.push(read_end);
            }
            let thread =
                std::thread::spawn(move || source(all, UNTIL_GONE, &mut || Ok(())).unwrap());
            let drained = drain(&drains, SHORT, &mut || Ok(())).unwrap();
            drop(drains);
            let sent = thread.join().unwrap();
            assert!(drained.bytes > 0 && sent.bytes >= drained.bytes);
        }
    }
}
