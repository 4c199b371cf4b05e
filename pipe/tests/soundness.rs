//! No reader, whatever it does with the data, sees a byte change after it was written; and what a writer says it has
//! written is in the pipe, once and in order. On real pipes, at random, compared byte by byte.
#![allow(unsafe_code, reason = "fork has no safe form")]

#[macro_use]
#[path = "soundness/alone.rs"]
mod alone;
#[path = "soundness/after_ok.rs"]
mod after_ok;
#[path = "soundness/ahead.rs"]
mod ahead;
#[path = "soundness/buffered.rs"]
mod buffered;
#[path = "soundness/constants.rs"]
mod constants;
#[path = "soundness/cow.rs"]
mod cow;
#[path = "soundness/drive.rs"]
mod drive;
#[path = "soundness/feed.rs"]
mod feed;
#[path = "soundness/lend.rs"]
mod lend;
#[path = "soundness/limits.rs"]
mod limits;
#[path = "soundness/packets.rs"]
mod packets;
#[path = "soundness/processes.rs"]
mod processes;
#[path = "soundness/promises.rs"]
mod promises;
#[path = "soundness/readers.rs"]
mod readers;
#[path = "soundness/schedules.rs"]
mod schedules;
#[path = "soundness/sequence.rs"]
mod sequence;
#[path = "soundness/tables.rs"]
mod tables;
#[path = "soundness/two.rs"]
mod two;
#[path = "soundness/watch.rs"]
mod watch;

use std::os::fd::AsFd;

use fullbore::PipeWriter;
use fullbore_sys::calls;
use fullbore_sys::writer::{LARGE, Unbuffered, Way};
use watch::skip;

/// Every safe way in; `None` chooses by itself.
const WAYS: [Option<Way>; 5] = [
    None,
    Some(Way::Cow),
    Some(Way::Fresh),
    Some(Way::Fat),
    Some(Way::Copy),
];

/// A writer that takes this way. Its pool is one huge page, which is written again as soon as can be.
fn writer<Fd: AsFd>(fd: Fd, way: Option<Way>) -> Unbuffered<Fd> {
    let writer = Unbuffered::new(fd).with_start(0).with_pool(1);
    match way {
        Some(way) => writer.with_way(way),
        None => writer,
    }
}

/// Whether this way can be taken here; says so where it cannot.
fn is_to_be_had(test: &str, way: Option<Way>) -> bool {
    let (_reader, pipe) = calls::pipe().expect("a pipe");
    let path = writer(pipe, way).path();
    let refused = way.is_some_and(|way| way != path.way);
    if refused {
        skip(test, path);
    }
    !refused
}
