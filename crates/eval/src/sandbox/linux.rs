//! Linux: namespaces and a file tree of one's own, Landlock, and a system-call filter.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
    path_beneath_rules,
};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, mount_recursive_bind,
    mount_remount, unmount,
};
use rustix::process::{Signal, chdir, getegid, geteuid, pivot_root, set_parent_process_death_signal};
use rustix::thread::{UnshareFlags, set_no_new_privs, unshare};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::{HELPER, Order, Stage, handed_on, inner};

/// User and group inside; nobody.
const NOBODY: u32 = 65_534;
/// The helper and the writable folder in the new tree.
const SELF: &str = "/.demask";
const WORK: &str = "/work";
/// Size of everything the program writes, and of how many files.
const WORK_OPTIONS: &str = "size=64m,nr_inodes=4k,mode=0777";

pub(super) fn die_with_parent() {
    let _ = set_parent_process_death_signal(Some(Signal::Kill));
}

/// Namespaces first; without them the inner stage follows in this process.
pub(super) fn outer(mut order: Order) -> io::Result<ExitCode> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let all = UnshareFlags::NEWUSER
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS;
    let helper = std::env::current_exe()?;
    if unshare(all).is_err() {
        order.stage = Stage::Inner;
        return Err(inner(order));
    }
    // From here on this process has every right inside its namespaces and none outside; its child has none at all.
    let _ = fs::write("/proc/self/setgroups", "deny");
    fs::write("/proc/self/uid_map", format!("{NOBODY} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{NOBODY} {gid} 1"))?;
    let _ = rustix::system::sethostname(b"sandbox");
    order.layers.extend(["processes", "network"].map(str::to_owned));
    let mut program = helper.clone();
    if tree(&order, &helper).is_ok() {
        order.layers.push("root".into());
        (order.folder, program) = (WORK.into(), SELF.into());
    }
    order.stage = Stage::Inner;
    let status = Command::new(program)
        .args([HELPER, &handed_on(&order)?])
        .env_clear()
        .current_dir(&order.folder)
        .status()?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(255)))
}

/// A tree with what may be read, read-only, and a small writable folder; it becomes the root.
fn tree(order: &Order, helper: &Path) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let root = order.folder.as_path();
    let safe = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", root, "tmpfs", safe, "size=1m,mode=0755")?;
    let mut parts: Vec<PathBuf> = order.readable().collect();
    parts.sort();
    parts.dedup();
    let mut bound: Vec<PathBuf> = Vec::new();
    for part in parts {
        if bound.iter().any(|whole| part.starts_with(whole)) {
            continue;
        }
        let inside = root.join(part.strip_prefix("/").unwrap_or(&part));
        if let Some(parent) = inside.parent() {
            fs::create_dir_all(parent)?;
        }
        // `/lib` and its like are links on most systems.
        if part.is_symlink() && part.parent() == Some(Path::new("/")) {
            symlink(fs::read_link(&part)?, &inside)?;
            continue;
        }
        bind(&part, &inside)?;
        bound.push(part);
    }
    bind(helper, &root.join(SELF.trim_start_matches('/')))?;
    let work = root.join(WORK.trim_start_matches('/'));
    fs::create_dir(&work)?;
    mount("tmpfs", &work, "tmpfs", safe | MountFlags::NOEXEC, WORK_OPTIONS)?;
    mount_remount(root, MountFlags::BIND | MountFlags::RDONLY | safe, "")?;
    chdir(root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(chdir("/")?)
}

fn bind(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
    } else {
        fs::write(to, "")?;
    }
    mount_recursive_bind(from, to)?;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID;
    // What the system forbids of a mount must be forbidden of its copy too.
    let stated = statvfs(from)?.f_flag;
    flags.set(MountFlags::NOEXEC, stated.contains(StatVfsMountFlags::NOEXEC));
    flags.set(MountFlags::NODEV, stated.contains(StatVfsMountFlags::NODEV));
    Ok(mount_remount(to, flags, "")?)
}

/// Rules and filters for this process and what it becomes.
pub(super) fn restrict(readable: &[PathBuf], folder: &Path) -> Vec<String> {
    let mut layers = Vec::new();
    if set_no_new_privs(true).is_err() {
        return layers;
    }
    if matches!(rules(readable, folder), Ok(status) if status != RulesetStatus::NotEnforced) {
        layers.push("landlock".to_owned());
    }
    if filter().is_ok() {
        layers.push("seccomp".to_owned());
    }
    layers
}

fn rules(readable: &[PathBuf], folder: &Path) -> Result<RulesetStatus, landlock::RulesetError> {
    let abi = ABI::V6;
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(abi)))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::from_file(abi)))?
        .add_rules(path_beneath_rules([folder], AccessFs::from_all(abi)))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// System calls that answers to benchmarks have no use for.
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
    // memory that no limit counts
    libc::SYS_memfd_create,
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
    // mounts, namespaces and the kernel
    libc::SYS_mount,
    libc::SYS_umount2,
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
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Refuses what is listed, new processes (threads are let through) and signals to others.
fn filter() -> Result<(), Box<dyn std::error::Error>> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|&call| (call, Vec::new())).collect();
    let rule = |argument, operator, value| -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
        Ok(vec![SeccompRule::new(vec![condition])?])
    };
    let thread = libc::CLONE_THREAD as u64;
    refused.insert(libc::SYS_clone, rule(0, SeccompCmpOp::MaskedEq(thread), 0)?);
    refused.insert(libc::SYS_tgkill, rule(0, SeccompCmpOp::Ne, u64::from(std::process::id()))?);
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
