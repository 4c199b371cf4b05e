//! Kernels that lack a system call, and sandboxes that refuse one: a filter (seccomp(2)) that a command gets before it starts.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use libc::{sock_filter, sock_fprog};

use super::BINARY;

/// Lets each of these system calls fail with `errno` in `command` and in whatever it starts. May be called more than
/// once for a command, as long as an earlier call does not refuse `prctl`.
pub fn refuse(command: &mut Command, syscalls: &[i64], errno: i32) {
    let mut program = vec![load(NUMBER)];
    for &syscall in syscalls {
        program.push(if_equal(syscall as u32, 1));
        program.push(answer(libc::SECCOMP_RET_ERRNO | errno as u32));
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    install(command, program);
}

/// Lets a system call fail with `errno` where its argument number `argument` (0 to 5) has any of the bits in `mask`,
/// which lie in the lower half of the argument.
pub fn refuse_flag(command: &mut Command, syscall: i64, argument: u32, mask: u32, errno: i32) {
    refuse_where(
        command,
        syscall,
        argument,
        jump(libc::BPF_JSET, mask, 0, 1),
        errno,
    );
}

/// Lets a system call fail with `errno` where the lower half of its argument number `argument` (0 to 5) is `value`.
pub fn refuse_value(command: &mut Command, syscall: i64, argument: u32, value: u32, errno: i32) {
    refuse_where(command, syscall, argument, if_equal(value, 1), errno);
}

/// The `condition` goes on where it holds of what was loaded, and else skips one instruction.
fn refuse_where(
    command: &mut Command,
    syscall: i64,
    argument: u32,
    condition: sock_filter,
    errno: i32,
) {
    let program = vec![
        load(NUMBER),
        if_equal(syscall as u32, 3),
        load(ARGUMENTS + 8 * argument + LOWER_HALF),
        condition,
        answer(libc::SECCOMP_RET_ERRNO | errno as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    install(command, program);
}

/// Why no filter can be installed here, if that is so: a reason to skip with.
pub fn refusal() -> Option<String> {
    let mut command = Command::new(BINARY);
    command.arg("--version").stdout(Stdio::null());
    // Refuses nothing.
    refuse(&mut command, &[], 0);
    match command.status() {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!(
            "under a seccomp filter, --version ended with {status}"
        )),
        Err(why) => Some(format!("no seccomp filter can be installed here: {why}")),
    }
}

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARGUMENTS: u32 = 16;
const LOWER_HALF: u32 = if cfg!(target_endian = "big") { 4 } else { 0 };

fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

fn jump(condition: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    instruction(libc::BPF_JMP | condition | libc::BPF_K, k, jt, jf)
}

/// Goes on where what was loaded is `k`, and else skips so many instructions.
fn if_equal(k: u32, skip: u8) -> sock_filter {
    jump(libc::BPF_JEQ, k, 0, skip)
}

fn answer(k: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, k, 0, 0)
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    let code = code as u16;
    sock_filter { code, jt, jf, k }
}

fn install(command: &mut Command, mut program: Vec<sock_filter>) {
    let installed = move || {
        let filter = sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // Without this, only root may install a filter.
        // SAFETY: these arguments are numbers.
        let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let mode = libc::SECCOMP_MODE_FILTER;
        // SAFETY: `filter` points to as many instructions as it says, which `program` keeps; the kernel copies them.
        let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: between fork and exec this makes two system calls and allocates nothing (an error number is stored in place).
    unsafe { command.pre_exec(installed) };
}
