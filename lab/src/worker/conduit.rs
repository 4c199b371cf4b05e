//! A pipe as the buffer between two descriptors: the kernel's own buffer in place of the user's, as splice(2) was meant.
//! Each job has a twin that does the same with read(2), write(2) and memory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fullbore_sys::calls::{self, SpliceFlags};
use fullbore_sys::read::discard::Discard;
use fullbore_sys::{Error, Result, capacity};

use super::files::rewind;
use super::outcome::{Ready, Report};
use super::stream::{MESSAGE, buffer};
use super::timing::{Time, timed};

const NO_FLAGS: SpliceFlags = SpliceFlags::empty();

/// File → pipe → descriptor.
pub(super) fn splice([from, to]: [OwnedFd; 2], time: Time, ready: Ready<'_>) -> Result<Report> {
    let pipe = PrivatePipe::new()?;
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
        let n = from_the_beginning(&from, &to, || calls::read(&from, &mut buffer))?;
        write_all(&to, &buffer[..n])?;
        Ok(n)
    })
}

/// File → pipe → several pipes, by reference; each is then emptied into /dev/null.
pub(super) fn tee(from: OwnedFd, outputs: usize, time: Time, ready: Ready<'_>) -> Result<Report> {
    let source = PrivatePipe::new()?;
    let outputs = Outputs::new(outputs)?;
    begin(&[&from])?;
    ready()?;
    timed(time, || {
        let n = from_the_beginning(&from, &from, || source.fill(&from))?;
        let Some((last, others)) = outputs.pipes.split_last() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        for output in others {
            // Into an empty pipe with as many slots tee is never short. It could not be continued: it begins at the head.
            if calls::tee(&source.read_end, &output.write_end, n, NO_FLAGS)? != n {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        source.empty(n, &last.write_end)?;
        outputs.discard(n)?;
        Ok(n)
    })
}

/// File → buffer → several pipes, by copying; each is then emptied into /dev/null.
pub(super) fn spread(
    from: OwnedFd,
    outputs: usize,
    time: Time,
    ready: Ready<'_>,
) -> Result<Report> {
    let outputs = Outputs::new(outputs)?;
    // What a pipe does not hold would never be taken out of it.
    let mut buffer = buffer(MESSAGE.min(outputs.smallest()?))?;
    begin(&[&from])?;
    ready()?;
    timed(time, || {
        let n = from_the_beginning(&from, &from, || calls::read(&from, &mut buffer))?;
        for output in &outputs.pipes {
            write_all(&output.write_end, &buffer[..n])?;
        }
        outputs.discard(n)?;
        Ok(n)
    })
}

/// Pipes that one process fills and empties in turn: nobody is woken, so that what is measured is the way of the bytes.
struct Outputs {
    pipes: Vec<PrivatePipe>,
    null: Discard,
}

impl Outputs {
    fn new(count: usize) -> Result<Self> {
        Ok(Self {
            pipes: (0..count)
                .map(|_| PrivatePipe::new())
                .collect::<Result<_>>()?,
            null: Discard::new()?,
        })
    }

    fn smallest(&self) -> Result<usize> {
        let capacities = self.pipes.iter().map(|p| capacity::get(&p.write_end));
        Ok(capacities
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .min()
            .unwrap_or(0))
    }

    fn discard(&self, n: usize) -> io::Result<()> {
        for pipe in &self.pipes {
            let mut left = n;
            while left > 0 {
                match self.null.discard(&pipe.read_end, left, NO_FLAGS)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    taken => left -= taken,
                }
            }
        }
        Ok(())
    }
}

/// A private pipe, which is empty between two steps.
struct PrivatePipe {
    read_end: OwnedFd,
    write_end: OwnedFd,
}

impl PrivatePipe {
    fn new() -> Result<Self> {
        let (read_end, write_end) =
            calls::pipe().map_err(|e| Error::system("no pipe", e, "close some files"))?;
        Ok(Self {
            read_end,
            write_end,
        })
    }

    fn fill(&self, from: impl AsFd) -> io::Result<usize> {
        calls::splice(from, &self.write_end, MESSAGE, NO_FLAGS)
    }

    fn empty(&self, mut left: usize, to: impl AsFd) -> io::Result<()> {
        while left > 0 {
            match calls::splice(&self.read_end, &to, left, NO_FLAGS)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => left -= n,
            }
        }
        Ok(())
    }
}

fn write_all(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = calls::write(&to, bytes)?;
        bytes = &bytes[n..];
    }
    Ok(())
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
                Err(e) if e.kind() != io::ErrorKind::NotSeekable => Err(e),
                _ => take(),
            }
        }
        n => Ok(n),
    }
}

#[cfg(test)]
mod tests {
    use super::super::timing::Until;
    use super::*;
    use crate::worker::files::temporary;
    use std::io::{Read, Seek};

    const SHORT: Time = Time {
        warm_up_s: 0.0,
        until: Some(Until::Seconds(0.01)),
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
            assert!(
                report.moved().unwrap().bytes > BYTES,
                "more than once: {report:?}"
            );
            let mut text = Vec::new();
            to.rewind().unwrap();
            to.read_to_end(&mut text).unwrap();
            assert_eq!(text.len() as u64, BYTES);
            assert!(text.iter().all(|b| *b == 0x5a));
        }
    }

    #[test]
    fn fan_outs_go_round_the_file_and_leave_their_pipes_empty() {
        type Fanout = fn(OwnedFd, usize, Time, Ready<'_>) -> Result<Report>;
        let fanouts: [Fanout; 2] = [tee, spread];
        for fanout in fanouts {
            let from = temporary(BYTES + 100).unwrap().into();
            let report = fanout(from, 4, SHORT, &mut || Ok(())).unwrap();
            assert!(report.moved().unwrap().bytes > BYTES, "{report:?}");
        }
        let nowhere = tee(temporary(1).unwrap().into(), 0, SHORT, &mut || Ok(()));
        assert!(nowhere.is_err());
    }
}
