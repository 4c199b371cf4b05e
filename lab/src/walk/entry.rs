//! What the kernel's files say about a page: /proc/PID/pagemap, /proc/kpageflags and /proc/PID/smaps, as text and numbers.

use serde::Serialize;

/// An entry of /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub u64);

impl Entry {
    /// Whether a page is mapped there.
    pub fn is_present(self) -> bool {
        self.0 & (1 << 63) != 0
    }

    /// Whether the page is in swap, or on its way elsewhere.
    pub fn is_swapped(self) -> bool {
        self.0 & (1 << 62) != 0
    }

    /// Frame number of a page that is present; `None` where the kernel shows zero for want of privilege.
    pub fn frame(self) -> Option<u64> {
        let frame = self.0 & ((1 << 55) - 1);
        (self.is_present() && frame != 0).then_some(frame)
    }
}

/// Names of the bits of /proc/kpageflags, from bit 0 (include/uapi/linux/kernel-page-flags.h).
const FLAGS: [&str; 27] = [
    "locked",
    "error",
    "referenced",
    "uptodate",
    "dirty",
    "lru",
    "active",
    "slab",
    "writeback",
    "reclaim",
    "buddy",
    "mmap",
    "anon",
    "swapcache",
    "swapbacked",
    "head",
    "tail",
    "hugetlb",
    "unevictable",
    "hwpoison",
    "nopage",
    "ksm",
    "thp",
    "offline",
    "zero_page",
    "idle",
    "pgtable",
];
const HEAD: u64 = 1 << 15;
const TAIL: u64 = 1 << 16;

/// Names of the flags that are set.
pub fn flag_names(flags: u64) -> Vec<&'static str> {
    let set = (0..).zip(FLAGS).filter(|(bit, _)| flags & (1 << bit) != 0);
    set.map(|(_, name)| name).collect()
}

/// What a page is in a compound page: one of several in a row that the kernel handles as one.
pub(crate) fn compound(flags: u64) -> &'static str {
    match (flags & HEAD != 0, flags & TAIL != 0) {
        (true, _) => "head",
        (false, true) => "tail",
        _ => "single",
    }
}

/// A mapping of a process, from smaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address behind the last one.
    pub end: u64,
    /// `rw-p` and the like.
    pub permissions: String,
    /// File or `[heap]` and the like; empty for anonymous memory.
    pub name: String,
    /// Bytes in transparent huge pages that are mapped as such.
    pub anon_huge_bytes: u64,
    /// Bytes in hugetlb pages.
    pub hugetlb_bytes: u64,
    /// Bytes of a page of this mapping, as the kernel counts.
    pub kernel_page_bytes: u64,
}

impl Mapping {
    /// The mapping that an address belongs to, and `None` where there is none.
    pub fn find(smaps: &str, address: u64) -> Option<Self> {
        let mut found: Option<Self> = None;
        for line in smaps.lines() {
            if let Some(mapping) = head_line(line) {
                if found.is_some() {
                    break;
                }
                found = Some(mapping).filter(|m| (m.start..m.end).contains(&address));
                continue;
            }
            let (Some(mapping), Some((key, value))) = (&mut found, line.split_once(':')) else {
                continue;
            };
            let bytes = || {
                value
                    .trim()
                    .strip_suffix(" kB")?
                    .parse::<u64>()
                    .ok()?
                    .checked_mul(1024)
            };
            match key {
                "AnonHugePages" => mapping.anon_huge_bytes = bytes()?,
                "Private_Hugetlb" | "Shared_Hugetlb" => mapping.hugetlb_bytes += bytes()?,
                "KernelPageSize" => mapping.kernel_page_bytes = bytes()?,
                _ => {}
            }
        }
        found
    }
}

/// `7f0000000000-7f0000200000 rw-p 00000000 00:00 0    [name]`
fn head_line(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mut words = rest.split_whitespace();
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        permissions: words.next()?.to_owned(),
        name: words.skip(3).collect::<Vec<_>>().join(" "),
        ..Mapping::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMAPS: &str = "\
7f0000000000-7f0000200000 rw-p 00000000 00:00 0
Size:               2048 kB
KernelPageSize:        4 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr mw me ac
7f0000200000-7f0000600000 r--s 00001000 fe:00 17    /a file
KernelPageSize:     2048 kB
AnonHugePages:         0 kB
Shared_Hugetlb:     2048 kB
Private_Hugetlb:    2048 kB
";

    #[test]
    fn mapping_is_the_one_that_holds_the_address() {
        let found = Mapping::find(SMAPS, 0x7f00_001f_ffff).unwrap();
        assert_eq!(found.anon_huge_bytes, 2 << 20);
        assert_eq!(
            (found.permissions.as_str(), found.name.as_str()),
            ("rw-p", "")
        );
        let found = Mapping::find(SMAPS, 0x7f00_0020_0000).unwrap();
        assert_eq!(
            (found.permissions.as_str(), found.name.as_str()),
            ("r--s", "/a file")
        );
        assert_eq!(
            (found.hugetlb_bytes, found.kernel_page_bytes),
            (4 << 20, 2 << 20)
        );
        assert_eq!(Mapping::find(SMAPS, 0x1000), None);
        assert_eq!(Mapping::find(SMAPS, 0x7f00_0060_0000), None);
    }

    #[test]
    fn entries_show_no_frame_without_privilege() {
        let hidden = Entry(1 << 63);
        assert!(hidden.is_present() && hidden.frame().is_none());
        assert_eq!(Entry(1 << 63 | 77).frame(), Some(77));
        assert_eq!(Entry(1 << 62 | 77).frame(), None);
    }

    #[test]
    fn flags_have_names() {
        assert_eq!(
            flag_names(1 << 12 | 1 << 15 | 1 << 22),
            ["anon", "head", "thp"]
        );
        assert_eq!(compound(1 << 16), "tail");
        assert_eq!(compound(1 << 12), "single");
    }

    proptest! {
        #[test]
        fn any_text_is_searched_without_panic(text in "[a-zA-Z0-9: \n-]{0,200}", address: u64) {
            let _ = Mapping::find(&text, address);
        }
    }
}
