//! The forms that the argument of gup_test's ioctl has had.

use std::mem::offset_of;

use rustix::ioctl::{Direction, Opcode, opcode};

/// The forms of the argument: one for each era of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Linux 5.13 and later: `gup_test`, 80 bytes.
    Test80,
    /// Linux 5.11 and 5.12: `gup_test`, 72 bytes.
    Test72,
    /// Linux 4.20 to 5.10: `gup_benchmark`, 120 bytes.
    Benchmark120,
    /// Linux up to 4.19: `gup_benchmark`, 32 bytes; it does not time how long giving back takes.
    Benchmark32,
}

/// `struct gup_test` of mm/gup_test.h, Linux 5.13 and later.
#[repr(C)]
struct Test80 {
    get_us: u64,
    put_us: u64,
    addr: u64,
    size: u64,
    pages_per_call: u32,
    gup_flags: u32,
    test_flags: u32,
    which_pages: [u32; 8],
}

/// `struct gup_test` of mm/gup_test.h, Linux 5.11 and 5.12.
#[repr(C)]
struct Test72 {
    get_us: u64,
    put_us: u64,
    addr: u64,
    size: u64,
    pages_per_call: u32,
    flags: u32,
    which_pages: [u32; 8],
}

/// `struct gup_benchmark` of mm/gup_benchmark.c, Linux 4.20 to 5.10.
#[repr(C)]
struct Benchmark120 {
    get_us: u64,
    put_us: u64,
    addr: u64,
    size: u64,
    pages_per_call: u32,
    flags: u32,
    expansion: [u64; 10],
}

/// `struct gup_benchmark` of mm/gup_benchmark.c, Linux up to 4.19.
#[repr(C)]
struct Benchmark32 {
    us: u64,
    addr: u64,
    size: u64,
    pages_per_call: u32,
    flags: u32,
}

/// Where a form keeps what. Flags stay zero: a reference for reading, as vmsplice takes it.
pub(super) struct Fields {
    pub(super) get_us: usize,
    pub(super) put_us: Option<usize>,
    pub(super) addr: usize,
    pub(super) size: usize,
    pub(super) pages_per_call: usize,
}

macro_rules! layout {
    ($form:ty, $get:ident, $put:expr) => {
        Fields {
            get_us: offset_of!($form, $get),
            put_us: $put,
            addr: offset_of!($form, addr),
            size: offset_of!($form, size),
            pages_per_call: offset_of!($form, pages_per_call),
        }
    };
}

impl Form {
    /// Every form, newest first.
    pub const ALL: [Self; 4] = [
        Self::Test80,
        Self::Test72,
        Self::Benchmark120,
        Self::Benchmark32,
    ];

    /// Name of the file in debugfs.
    pub fn file(self) -> &'static str {
        match self {
            Self::Test80 | Self::Test72 => "gup_test",
            Self::Benchmark120 | Self::Benchmark32 => "gup_benchmark",
        }
    }

    /// Bytes of the argument.
    pub const fn size(self) -> usize {
        match self {
            Self::Test80 => size_of::<Test80>(),
            Self::Test72 => size_of::<Test72>(),
            Self::Benchmark120 => size_of::<Benchmark120>(),
            Self::Benchmark32 => size_of::<Benchmark32>(),
        }
    }

    /// `_IOWR('g', 1, …)`: `get_user_pages_fast` in every version.
    pub const fn request(self) -> Opcode {
        opcode::from_components(Direction::ReadWrite, b'g', 1, self.size())
    }

    /// Where the fields lie.
    pub(super) fn layout(self) -> Fields {
        match self {
            Self::Test80 => layout!(Test80, get_us, Some(offset_of!(Test80, put_us))),
            Self::Test72 => layout!(Test72, get_us, Some(offset_of!(Test72, put_us))),
            Self::Benchmark120 => {
                layout!(Benchmark120, get_us, Some(offset_of!(Benchmark120, put_us)))
            }
            Self::Benchmark32 => layout!(Benchmark32, us, None),
        }
    }
}
