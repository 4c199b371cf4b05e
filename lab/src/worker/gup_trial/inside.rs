//! The figure itself, where the kernel has gup_test.

use std::fs::File;
use std::time::{Duration, Instant};

use fullbore_sys::Result;
use fullbore_sys::pages::{self, PageKind};

use super::super::outcome::Costs;
use super::test_file::{Device, Request, TestFile};
use super::{PAGES_PER_CALL, map};
use crate::sys::gup_pages::Lent;

/// The kernel counts whole microseconds: enough pages that one of them is a few percent at most.
const BYTES: usize = 64 << 20;

/// One case, ready to be measured again and again.
pub(super) struct Inside<D = File> {
    file: TestFile<D>,
    kind: PageKind,
    touched: bool,
    lent: Lent,
}

impl<D: Device> Inside<D> {
    pub(super) fn new(file: TestFile<D>, kind: PageKind, touched: bool) -> Result<Self> {
        let lent = largest(kind, touched)?;
        if touched && kind != PageKind::Small {
            lent.prove_huge()?;
        }
        Ok(Self {
            file,
            kind,
            touched,
            lent,
        })
    }

    /// Measures for so long.
    pub(super) fn trial(&mut self, time: Duration) -> Result<Costs<f64>> {
        let start = Instant::now();
        let (mut bytes, mut get_us, mut put_us) = (0, 0, Some(0));
        while start.elapsed() < time || bytes == 0 {
            if !self.touched {
                self.lent = map(self.kind, false, self.lent.bytes().len())?;
            }
            let timed = self.file.time(&Request {
                address: self.lent.bytes().as_ptr() as usize,
                bytes: self.lent.bytes().len(),
                pages_per_call: PAGES_PER_CALL as u32,
            })?;
            bytes += timed.bytes;
            get_us += timed.get_us;
            put_us = put_us.zip(timed.put_us).map(|(sum, us)| sum + us);
        }
        let pages = bytes as f64 / rustix::param::page_size() as f64;
        let per_page = |us: u64| us as f64 * 1e3 / pages;
        Ok(Costs {
            ns_per_page: Some(per_page(get_us)),
            put_ns_per_page: put_us.map(per_page),
            ..Costs::default()
        })
    }
}

/// As much as there is, where fewer pages are reserved than would be good.
fn largest(kind: PageKind, touched: bool) -> Result<Lent> {
    let least = pages::page_size(kind)?;
    let mut len = BYTES.max(least);
    loop {
        match map(kind, touched, len) {
            Err(_) if kind == PageKind::Hugetlb && len > least => len /= 2,
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::gup_trial::form::Form;
    use crate::worker::gup_trial::test_file::tests::{Kernel, NS_PER_PAGE, PUT_NS_PER_PAGE};

    #[test]
    fn figures_are_those_of_the_kernel_in_every_era() {
        for form in Form::ALL {
            let file = TestFile::probe(Kernel::new(form), form.file()).unwrap();
            let mut case = Inside::new(file, PageKind::Small, false).unwrap();
            let timing = case.trial(Duration::ZERO).unwrap();
            // The simulated kernel, too, counts whole microseconds, and it has pages of 4 KiB.
            let ours = rustix::param::page_size() as f64 / 4096.0;
            let is_near = |ns: f64, expected: u64| (ns / ours - expected as f64).abs() < 0.1;
            assert!(
                is_near(timing.ns_per_page.unwrap(), NS_PER_PAGE),
                "{timing:?}"
            );
            match timing.put_ns_per_page {
                Some(put) => assert!(is_near(put, PUT_NS_PER_PAGE), "{timing:?}"),
                None => assert_eq!(form, Form::Benchmark32),
            }
            assert_eq!(timing.vmsplice_ns_per_page, None);
        }
    }
}
