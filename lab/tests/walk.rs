//! What is said of pages, against what the kernel says in other places.

mod support;

use std::fs::File;

use fullbore_lab::walk::pagemap::{Look, Process, look};
use fullbore_sys::pages::scan::mapped_huge;
use fullbore_sys::pages::{PageKind, Pages, Request};

fn looked(kind: PageKind, len: usize, process: Process) -> Option<(Pages, Look)> {
    let request = Request {
        len,
        kind,
        lock: false,
        fill: Some(1),
    };
    let pages = match Pages::map(&request) {
        Ok(pages) => pages,
        Err(e) => {
            support::skip(&format!("walk of {kind} pages"), e);
            return None;
        }
    };
    let start = pages.as_ptr() as u64;
    let look = look(process, start..start + len as u64).expect("a look at this process");
    Some((pages, look))
}

fn huge_bytes(look: &Look) -> u64 {
    let huge = look.pages.iter().filter(|p| p.mapped_by == Some("pmd"));
    huge.count() as u64 * look.page_size as u64
}

/// One test, so that no other maps memory beside: the kernel may make one mapping of two buffers.
#[test]
fn walk_agrees_with_smaps_pagemap_scan_and_the_frames() {
    const LEN: usize = 8 << 20;
    let me = Process::Other(std::process::id());
    let (Ok(pagemap), Ok(_)) = (
        File::open("/proc/self/pagemap"),
        File::open("/proc/self/smaps"),
    ) else {
        return support::skip(
            "walk_agrees_with_smaps_pagemap_scan_and_the_frames",
            "/proc is hidden",
        );
    };
    for (kind, process) in [
        (PageKind::Small, Process::Own),
        (PageKind::Huge, Process::Own),
        (PageKind::Huge, me),
        (PageKind::Hugetlb, Process::Own),
    ] {
        let Some((pages, look)) = looked(kind, LEN, process) else {
            continue;
        };
        assert_eq!(look.pages.len(), LEN / look.page_size);
        assert!(look.pages.iter().all(|p| p.present == Some(true)), "{kind}");
        let mapping = look.mapping.clone().expect("a mapping");
        let range = pages.as_ptr() as u64..pages.as_ptr() as u64 + LEN as u64;
        assert!(mapping.start <= range.start && range.end <= mapping.end);
        if let Ok(huge) = mapped_huge(&pagemap, range) {
            let scanned: u64 = huge.iter().map(|r| r.end - r.start).sum();
            assert_eq!(huge_bytes(&look), scanned, "{kind}: PAGEMAP_SCAN");
            let all = mapped_huge(&pagemap, mapping.start..mapping.end).expect("a second scan");
            let all: u64 = all.iter().map(|r| r.end - r.start).sum();
            assert_eq!(
                mapping.anon_huge_bytes + mapping.hugetlb_bytes,
                all,
                "{kind}: smaps"
            );
        }
        match kind {
            PageKind::Small => assert_eq!(huge_bytes(&look), 0),
            _ => assert_eq!(pages.prove_huge().is_ok(), huge_bytes(&look) == LEN as u64),
        }
        heads_are_where_huge_pages_begin(&look);
    }
}

/// By what maps a page, and where the kernel shows flags by those: both must give the same heads.
fn heads_are_where_huge_pages_begin(look: &Look) {
    let unit = look.huge_page_size.unwrap_or(2 << 20) as u64;
    for page in look.pages.iter().filter(|p| p.mapped_by == Some("pmd")) {
        let expected = if page.address % unit == 0 {
            "head"
        } else {
            "tail"
        };
        assert_eq!(page.compound, Some(expected), "{page:?}");
        if let Some(flags) = &page.flags {
            assert!(flags.contains(&expected), "{page:?}");
            assert!(
                flags.contains(&"thp") || flags.contains(&"hugetlb"),
                "{page:?}"
            );
        }
    }
}

#[test]
fn what_was_never_touched_is_not_present() {
    let request = Request {
        len: 64 << 10,
        kind: PageKind::Small,
        lock: false,
        fill: None,
    };
    let mut pages = Pages::map(&request).expect("memory");
    pages[0] = 1;
    let start = pages.as_ptr() as u64;
    let look = look(Process::Own, start + 5..start + (64 << 10)).expect("a look");
    if look.pages[0].present.is_none() {
        return support::skip("what_was_never_touched_is_not_present", "pagemap is hidden");
    }
    let present: Vec<_> = look.pages.iter().map(|p| p.present == Some(true)).collect();
    assert!(present[0] && present[1..].iter().all(|p| !p), "{present:?}");
}
