//! Pages as a table, for people.

use std::fmt::Write;

use fullbore_lab::show::number::count;
use fullbore_lab::walk::pagemap::{Look, Page};
use fullbore_sys::size::Size;

use crate::output::style::{FAINT, GOOD, PLAIN, WARNING, paint};
use crate::output::table::Table;

/// So many pages that only follow on from each other are shown one by one.
const FEW: usize = 6;

/// Draws what was seen, with ANSI styles that the caller may strip.
pub fn draw(what: &str, look: &Look) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{what}: {} of {}",
        count(look.pages.len(), "page"),
        Size(look.page_size as u64)
    );
    if let Some(mapping) = &look.mapping {
        let _ = write!(
            out,
            "in the mapping {:#x}–{:#x} {}",
            mapping.start, mapping.end, mapping.permissions
        );
        if !mapping.name.is_empty() {
            let _ = write!(out, " {}", mapping.name);
        }
        let _ = match (mapping.anon_huge_bytes, mapping.hugetlb_bytes) {
            (0, 0) => writeln!(out),
            (0, n) => writeln!(out, " ({} of it in hugetlb pages)", Size(n)),
            (n, _) => writeln!(out, " ({} of it in transparent huge pages)", Size(n)),
        };
    }
    let titles = ["address", "present", "frame", "mapped by", "page", "flags"];
    let mut table = Table::new(titles);
    let mut pages = &look.pages[..];
    while let [first, ..] = pages {
        let run = 1 + pages
            .windows(2)
            .take_while(|w| follows(&w[0], &w[1]))
            .count();
        if run > FEW {
            table.row(cells(first));
            let more = format!("⋮ {} more of the same, one after the other", run - 2);
            table.row([paint(&more, FAINT)]);
            table.row(cells(&pages[run - 1]));
        } else {
            pages[..run].iter().for_each(|page| table.row(cells(page)));
        }
        pages = &pages[run..];
    }
    let _ = writeln!(out, "\n{}\n{}", table.draw(), summary(look));
    for hidden in &look.hidden {
        let _ = writeln!(
            out,
            "{WARNING}hidden:{WARNING:#} {}: {}",
            hidden.what, hidden.why
        );
    }
    out
}

/// Whether the second page only goes on where the first ends.
fn follows(one: &Page, two: &Page) -> bool {
    let is_next_frame = match (one.frame, two.frame) {
        (Some(a), Some(b)) => b == a + 1,
        (None, None) => true,
        _ => false,
    };
    is_next_frame
        && (one.present, one.swapped) == (two.present, two.swapped)
        && (one.mapped_by, one.compound, &one.flags) == (two.mapped_by, two.compound, &two.flags)
}

fn cells(page: &Page) -> [String; 6] {
    let present = match (page.present, page.swapped) {
        (Some(true), _) => "yes",
        (_, Some(true)) => "swapped",
        (Some(false), _) => "no",
        (None, _) => "hidden",
    };
    // Of a page that is not there, nothing is hidden.
    let unknown = if page.present == Some(false) {
        "–"
    } else {
        "hidden"
    };
    let frame = page.frame.map_or(unknown.to_owned(), |f| format!("{f:#x}"));
    let compound = match (page.compound, page.compound_is_deduced) {
        (Some(place), true) => format!("{place}*"),
        (place, _) => place.unwrap_or(unknown).to_owned(),
    };
    let by = page.mapped_by.unwrap_or(unknown);
    let style = if by == "pmd" { GOOD } else { PLAIN };
    let flags = page
        .flags
        .as_ref()
        .map_or(unknown.to_owned(), |f| f.join(" "));
    [
        format!("{:#018x}", page.address),
        present.to_owned(),
        frame,
        paint(by, style),
        compound,
        flags,
    ]
}

/// What it all says about the walk.
fn summary(look: &Look) -> String {
    let n = look.pages.len();
    let by = |name| {
        look.pages
            .iter()
            .filter(|p| p.mapped_by == Some(name))
            .count()
    };
    let size = look
        .huge_page_size
        .map_or(String::new(), |bytes| format!(" of {}", Size(bytes as u64)));
    let mut text = match (by("pmd"), by("pte")) {
        (0, 0) if look.pages.iter().all(|p| p.present == Some(false)) => {
            "No memory is behind these addresses now.".to_owned()
        }
        (0, 0) => "Nothing here tells how these pages are mapped.".to_owned(),
        (huge, 0) if huge == n => format!(
            "All of it lies in huge pages{size}: one PMD maps each, and the walk ends a level earlier."
        ),
        (0, 1) if n == 1 => "It is mapped by a PTE of its own.".to_owned(),
        (0, small) if small == n => "Each is mapped by a PTE of its own.".to_owned(),
        (0, small) => format!("{small} of {n} are there, each mapped by a PTE of its own."),
        (huge, small) => format!(
            "{huge} of {n} lie in huge pages{size}, each mapped by one PMD; {small} are mapped by a PTE of their own."
        ),
    };
    if look.pages.iter().any(|p| p.compound_is_deduced) {
        text += "\n* follows from the PMD: the first page of what one maps is the head, the rest are tails.";
    }
    text
}
