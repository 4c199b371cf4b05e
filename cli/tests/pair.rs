//! `fullbore write | fullbore read`, held to what the command line promises. Nothing here asserts a speed.

mod support;

#[path = "pair/ends.rs"]
mod ends;
#[path = "pair/manners.rs"]
mod manners;
#[path = "pair/original.rs"]
mod original;
#[path = "pair/refusals.rs"]
mod refusals;
#[path = "pair/report.rs"]
mod report;
#[path = "pair/verify.rs"]
mod verify;

/// Every way to wait. `adaptive` is one more word here.
const WAITS: [&str; 4] = ["block", "poll", "spin", "poll-spin"];

/// Every way in: options of the writer, to be given to the reader as well where it must know them.
/// `fresh`, `fat` and `tee` are one more line each.
const WAYS_IN: [&str; 4] = [
    "--write-with write",
    "--write-with write --pages huge",
    "--write-with vmsplice",
    "--write-with vmsplice --pages huge",
];

/// Every way out. `relay` is one more line.
const WAYS_OUT: [&str; 2] = ["--read-with read", "--read-with splice"];
