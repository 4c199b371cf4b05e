//! What there is to measure, as data: one entry per column.

use serde::{Deserialize, Serialize};

use crate::worker::order::Work;
use crate::worker::stream::Link;

/// Which table a column belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// lmbench's columns, and those that people ask for.
    Bandwidth,
    /// A pipe as the buffer between two descriptors.
    Conduit,
    /// Round trips.
    Latency,
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bandwidth => "bandwidth",
            Self::Conduit => "conduit",
            Self::Latency => "latency",
        })
    }
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name in the saved run.
    pub id: &'static str,
    /// Head of the column; a blank is where the line may be broken.
    pub title: &'static str,
    /// What is measured, in one line.
    pub what: &'static str,
    /// Its table.
    pub group: Group,
    /// How often a byte is copied on its way, where that is the point; by reference as Linux does it from 6.5 on.
    pub copies: Option<u32>,
    /// Whether a CPU touches the data at the end; where it does not, the rate is one of references.
    pub touches_data: bool,
    pub(super) how: How,
}

/// How a trial of a column is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    /// The rung of the ladder of this name.
    Rung(&'static str),
    /// One process, which works alone.
    Alone(Work),
    /// A sender and a receiver, with this between them.
    Between(Link, Work, Work),
}

const fn bandwidth(id: &'static str, title: &'static str, what: &'static str, how: How) -> Column {
    Column {
        id,
        title,
        what,
        group: Group::Bandwidth,
        copies: None,
        touches_data: true,
        how,
    }
}

const fn latency(id: &'static str, title: &'static str, link: Link) -> Column {
    Column {
        group: Group::Latency,
        ..bandwidth(
            id,
            title,
            "one byte to another process and back, both blocking",
            How::Between(link, Work::Ping, Work::Pong),
        )
    }
}

/// lmbench's nine columns, then those that people ask for.
pub const BANDWIDTH: &[Column] = &[
    bandwidth(
        "pipe",
        "Pipe",
        "write(2) and read(2) of 64 KiB, two processes, a pipe as it comes",
        How::Between(Link::Pipe, Work::Send, Work::Receive),
    ),
    bandwidth(
        "af-unix",
        "AF_UNIX",
        "the same through a stream socket pair",
        How::Between(Link::Unix, Work::Send, Work::Receive),
    ),
    bandwidth(
        "tcp",
        "TCP",
        "the same through TCP on the loopback interface, 1 MiB asked for in both socket buffers",
        How::Between(Link::Tcp, Work::Send, Work::Receive),
    ),
    bandwidth(
        "file-reread",
        "File reread",
        "read(2) of 64 KiB from the page cache, and the sum of its words",
        How::Alone(Work::FileReread),
    ),
    bandwidth(
        "mmap-reread",
        "Mmap reread",
        "the sum of the words of a mapped file in the page cache",
        How::Alone(Work::MmapReread),
    ),
    bandwidth(
        "bcopy-libc",
        "Bcopy libc",
        "memcpy of the C library between two buffers larger than the caches",
        How::Alone(Work::BcopyLibc),
    ),
    bandwidth(
        "bcopy-hand",
        "Bcopy hand",
        "a loop of one load and one store per 8 bytes, which no compiler may turn into memcpy",
        How::Alone(Work::BcopyHand),
    ),
    bandwidth(
        "mem-read",
        "Mem read",
        "a loop of one load per 8 bytes, summed",
        How::Alone(Work::MemRead),
    ),
    bandwidth(
        "mem-write",
        "Mem write",
        "a loop of one store per 8 bytes",
        How::Alone(Work::MemWrite),
    ),
    bandwidth(
        "shared-memory",
        "Shared ring",
        "the ladder's shared-memory: 128 KiB blocks through a ring in shared memory, copied in and out, spinning",
        How::Rung("shared-memory"),
    ),
    bandwidth(
        "fresh",
        "fresh",
        "the ladder's fresh-read: new data copied into huge pages that are lent to a 1 MiB pipe, then abandoned; spinning",
        How::Rung("fresh-read"),
    ),
    bandwidth(
        "fat",
        "fat",
        "the ladder's fat-read: new data copied into a socket and spliced to a 1 MiB pipe, 32 KiB per slot; spinning",
        How::Rung("fat-read"),
    ),
];

/// Round trips.
pub const LATENCIES: &[Column] = &[
    latency("pipe", "Pipe", Link::Pipe),
    latency("af-unix", "AF_UNIX", Link::Unix),
    latency("tcp", "TCP", Link::Tcp),
];

const fn conduit(
    id: &'static str,
    title: &'static str,
    what: &'static str,
    copies: u32,
    touches_data: bool,
    how: How,
) -> Column {
    Column {
        group: Group::Conduit,
        copies: Some(copies),
        touches_data,
        ..bandwidth(id, title, what, how)
    }
}

/// Conduits, each without copies (splice and tee) and then with (read and write), for the same purpose.
pub const CONDUITS: &[Column] = &[
    conduit(
        "file-file-splice",
        "to file",
        "splice file → pipe → file: by reference into the pipe, copied once into the other file's page cache",
        1,
        true,
        How::Alone(Work::Splice),
    ),
    conduit(
        "file-file-copy",
        "to file",
        "read(2) from the file into a buffer, write(2) to the other file",
        2,
        true,
        How::Alone(Work::Copy),
    ),
    conduit(
        "file-tcp-splice",
        "to TCP",
        "splice file → pipe → TCP socket; the receiver's read(2) is the only copy",
        1,
        true,
        How::Between(Link::Tcp, Work::Splice, Work::Receive),
    ),
    conduit(
        "file-tcp-copy",
        "to TCP",
        "read(2) from the file, write(2) to the TCP socket, read(2) by the receiver",
        3,
        true,
        How::Between(Link::Tcp, Work::Copy, Work::Receive),
    ),
    conduit(
        "file-unix-splice",
        "to AF_UNIX",
        "splice file → pipe → AF_UNIX socket; the receiver's read(2) is the only copy",
        1,
        true,
        How::Between(Link::Unix, Work::Splice, Work::Receive),
    ),
    conduit(
        "file-unix-copy",
        "to AF_UNIX",
        "read(2) from the file, write(2) to the AF_UNIX socket, read(2) by the receiver",
        3,
        true,
        How::Between(Link::Unix, Work::Copy, Work::Receive),
    ),
    conduit(
        "tee-2-splice",
        "tee to 2",
        "splice file → pipe, tee to 2 pipes, each emptied into /dev/null by splice",
        0,
        false,
        How::Alone(Work::Tee(2)),
    ),
    conduit(
        "tee-2-copy",
        "tee to 2",
        "read(2) from the file, write(2) to each of 2 pipes, each emptied into /dev/null by splice",
        3,
        false,
        How::Alone(Work::Spread(2)),
    ),
    conduit(
        "tee-4-splice",
        "tee to 4",
        "splice file → pipe, tee to 4 pipes, each emptied into /dev/null by splice",
        0,
        false,
        How::Alone(Work::Tee(4)),
    ),
    conduit(
        "tee-4-copy",
        "tee to 4",
        "read(2) from the file, write(2) to each of 4 pipes, each emptied into /dev/null by splice",
        5,
        false,
        How::Alone(Work::Spread(4)),
    ),
];

/// What a run measures: the nine columns and more with their latencies, or the conduits.
pub fn columns(conduits: bool) -> Vec<Column> {
    if conduits {
        CONDUITS.to_vec()
    } else {
        [BANDWIDTH, LATENCIES].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bandwidth::year_2005;
    use crate::ladder::rung::ladder;

    #[test]
    fn the_first_nine_columns_are_those_of_2005_and_rungs_exist() {
        let ids: Vec<_> = BANDWIDTH.iter().map(|c| c.id).collect();
        assert_eq!(ids[..9], year_2005::COLUMNS);
        for column in BANDWIDTH {
            if let How::Rung(id) = column.how {
                assert!(ladder().iter().any(|r| r.id == id), "{id}");
            }
        }
    }

    #[test]
    fn conduits_come_in_pairs_without_and_with_copies() {
        for [without, with] in CONDUITS.as_chunks::<2>().0 {
            assert_eq!(without.title, with.title);
            assert!(without.copies < with.copies);
        }
    }
}
