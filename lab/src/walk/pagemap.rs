//! The pages behind addresses of a process, as far as the kernel shows them to this user.
//!
//! Sources, each of which may be hidden: `/proc/PID/pagemap` (present, frame number; frame numbers need
//! `CAP_SYS_ADMIN`), the `PAGEMAP_SCAN` ioctl on it (mapped by a PMD or not; Linux 6.7), `/proc/kpageflags` (flags, head
//! or tail; root), `/proc/PID/smaps` (the mapping).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use fullbore_sys::pages::scan::mapped_huge;
use fullbore_sys::{Error, Result};
use serde::Serialize;

use super::{Entry, Mapping, compound, flag_names};
use crate::sys::plain;

/// Whose addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// This one.
    Own,
    /// The one with this id.
    Other(u32),
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Page {
    /// Its first address.
    pub address: u64,
    /// Whether there is memory behind the address now; `None` where hidden.
    pub present: Option<bool>,
    /// Whether its content is in swap.
    pub swapped: Option<bool>,
    /// Number of the page frame, that is its physical address by page size.
    pub frame: Option<u64>,
    /// What /proc/kpageflags says.
    pub flags: Option<Vec<&'static str>>,
    /// `head`, `tail` or `single`: its place in a compound page.
    pub compound: Option<&'static str>,
    /// Whether `compound` is not what kpageflags says, but follows from what maps the page.
    pub compound_is_deduced: bool,
    /// `pmd` when one entry maps a whole huge page, `pte` when each page has its own.
    pub mapped_by: Option<&'static str>,
}

/// Something that the system does not show, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Hidden {
    /// What cannot be seen.
    pub what: &'static str,
    /// Why, and what would show it.
    pub why: String,
}

/// What could be seen.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Look {
    /// Bytes in a page.
    pub page_size: usize,
    /// Bytes that a PMD maps, where the system says so.
    pub huge_page_size: Option<usize>,
    /// The mapping that the first address belongs to.
    pub mapping: Option<Mapping>,
    /// The pages, in the order of their addresses.
    pub pages: Vec<Page>,
    /// What the system does not show.
    pub hidden: Vec<Hidden>,
}

/// Looks at every page that a range of addresses touches.
///
/// # Errors
/// Another process does not exist, may not be looked at, or has nothing at the first address. What is hidden of this
/// process's own pages is no error.
pub fn look(process: Process, addresses: Range<u64>) -> Result<Look> {
    let page_size = rustix::param::page_size();
    let mask = page_size as u64 - 1;
    let range = addresses.start & !mask..addresses.end.saturating_add(mask) & !mask;
    let mut look = Look {
        page_size,
        huge_page_size: fullbore_sys::pages::page_size(fullbore_sys::pages::PageKind::Huge).ok(),
        mapping: None,
        pages: range
            .clone()
            .step_by(page_size)
            .map(Page::unknown)
            .collect(),
        hidden: Vec::new(),
    };
    let pagemap = match File::open(path(process, "pagemap")) {
        Ok(file) => Some(file),
        Err(e) => match process {
            Process::Other(pid) => return Err(refused(pid, e)),
            Process::Own => {
                look.hide("present, frame, mapped by", own_refused(&e));
                None
            }
        },
    };
    match std::fs::read_to_string(path(process, "smaps")) {
        Ok(smaps) => {
            look.mapping = Mapping::find(&smaps, range.start);
            if let (None, Process::Other(pid)) = (&look.mapping, process) {
                return Err(Error::new(
                    format!("process {pid}: nothing is mapped at {:#x}", range.start),
                    "the address belongs to no mapping",
                    format!("choose one from /proc/{pid}/maps"),
                ));
            }
        }
        Err(e) => look.hide("mapping", format!("smaps: {}", plain(&e))),
    }
    let Some(pagemap) = pagemap else {
        look.hide(
            "flags, head or tail",
            "without frame numbers nothing can be looked up".into(),
        );
        return Ok(look);
    };
    look.see_entries(&pagemap)?;
    look.see_flags();
    look.see_huge(&pagemap, range);
    look.deduce_heads();
    Ok(look)
}

impl Page {
    fn unknown(address: u64) -> Self {
        Self {
            address,
            present: None,
            swapped: None,
            frame: None,
            flags: None,
            compound: None,
            compound_is_deduced: false,
            mapped_by: None,
        }
    }
}

impl Look {
    fn hide(&mut self, what: &'static str, why: String) {
        self.hidden.push(Hidden { what, why });
    }

    fn see_entries(&mut self, pagemap: &File) -> Result<()> {
        let Some(first) = self.pages.first().map(|p| p.address) else {
            return Ok(());
        };
        let mut bytes = vec![0; self.pages.len() * 8];
        let at = first / self.page_size as u64 * 8;
        // Beyond the last address that a process can have, the file ends; what was not read stays zero: not present.
        let mut filled = 0;
        while filled < bytes.len() {
            match pagemap.read_at(&mut bytes[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.hide("present, frame", format!("pagemap: {}", plain(&e)));
                    return Ok(());
                }
            }
        }
        for (page, bytes) in self.pages.iter_mut().zip(bytes.as_chunks().0) {
            let entry = Entry(u64::from_ne_bytes(*bytes));
            page.present = Some(entry.is_present());
            page.swapped = Some(entry.is_swapped());
            page.frame = entry.frame();
        }
        let is_present = |p: &&Page| p.present == Some(true);
        if self
            .pages
            .iter()
            .filter(is_present)
            .any(|p| p.frame.is_none())
        {
            self.hide(
                "frame",
                "the kernel shows frame numbers with CAP_SYS_ADMIN only; run as root".into(),
            );
        }
        Ok(())
    }

    fn see_flags(&mut self) {
        if self.pages.iter().all(|p| p.frame.is_none()) {
            let is_present = self.pages.iter().any(|p| p.present == Some(true));
            if is_present {
                self.hide(
                    "flags",
                    "without frame numbers they cannot be looked up in /proc/kpageflags; run as root".into(),
                );
            }
            return;
        }
        let file = match File::open("/proc/kpageflags") {
            Ok(file) => file,
            Err(e) => {
                let why = format!("/proc/kpageflags: {}; run as root", plain(&e));
                return self.hide("flags", why);
            }
        };
        for page in &mut self.pages {
            let Some(frame) = page.frame else { continue };
            let mut bytes = [0; 8];
            if file.read_exact_at(&mut bytes, frame * 8).is_ok() {
                let flags = u64::from_ne_bytes(bytes);
                page.flags = Some(flag_names(flags));
                page.compound = Some(compound(flags));
            }
        }
    }

    fn see_huge(&mut self, pagemap: &File, range: Range<u64>) {
        match mapped_huge(pagemap, range) {
            Ok(huge) => {
                for page in &mut self.pages {
                    let is_huge = huge.iter().any(|r| r.contains(&page.address));
                    page.mapped_by = match (is_huge, page.present) {
                        (true, _) => Some("pmd"),
                        (false, Some(true)) => Some("pte"),
                        _ => None,
                    };
                }
            }
            Err(e) => self.see_huge_in_smaps(&e),
        }
    }

    /// smaps only counts: what is all huge or not at all can be seen, what is mixed cannot.
    fn see_huge_in_smaps(&mut self, why_not: &io::Error) {
        let by = self
            .mapping
            .as_ref()
            .and_then(|m| match m.anon_huge_bytes + m.hugetlb_bytes {
                0 => Some("pte"),
                n if n == m.end - m.start => Some("pmd"),
                _ => None,
            });
        let why = plain(why_not);
        let Some(by) = by else {
            let why = format!(
                "PAGEMAP_SCAN: {why}; and smaps counts huge pages, but does not say where they are"
            );
            return self.hide("mapped by", why);
        };
        let end = self.mapping.as_ref().map_or(0, |m| m.end);
        let there = self.pages.iter_mut().filter(|p| p.address < end);
        for page in there.filter(|p| p.present == Some(true)) {
            page.mapped_by = Some(by);
        }
    }

    /// What one PMD maps is one compound page, of which the first page is the head.
    fn deduce_heads(&mut self) {
        let Some(unit) = self.huge_page_size else {
            return;
        };
        let mut is_deduced = false;
        for page in &mut self.pages {
            if page.compound.is_none() && page.mapped_by == Some("pmd") {
                let is_head = page.address.is_multiple_of(unit as u64);
                page.compound = Some(if is_head { "head" } else { "tail" });
                page.compound_is_deduced = true;
                is_deduced = true;
            }
        }
        let is_unknown = |p: &Page| p.present == Some(true) && p.compound.is_none();
        if is_deduced || self.pages.iter().any(is_unknown) {
            self.hide(
                "head or tail",
                "known only where a PMD maps a whole huge page; the rest is in /proc/kpageflags, for root".into(),
            );
        }
    }
}

fn path(process: Process, file: &str) -> String {
    match process {
        Process::Own => format!("/proc/self/{file}"),
        Process::Other(pid) => format!("/proc/{pid}/{file}"),
    }
}

fn refused(pid: u32, error: io::Error) -> Error {
    let what = format!("process {pid} cannot be looked at");
    match error.kind() {
        io::ErrorKind::NotFound if std::fs::metadata("/proc/self").is_ok() => Error::new(
            what,
            "there is no such process, or it is not shown here",
            "choose one that `ps -e` shows",
        ),
        io::ErrorKind::NotFound => Error::new(what, "/proc is not mounted here", "mount /proc"),
        io::ErrorKind::PermissionDenied => Error::system(
            what,
            error,
            "run as root, or as its user where it may be traced",
        ),
        _ => Error::system(what, error, "run as root"),
    }
}

fn own_refused(error: &io::Error) -> String {
    let why = plain(error);
    match error.kind() {
        io::ErrorKind::NotFound => format!("/proc/self/pagemap: {why}; mount /proc"),
        io::ErrorKind::PermissionDenied => format!(
            "/proc/self/pagemap: {why}; run as root, or from a copy of this program that its user can read"
        ),
        _ => format!("/proc/self/pagemap: {why}; run as root"),
    }
}
