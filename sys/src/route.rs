//! [`Route`]: how bytes move.

use std::fmt;

/// How bytes move: what each of the things that move them says by a method `route()`, and which ways it has left by
/// `fallbacks()`, with the [`Reason`](crate::Reason) of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Route {
    /// `write(2)`: the kernel copies into pages of its own.
    Write,
    /// Memory that is lent to the pipe (`vmsplice(2)`), and abandoned (`MADV_DONTNEED`) before its addresses are used again.
    Fresh,
    /// Memory that is lent to the pipe (`vmsplice(2)`), and written again after it became copy-on-write (`clone(2)`).
    CopyOnWrite,
    /// Copied into a socket (`sendmmsg(2)`) and moved into the pipe (`splice(2)`) as slots of 32 KiB.
    Fat,
    /// The caller's own memory, not copied (`vmsplice(2)`, `splice(2)`).
    Lent,
    /// References to bytes that a pipe holds (`tee(2)`, `splice(2)`).
    Tee,
    /// `splice(2)`, from pipe to pipe; or with one pipe, where no private pipe is available.
    Splice,
    /// `splice(2)` through a private pipe.
    Relay,
    /// `copy_file_range(2)` between files.
    CopyFileRange,
    /// `read(2)` and `write(2)`.
    ReadWrite,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Write => "write",
            Self::Fresh => "fresh",
            Self::CopyOnWrite => "cow",
            Self::Fat => "fat",
            Self::Lent => "lent",
            Self::Tee => "tee",
            Self::Splice => "splice",
            Self::Relay => "splice through a private pipe",
            Self::CopyFileRange => "copy_file_range",
            Self::ReadWrite => "read and write",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_has_its_name() {
        let names = [
            (Route::Write, "write"),
            (Route::Fresh, "fresh"),
            (Route::CopyOnWrite, "cow"),
            (Route::Fat, "fat"),
            (Route::Lent, "lent"),
            (Route::Tee, "tee"),
            (Route::Splice, "splice"),
            (Route::Relay, "splice through a private pipe"),
            (Route::CopyFileRange, "copy_file_range"),
            (Route::ReadWrite, "read and write"),
        ];
        for (route, name) in names {
            assert_eq!(route.to_string(), name);
        }
    }
}
