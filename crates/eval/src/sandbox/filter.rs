//! The system-call filter: everything an answer has no use for and that reaches beyond its own process and folder.
//!
//! It is what stands between a program and other processes and files of the same user where the system grants no
//! namespaces. A filter cannot look behind pointers, so calls that name a path are refused altogether or left to
//! Landlock; what is left open then (`stat`) is found by the trial at the start.

use std::collections::BTreeMap;

use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Calls refused whatever their arguments.
const REFUSED: &[libc::c_long] = &[
    // the network
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // other processes
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_kcmp,
    // their share of the machine, and one's own
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    // leaving the group that is killed at the end
    libc::SYS_setsid,
    libc::SYS_setpgid,
    // names, owners, times and attributes of files anywhere, which Landlock does not guard
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    // memory that no limit counts, and what others share
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // mounts, namespaces and the kernel
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    // older spellings
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
];

/// Numbers that are the same everywhere and newer than the C library's list.
const SYS_FCHMODAT2: libc::c_long = 452;
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_REMOVEXATTRAT: libc::c_long = 466;
const SYS_FILE_SETATTR: libc::c_long = 469;

/// Added to the number of a call of the x32 kind, which passes as one of x86-64.
#[cfg(target_arch = "x86_64")]
const X32: libc::c_long = 0x4000_0000;
/// Calls that the x32 kind has under numbers of its own.
#[cfg(target_arch = "x86_64")]
const X32_ONLY: std::ops::Range<libc::c_long> = 512..548;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refuses what is listed, new processes (threads are let through), signals to others by any way, limits of others, and
/// outliving one's parent.
pub(super) fn apply() -> Result<(), Box<dyn std::error::Error>> {
    let mut refused: Rules = REFUSED.iter().map(|&call| (call, Vec::new())).collect();
    let thread = libc::CLONE_THREAD as u64;
    refused.insert(libc::SYS_clone, vec![rule(0, SeccompCmpOp::MaskedEq(thread), 0)?]);
    refused.insert(libc::SYS_tgkill, vec![rule(0, SeccompCmpOp::Ne, u64::from(std::process::id()))?]);
    refused.insert(libc::SYS_prlimit64, vec![rule(0, SeccompCmpOp::Ne, 0)?]);
    refused.insert(libc::SYS_prctl, vec![rule(0, SeccompCmpOp::Eq, libc::PR_SET_PDEATHSIG as u64)?]);
    // A descriptor's owner is sent signals, whoever it is.
    refused.insert(libc::SYS_fcntl, equal(1, &[F_SETOWN, F_SETSIG, F_SETOWN_EX])?);
    refused.insert(libc::SYS_ioctl, equal(1, &[FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX])?);
    #[cfg(target_arch = "x86_64")]
    {
        let twins: Rules = refused.keys().map(|&call| (call | X32, Vec::new())).collect();
        refused.extend(twins);
        refused.extend(X32_ONLY.map(|call| (call | X32, Vec::new())));
    }
    // The C library falls back to `clone`, whose flags a filter can read.
    let absent = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    for (calls, errno) in [(refused, libc::EPERM), (absent, libc::ENOSYS)] {
        let refusal = SeccompAction::Errno(errno as u32);
        let filter =
            SeccompFilter::new(calls, SeccompAction::Allow, refusal, std::env::consts::ARCH.try_into()?)?;
        let program: seccompiler::BpfProgram = filter.try_into()?;
        seccompiler::apply_filter(&program)?;
    }
    Ok(())
}

const F_SETOWN: u64 = 8;
const F_SETSIG: u64 = 10;
const F_SETOWN_EX: u64 = 15;
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541C;

fn rule(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
    SeccompRule::new(vec![condition])
}

fn equal(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    values.iter().map(|&value| rule(argument, SeccompCmpOp::Eq, value)).collect()
}
