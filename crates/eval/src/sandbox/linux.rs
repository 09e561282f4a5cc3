//! Linux: namespaces and a file tree of one's own, Landlock, and a system-call filter.

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
use rustix::thread::{
    Capability, UnshareFlags, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_no_new_privs, unshare,
};

use super::{FIRST, HELPER, Order, Stage, handed_on, inner, say};

#[path = "filter.rs"]
mod filter;

/// User and group inside; nobody.
const NOBODY: u32 = 65_534;
/// The helper and the writable folder in the new tree.
const SELF: &str = "/.demask";
const WORK: &str = "/work";
/// How many files the program may have.
const WORK_FILES: &str = "nr_inodes=4k,mode=0777";

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
    let mut child = Command::new(program)
        .args([HELPER, &handed_on(&order)?])
        .env_clear()
        .current_dir(&order.folder)
        .spawn()?;
    say(io::stderr(), &format!("{FIRST}{}", child.id()));
    let status = child.wait()?;
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
    let options = format!("size={},{WORK_FILES}", order.limits.total);
    mount("tmpfs", &work, "tmpfs", safe | MountFlags::NOEXEC, options)?;
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
    drop_capabilities();
    if matches!(rules(readable, folder), Ok(status) if status != RulesetStatus::NotEnforced) {
        layers.push("landlock".to_owned());
    }
    if filter::apply().is_ok() {
        layers.push("seccomp".to_owned());
    }
    layers
}

/// Everything that root may do and others may not.
const CAPABILITIES: [Capability; 41] = [
    Capability::ChangeOwnership,
    Capability::DACOverride,
    Capability::DACReadSearch,
    Capability::FileOwner,
    Capability::FileSetID,
    Capability::Kill,
    Capability::SetGroupID,
    Capability::SetUserID,
    Capability::SetPermittedCapabilities,
    Capability::LinuxImmutable,
    Capability::NetBindService,
    Capability::NetBroadcast,
    Capability::NetAdmin,
    Capability::NetRaw,
    Capability::IPCLock,
    Capability::IPCOwner,
    Capability::SystemModule,
    Capability::SystemRawIO,
    Capability::SystemChangeRoot,
    Capability::SystemProcessTrace,
    Capability::SystemProcessAccounting,
    Capability::SystemAdmin,
    Capability::SystemBoot,
    Capability::SystemNice,
    Capability::SystemResource,
    Capability::SystemTime,
    Capability::SystemTTYConfig,
    Capability::MakeNode,
    Capability::Lease,
    Capability::AuditWrite,
    Capability::AuditControl,
    Capability::SetFileCapabilities,
    Capability::MACOverride,
    Capability::MACAdmin,
    Capability::SystemLog,
    Capability::WakeAlarm,
    Capability::BlockSuspend,
    Capability::AuditRead,
    Capability::PerformanceMonitoring,
    Capability::BerkeleyPacketFilters,
    Capability::CheckpointRestore,
];

/// Root without a namespace of its own would keep every right of root; after this, becoming Python takes them away.
fn drop_capabilities() {
    for capability in CAPABILITIES {
        let _ = remove_capability_from_bounding_set(capability);
    }
    let _ = clear_ambient_capability_set();
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
