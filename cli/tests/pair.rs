//! `fullbore write | fullbore read`, held to what the command line promises. Nothing here asserts a speed.

mod support;

#[path = "pair/ahead.rs"]
mod ahead;
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

/// Every way to wait.
const WAITS: [&str; 5] = ["block", "poll", "spin", "poll-spin", "adaptive"];

/// Every write method for data of any kind; `tee` sends a pattern of its own.
const WAYS_IN: [&str; 9] = [
    "--write-with write",
    "--write-with write --pages huge",
    "--write-with vmsplice",
    "--write-with vmsplice --pages huge",
    "--write-with fresh",
    "--write-with fat",
    "--write-with reuse --ahead 4M",
    "--write-with fresh --ahead 4M",
    "--write-with fat --ahead 4M",
];

/// Every read method.
const WAYS_OUT: [&str; 3] = [
    "--read-with read",
    "--read-with splice",
    "--read-with relay",
];
