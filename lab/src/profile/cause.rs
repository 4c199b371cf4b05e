//! What a call chain spends its time for: the nearest ancestor that is known decides.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What CPU time is spent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Copying bytes between user space and the kernel.
    Copy,
    /// Allocating, clearing and releasing pages and what describes them.
    Allocation,
    /// Charging memory to its cgroup.
    Accounting,
    /// Finding the pages behind an address (`get_user_pages`).
    PageLookup,
    /// Filling, passing on and emptying slots, and the sockets that fat slots come from.
    Ring,
    /// Taking a mutex, spinning or sleeping for it, or for a contended spin lock.
    Lock,
    /// Going to sleep until there is something to do, and waking the other side.
    Wake,
    /// Entering and leaving the kernel, and its way to the pipe.
    Entry,
    /// The program's own code.
    User,
    /// The kernel's part, where it may not be looked at.
    Hidden,
    /// What is not recognised.
    Other,
}

impl Cause {
    /// All of them, in the order of a drawing.
    pub const ALL: [Self; 11] = [
        Self::Copy,
        Self::Allocation,
        Self::Accounting,
        Self::PageLookup,
        Self::Ring,
        Self::Lock,
        Self::Wake,
        Self::Entry,
        Self::User,
        Self::Hidden,
        Self::Other,
    ];

    /// A name to be shown.
    pub fn title(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Allocation => "page allocation and release",
            Self::Accounting => "accounting (memcg)",
            Self::PageLookup => "page lookup",
            Self::Ring => "ring and slots",
            Self::Lock => "lock",
            Self::Wake => "sleep and wake-up",
            Self::Entry => "system-call entry",
            Self::User => "user code",
            Self::Hidden => "kernel, hidden",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// What marks a function of the kernel in a folded stack, as in other tools.
pub const KERNEL: &str = "_[k]";

/// Functions of the kernel that say what time is spent for. A `*` stands for any end. Names of several versions are
/// given together (`anon_pipe_write` was `pipe_write` before 6.15). What is not named here leaves the decision to its
/// caller: `memset`, `_raw_spin_unlock`, `preempt_schedule` and many others.
const KNOWN: [(Cause, &[&str]); 9] = [
    (
        Cause::Copy,
        &[
            "_copy_to_iter",
            "_copy_from_iter*",
            "copy_page_to_iter*",
            "copy_page_from_iter*",
            "copy_folio_from_iter*",
            "copy_user_*",
            "copy_to_user*",
            "copy_from_user*",
            "_copy_from_user",
            "_copy_to_user",
            "__copy_user*",
            "__arch_copy_*",
            "rep_movs_alternative",
            "raw_copy_*",
            "memcpy_*iter*",
            "skb_copy_datagram_*",
            "fault_in_*readable",
            "fault_in_*writeable",
            "fault_in_iov_iter*",
        ],
    ),
    (
        Cause::Allocation,
        &[
            "alloc_pages*",
            "__alloc_pages*",
            "__alloc_frozen_pages*",
            "alloc_frozen_pages*",
            "alloc_skb*",
            "__alloc_skb",
            "sock_alloc_send_*",
            "sock_wmalloc",
            "folio_alloc*",
            "__folio_alloc*",
            "vma_alloc_folio*",
            "vma_alloc_anon_folio*",
            "get_page_from_freelist",
            "rmqueue*",
            "__rmqueue*",
            "clear_page*",
            "clear_huge_page",
            "clear_user_highpage",
            "folio_zero_user",
            "kmem_cache_*alloc*",
            "kmem_cache_free*",
            "kmalloc*",
            "__kmalloc*",
            "kfree*",
            "__slab_*",
            "___slab_*",
            "free_unref_*",
            "__free_frozen_pages",
            "free_frozen_page*",
            "free_pages*",
            "__free_pages*",
            "free_pcppages_bulk",
            "__free_one_page",
            "put_page",
            "__put_page",
            "folio_put*",
            "__folio_put*",
            "folios_put*",
            "__folio_batch_release",
            "release_pages",
            "generic_pipe_buf_release",
            "page_cache_pipe_buf_release",
            "anon_pipe_buf_release",
            "sock_pipe_buf_release",
            "user_page_pipe_buf_release",
            "kfree_skb*",
            "consume_skb",
            "skb_release_*",
            "sock_wfree",
            "unix_destruct_scm",
            "asm_exc_page_fault",
            "exc_page_fault",
            "handle_mm_fault",
            "__handle_mm_fault",
            "do_anonymous_page",
            "do_huge_pmd_anonymous_page",
            "el0_da",
            "do_madvise",
            "madvise_*",
            "zap_*",
            "unmap_page_range",
            "tlb_*",
            "do_vmi_*",
            "__x64_sys_madvise",
            "__arm64_sys_madvise",
            "__x64_sys_munmap",
            "__x64_sys_mmap",
        ],
    ),
    (
        Cause::Accounting,
        &[
            "mem_cgroup_*",
            "__mem_cgroup_*",
            "memcg_*",
            "__memcg_*",
            "get_mem_cgroup_*",
            "obj_cgroup_*",
            "__obj_cgroup_*",
            "current_obj_cgroup",
            "get_obj_cgroup*",
            "drain_obj_stock",
            "refill_obj_stock",
            "consume_obj_stock",
            "try_charge*",
            "charge_memcg",
            "uncharge_*",
            "page_counter_*",
            "refill_stock",
            "drain_stock",
            "consume_stock",
            "mod_objcg*",
            "__mod_objcg*",
            "mod_memcg*",
            "__mod_memcg*",
            "__mod_lruvec*",
            "__lruvec_stat*",
            "lruvec_stat*",
            "__count_memcg*",
            "count_memcg*",
            "cgroup_rstat_updated",
            "css_rstat_updated",
            "account_pipe_buffers",
        ],
    ),
    (
        Cause::PageLookup,
        &[
            "iov_iter_get_pages*",
            "__iov_iter_get_pages*",
            "get_user_pages*",
            "__get_user_pages*",
            "internal_get_user_pages_fast",
            "gup_*",
            "follow_page*",
            "follow_pmd*",
            "pin_user_pages*",
            "try_grab_folio*",
            "try_get_folio",
            "lockless_pages_from_mm",
            "pud_huge",
            "pmd_huge",
        ],
    ),
    (
        Cause::Ring,
        &[
            "pipe_write",
            "pipe_read",
            "anon_pipe_write",
            "anon_pipe_read",
            "fifo_pipe_write",
            "fifo_pipe_read",
            "pipe_to_*",
            "splice_*",
            "__splice_*",
            "do_splice*",
            "iter_to_pipe",
            "vmsplice_*",
            "do_vmsplice",
            "add_to_pipe",
            "do_tee",
            "link_pipe",
            "opipe_prep",
            "ipipe_prep",
            "wait_for_space",
            "generic_pipe_buf_*",
            "pipe_buf_*",
            "pipe_fcntl",
            "iov_iter_advance",
            "import_iovec",
            "__import_iovec",
            "write_null",
            "splice_write_null",
            "pipe_poll",
            "unix_stream_*",
            "__unix_stream_*",
            "sock_splice_read",
            "skb_splice_bits",
            "__skb_splice_bits",
            "skb_queue_*",
            "skb_unlink",
            "__x64_sys_vmsplice",
            "__x64_sys_splice",
            "__x64_sys_tee",
            "__do_sys_vmsplice",
            "__do_sys_splice",
            "__do_sys_tee",
            "__se_sys_vmsplice",
            "__se_sys_splice",
            "__se_sys_tee",
            "__arm64_sys_vmsplice",
            "__arm64_sys_splice",
            "__arm64_sys_tee",
        ],
    ),
    (
        Cause::Lock,
        &[
            "mutex_*",
            "__mutex_*",
            "osq_*",
            "native_queued_spin_lock_slowpath",
            "queued_spin_lock_slowpath",
            "__pv_queued_spin_*",
            "pipe_lock",
            "pipe_unlock",
            "pipe_double_lock",
        ],
    ),
    (
        Cause::Wake,
        &[
            "schedule",
            "__schedule",
            "schedule_*",
            "__wake_up*",
            "wake_up_*",
            "try_to_wake_up",
            "ttwu_*",
            "default_wake_function",
            "autoremove_wake_function",
            "pollwake",
            "prepare_to_wait*",
            "finish_wait",
            "add_wait_queue*",
            "remove_wait_queue",
            "pipe_wait_*",
            "wait_for_partner",
            "do_sys_poll",
            "do_poll*",
            "poll_freewait",
            "__pollwait",
            "kill_fasync",
            "sock_def_readable",
            "sock_def_write_space",
            "unix_write_space",
            "finish_task_switch",
            "__x64_sys_poll",
            "__x64_sys_ppoll",
            "__arm64_sys_ppoll",
            "futex_*",
            "asm_sysvec_reschedule_ipi",
            "sysvec_reschedule_ipi",
            "exit_to_user_mode_loop",
        ],
    ),
    (
        Cause::Entry,
        &[
            "entry_SYSCALL_64*",
            "do_syscall_64",
            "x64_sys_call",
            "syscall_*",
            "__x64_sys_*",
            "__arm64_sys_*",
            "el0_svc*",
            "invoke_syscall*",
            "do_el0_svc",
            "ksys_*",
            "vfs_read",
            "vfs_write",
            "vfs_writev",
            "new_sync_*",
            "do_iter_*",
            "rw_verify_area",
            "security_*",
            "apparmor_*",
            "selinux_*",
            "bpf_lsm_*",
            "__sys_*",
            "__sock_sendmsg",
            "sock_sendmsg*",
            "sock_write_iter",
            "____sys_*",
            "___sys_*",
            "fsnotify*",
            "__fsnotify*",
            "file_update_time*",
            "touch_atime",
            "atime_needs_update",
            "inode_needs_update_time",
            "current_time",
            "inode_update_time*",
            "generic_update_time",
            "__audit_*",
            "__seccomp_filter",
            "seccomp_*",
            "__secure_computing",
            "do_fcntl",
            "srso_*",
            "retbleed_*",
            "entry_ibpb",
        ],
    ),
    // What an interrupt did has nothing to do with what it interrupted.
    (
        Cause::Other,
        &[
            "asm_sysvec_*",
            "asm_common_interrupt",
            "asm_exc_nmi",
            "el1_irq",
            "el1h_64_irq",
            "el1_interrupt",
            "el0_irq*",
            "handle_softirqs",
            "__do_softirq",
            "__irq_exit_rcu",
        ],
    ),
];

/// What one call chain spends its time for. `frames` is a folded stack: outermost function first, functions of the kernel
/// marked with [`KERNEL`].
pub fn classify<'a>(frames: impl DoubleEndedIterator<Item = &'a str>) -> Cause {
    let mut innermost = None;
    let mut callee = None;
    let mut in_kernel = false;
    for frame in frames.rev() {
        let Some(name) = frame.strip_suffix(KERNEL) else {
            break; // from here on it is the program that made the call
        };
        in_kernel = true;
        match (known(name), innermost) {
            // The wake-up ends by jumping there, so that it is not on the stack any more.
            (Some(Cause::Ring), None) if callee == Some("_raw_spin_unlock_irqrestore") => {
                innermost = Some(Cause::Wake);
            }
            (Some(cause), None) => innermost = Some(cause),
            // Sleeping for a mutex is the mutex's fault, not the pipe's.
            (Some(Cause::Lock), Some(Cause::Wake)) => return Cause::Lock,
            _ => {}
        }
        callee = Some(name);
    }
    match innermost {
        Some(cause) => cause,
        None if in_kernel => Cause::Other,
        None => Cause::User,
    }
}

/// What a function alone says.
fn known(name: &str) -> Option<Cause> {
    // Compilers mark parts and copies of functions: `pipe_read.part.0`, `iter_to_pipe.isra.0`.
    let name = name.split('.').next().unwrap_or(name);
    let mut best: Option<(usize, Cause)> = None;
    for (cause, patterns) in KNOWN {
        for pattern in patterns {
            // The longest pattern is the most exact one: `splice_*`, but `__x64_sys_*` less than `__x64_sys_splice`.
            if matches(pattern, name) && best.is_none_or(|(len, _)| pattern.len() > len) {
                best = Some((pattern.len(), cause));
            }
        }
    }
    best.map(|(_, cause)| cause)
}

/// Whether `name` is what `pattern` describes; each `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, "")) => name.starts_with(start),
        Some((start, rest)) => {
            let Some(left) = name.strip_prefix(start) else {
                return false;
            };
            (0..=left.len())
                .filter(|&i| left.is_char_boundary(i))
                .any(|i| matches(rest, &left[i..]))
        }
    }
}

#[cfg(test)]
mod tests;
