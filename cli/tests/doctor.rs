//! `fullbore doctor` and `fullbore gup`, held to what the command line promises. Nothing here asserts a speed.

mod support;

use std::process::{Command, Stdio};

use support::{To, seccomp, skip, start};

#[test]
fn filter_is_in_force_in_the_command_that_was_given_it() {
    if let Some(why) = seccomp::refusal() {
        return skip(why);
    }
    let mut command = Command::new("cat");
    command.arg("/proc/self/status");
    seccomp::refuse(&mut command, &[libc::SYS_vmsplice], libc::EPERM);
    let run = start(command, Stdio::null(), To::Captured).finish();
    assert!(run.out.contains("\nSeccomp:\t2\n"), "{run}");
}
