//! By read(2) and write(2), through a buffer that is looked at, and on behind what cannot be read.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use fullbore::Route;
use fullbore::moving::Side;
use fullbore_sys::calls::{self, End};
use fullbore_sys::wait::{Wait, Waiter};

use super::Moved;
use super::Transfer;
use super::WHY_BUFFER;
use crate::tools::view::skip::Skip;
use crate::tools::view::voice::{Complaint, Fault};

impl Transfer<'_> {
    /// Reads and writes, sees the bytes, and may skip what cannot be read.
    pub(super) fn by_hand(&mut self, from: BorrowedFd<'_>, name: &str) -> (Moved, String) {
        let mut buffer = vec![0; self.plan.buffer.unwrap_or(256 << 10)];
        let mut skip = Skip::new(self.plan.error_skip_block);
        let (mut reads, mut writes) = (
            Waiter::new(Wait::Block, End::Read),
            Waiter::new(Wait::Block, End::Write),
        );
        let (mut start, mut end) = (0, 0);
        let moved = loop {
            let allowed = self.allowance();
            if allowed == 0 {
                break Ok(());
            }
            if start == end {
                let len = buffer.len().min(self.may_take());
                let read = || calls::read(from, &mut buffer[..len]);
                match reads.until_ready(from, read) {
                    Ok(0) => break Ok(()),
                    Ok(n) => {
                        skip.succeeded();
                        (start, end) = (0, n);
                    }
                    Err(e) if self.plan.skip_errors > 0 => {
                        match self.skip(&mut skip, (from, name), &e, len) {
                            Some(n) => {
                                buffer[..n].fill(0);
                                (start, end) = (0, n);
                            }
                            None => break Ok(()),
                        }
                    }
                    Err(e) => break Err((Side::Input, e)),
                }
            }
            self.counters.buffers(end - start);
            let most = self.permitted(&buffer[start..end], allowed);
            let write = || calls::write(self.output, &buffer[start..start + most]);
            match writes.until_ready(self.output, write) {
                Ok(0) => break Err((Side::Output, ErrorKind::WriteZero.into())),
                Ok(n) => {
                    let lines = self.look_at(&buffer[start..start + n]);
                    start += n;
                    if let Err(e) = self.arrived(n, lines) {
                        break Err((Side::Output, e));
                    }
                }
                Err(e) => break Err((Side::Output, e)),
            }
        };
        let why = match self.plan.buffer {
            Some(_) => WHY_BUFFER,
            None => "-E skips what cannot be read",
        };
        (moved, format!("{}, since {why}", Route::ReadWrite))
    }

    /// Goes on behind an error: how many null bytes stand for what was skipped. None ends the file.
    fn skip(
        &self,
        skip: &mut Skip,
        (from, name): (BorrowedFd<'_>, &str),
        error: &io::Error,
        most: usize,
    ) -> Option<usize> {
        self.faults
            .fetch_or(Fault::Transfer as u8, Ordering::Relaxed);
        if skip.is_first() {
            let what = format!("{name}: warning: read errors detected");
            let todo = "null bytes stand for what cannot be read";
            let error = io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0));
            (self.complain)(Complaint::system(Fault::Transfer, what, error, todo));
        }
        match skip.past(from, most) {
            Ok(Some((at, n))) => {
                if self.plan.skip_errors < 2 {
                    let what = format!("{name}: skipped past read error");
                    let why = format!("{at} - {} ({n} B)", at + n as u64);
                    (self.complain)(Complaint::new(Fault::Transfer, what, why, ""));
                }
                Some(n)
            }
            Ok(None) => None,
            Err(e) => {
                let what = format!("{name}: failed to seek past error");
                (self.complain)(Complaint::system(
                    Fault::Transfer,
                    what,
                    e,
                    "copy the file first",
                ));
                None
            }
        }
    }
}
