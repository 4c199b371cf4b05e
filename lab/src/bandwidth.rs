//! What this machine moves per second, column by column, as lmbench's table of 2005 has it; and conduits: a pipe as the
//! buffer between two descriptors, with and without copies.
//!
//! The path: [`mod@column`] (what there is to measure, as data) → [`measuring`] (a trial of each) → `summary` (what they all
//! say) → [`result`] (how it is saved).
//!
//! # Against lmbench
//!
//! Read from lmbench 3's sources (`bw_pipe`, `bw_unix`, `bw_tcp`, `bw_file_rd`, `bw_mmap_rd`, `bw_mem`, `lat_*`, and
//! `getsummary`, which picks the figures of its table).
//!
//! The same: 64 KiB per call (`XFERSIZE`); two processes for what goes between two; a pipe and a socket pair as they come;
//! TCP over the loopback interface with 1 MiB asked for in both socket buffers; the reader's buffer off page alignment for
//! the pipe; reread from the page cache, summed word by word, without open, mmap and close in the time; buffers larger than
//! the caches; a copied byte counts once; MB is 10⁶ bytes; 1 byte there and back for latency.
//!
//! Different: the two processes are pinned to CPUs chosen for it (lmbench lets the scheduler choose); words are 8 bytes
//! (lmbench: 4, from a time when that was what a register held); a trial ends after a time and not after a number of bytes,
//! so there is no handshake per 10 MB; TCP uses 64 KiB messages as the others do (`getsummary` takes lmbench's largest,
//! 10 MB); a round trip is timed by itself, so that there is a median and a 99th percentile (lmbench: the mean of many).

mod buffer_size;
pub mod column;
pub mod measuring;
pub mod result;
mod summary;
pub mod year_2005;
