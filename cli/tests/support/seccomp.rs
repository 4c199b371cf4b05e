//! Kernels that lack a system call, and sandboxes that refuse one: a filter (seccomp(2)) that a command gets before it starts.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter,
};

use super::BINARY;

/// Lets each of these system calls fail with `errno` in `command` and in whatever it starts. May be called more than
/// once for a command, as long as an earlier call does not refuse `prctl` or `seccomp`.
pub fn refuse(command: &mut Command, syscalls: &[i64], errno: i32) {
    // No rule: whatever its arguments are.
    let rules = syscalls.iter().map(|&syscall| (syscall, Vec::new()));
    install(command, rules.collect(), errno);
}

/// Lets a system call fail with `errno` where its argument number `argument` (0 to 5) has any of the bits in `mask`,
/// which lie in the lower half of the argument.
pub fn refuse_flag(command: &mut Command, syscall: i64, argument: u8, mask: u32, errno: i32) {
    let bits = (0..u32::BITS).map(|n| 1 << n & u64::from(mask));
    let rules = bits
        .filter(|&bit| bit != 0)
        .map(|bit| rule(argument, SeccompCmpOp::MaskedEq(bit), bit));
    install(command, BTreeMap::from([(syscall, rules.collect())]), errno);
}

/// Lets a system call fail with `errno` where the lower half of its argument number `argument` (0 to 5) is `value`.
pub fn refuse_value(command: &mut Command, syscall: i64, argument: u8, value: u32, errno: i32) {
    let rules = vec![rule(argument, SeccompCmpOp::Eq, value.into())];
    install(command, BTreeMap::from([(syscall, rules)]), errno);
}

/// Why no filter can be installed here, if that is so: a reason to skip with.
pub fn refusal() -> Option<String> {
    let mut command = Command::new(BINARY);
    command.arg("--version").stdout(Stdio::null());
    // Refuses nothing.
    refuse(&mut command, &[], libc::EPERM);
    match command.status() {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!(
            "under a seccomp filter, --version ended with {status}"
        )),
        Err(why) => Some(format!("no seccomp filter can be installed here: {why}")),
    }
}

fn rule(argument: u8, is: SeccompCmpOp, value: u64) -> SeccompRule {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value);
    SeccompRule::new(vec![condition.expect("an argument")]).expect("a condition")
}

fn install(command: &mut Command, rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) {
    let refused = SeccompAction::Errno(errno as u32);
    let here = std::env::consts::ARCH
        .try_into()
        .expect("a known processor");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, here).expect("a filter");
    let program = BpfProgram::try_from(filter).expect("a program");
    let installed = move || {
        apply_filter(&program).map_err(|e| match e {
            Error::Prctl(e) | Error::Seccomp(e) => e,
            _ => io::ErrorKind::Other.into(),
        })
    };
    // SAFETY: between fork and exec this makes two system calls and allocates nothing (an error number is stored in place).
    unsafe { command.pre_exec(installed) };
}
