use super::*;

/// Stacks as recorded, each with what it is: of Linux 6.18 on an x86-64 guest by this program, of 5.15 and 5.17 as
/// `perf report` shows them, and of 6.1 on aarch64.
const RECORDED: &str = "
copy        6.18  w;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];ksys_write_[k];vfs_write_[k];anon_pipe_write_[k];copy_page_from_iter_[k];_copy_from_iter_[k]
copy        6.18  r;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];ksys_read_[k];vfs_read_[k];anon_pipe_read_[k];copy_page_to_iter_[k];_copy_to_iter_[k]
copy        6.18  w;do_syscall_64_[k];__x64_sys_sendmmsg_[k];__sys_sendmmsg_[k];___sys_sendmsg_[k];____sys_sendmsg_[k];unix_stream_sendmsg_[k];skb_copy_datagram_from_iter_[k];_copy_from_iter_[k]
copy        5.17  w;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];__x64_sys_write_[k];ksys_write_[k];vfs_write_[k];new_sync_write_[k];pipe_write_[k];copy_page_from_iter_[k];copyin_[k];copy_user_enhanced_fast_string_[k]
copy        6.1   r;el0t_64_sync_[k];el0_svc_[k];do_el0_svc_[k];invoke_syscall_[k];__arm64_sys_read_[k];ksys_read_[k];vfs_read_[k];pipe_read_[k];copy_page_to_iter_[k];_copy_to_iter_[k];__arch_copy_to_user_[k]
allocation  6.18  w;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];ksys_write_[k];vfs_write_[k];anon_pipe_write_[k];alloc_pages_noprof_[k];alloc_pages_mpol_[k];__alloc_frozen_pages_noprof_[k];get_page_from_freelist_[k];__rmqueue_pcplist_[k];_raw_spin_unlock_irqrestore_[k]
allocation  6.18  [libc.so.6];asm_exc_page_fault_[k];exc_page_fault_[k];handle_mm_fault_[k];__handle_mm_fault_[k];do_huge_pmd_anonymous_page_[k];vma_alloc_anon_folio_pmd_[k];folio_zero_user_[k];clear_page_erms_[k]
allocation  6.18  r;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];__x64_sys_splice_[k];__do_splice_[k];do_splice_[k];splice_from_pipe_[k];__splice_from_pipe_[k];page_cache_pipe_buf_release_[k]
allocation  5.17  w;do_syscall_64_[k];__x64_sys_write_[k];ksys_write_[k];vfs_write_[k];new_sync_write_[k];pipe_write_[k];alloc_pages_[k];__alloc_pages_[k];get_page_from_freelist_[k]
allocation  5.17  r;do_syscall_64_[k];ksys_read_[k];vfs_read_[k];pipe_read_[k];anon_pipe_buf_release_[k];free_unref_page_[k]
accounting  6.18  w;do_syscall_64_[k];ksys_write_[k];vfs_write_[k];anon_pipe_write_[k];alloc_pages_noprof_[k];alloc_pages_mpol_[k];__alloc_frozen_pages_noprof_[k];__memcg_kmem_charge_page_[k];obj_cgroup_charge_pages_[k];page_counter_try_charge_[k]
accounting  6.18  r;do_syscall_64_[k];ksys_read_[k];vfs_read_[k];anon_pipe_read_[k];anon_pipe_buf_release_[k];__folio_put_[k];__mem_cgroup_uncharge_[k];uncharge_batch_[k];__rcu_read_lock_[k]
page-lookup 6.18  w;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];__do_sys_vmsplice_[k];iov_iter_get_pages2_[k];__iov_iter_get_pages_alloc_[k];get_user_pages_fast_[k];gup_fast_fallback_[k]
page-lookup 5.17  w;do_syscall_64_[k];__do_sys_vmsplice_[k];iter_to_pipe_[k];iov_iter_get_pages_[k];internal_get_user_pages_fast_[k];try_grab_folio.part.0_[k]
ring        6.18  r;do_syscall_64_[k];__x64_sys_splice_[k];__do_splice_[k];do_splice_[k];splice_from_pipe_[k];__splice_from_pipe_[k]
ring        6.18  w;do_syscall_64_[k];__x64_sys_tee_[k];ipipe_prep.part.0_[k]
ring        5.17  w;do_syscall_64_[k];__do_sys_vmsplice_[k];iter_to_pipe_[k];add_to_pipe_[k]
lock        6.18  w;do_syscall_64_[k];__do_sys_vmsplice_[k];pipe_lock_[k];mutex_lock_[k];__mutex_lock.constprop.0_[k];mutex_spin_on_owner_[k]
lock        6.18  w;do_syscall_64_[k];ksys_write_[k];vfs_write_[k];anon_pipe_write_[k];__mutex_lock.constprop.0_[k];schedule_preempt_disabled_[k];schedule_[k];__schedule_[k];finish_task_switch.isra.0_[k]
wake        6.18  r;do_syscall_64_[k];ksys_read_[k];vfs_read_[k];anon_pipe_read_[k];schedule_[k];__schedule_[k];finish_task_switch.isra.0_[k]
wake        6.18  r;do_syscall_64_[k];ksys_read_[k];vfs_read_[k];anon_pipe_read_[k];__wake_up_sync_key_[k];__wake_up_common_[k];autoremove_wake_function_[k];try_to_wake_up_[k];_raw_spin_unlock_irqrestore_[k]
wake        6.18  w;do_syscall_64_[k];ksys_write_[k];vfs_write_[k];anon_pipe_write_[k];_raw_spin_unlock_irqrestore_[k]
wake        6.18  r;do_syscall_64_[k];__x64_sys_ppoll_[k];do_sys_poll_[k];fdget_[k]
wake        5.15  r;do_syscall_64_[k];ksys_read_[k];vfs_read_[k];new_sync_read_[k];pipe_read_[k];__wake_up_common_lock_[k];__wake_up_common_[k];autoremove_wake_function_[k];try_to_wake_up_[k];native_smp_send_reschedule_[k]
entry       6.18  r;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k]
entry       6.18  r;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];ksys_read_[k];vfs_read_[k];rw_verify_area_[k];security_file_permission_[k]
entry       6.1   r;el0t_64_sync_[k];el0_svc_[k];do_el0_svc_[k];invoke_syscall_[k];__arm64_sys_read_[k];ksys_read_[k];fdget_pos_[k]
user        6.18  main;fullbore_lab::reader::Reader::run
other       6.18  r;do_syscall_64_[k];ksys_read_[k];vfs_read_[k];anon_pipe_read_[k];asm_sysvec_apic_timer_interrupt_[k];sysvec_apic_timer_interrupt_[k];__irq_exit_rcu_[k];handle_softirqs_[k];rcu_core_[k]
other       6.18  main;never_seen_[k]
";

#[test]
fn recorded_stacks_of_several_kernels_are_put_down_to_their_causes() {
    let mut seen = std::collections::BTreeSet::new();
    for line in RECORDED.lines().filter(|l| !l.is_empty()) {
        let mut fields = line.split_whitespace();
        let (expected, _, stack) = (fields.next(), fields.next(), fields.next());
        let cause = classify(stack.unwrap().split(';'));
        seen.insert(cause);
        let named = serde_json::to_value(cause).unwrap();
        assert_eq!(named.as_str(), expected, "{line}");
    }
    // `hidden` is no stack at all.
    assert_eq!(seen.len(), Cause::ALL.len() - 1, "{seen:?}");
}

#[test]
fn star_stands_for_anything_and_the_most_exact_pattern_wins() {
    assert!(matches("memcpy_*iter*", "memcpy_from_iter_mc"));
    assert!(!matches("memcpy_*iter*", "memcpy_flushcache"));
    assert!(matches("a*", "a") && !matches("a", "ab"));
    assert_eq!(known("__x64_sys_splice"), Some(Cause::Ring));
    assert_eq!(known("__x64_sys_read"), Some(Cause::Entry));
    assert_eq!(known("iter_to_pipe.isra.0"), Some(Cause::Ring));
}
