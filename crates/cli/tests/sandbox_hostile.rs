//! Programs that set out to break the sandbox: to outlive it, to reach other processes and files of the same user where
//! the system grants no namespaces, and a helper that fails.
//!
//! Needs a `python3`, and for the second part `unshare` and leave to make one user namespace; says so and skips.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use demask::eval::sandbox::{Limits, Outcome, Sandbox};
use serde_json::{Value, json};
use support::Folder;

const DEMASK: &str = env!("CARGO_BIN_EXE_demask");

fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: there is no python3");
    }
    found
}

/// After this much time something is not slow but hangs; the programs here would take hours.
const HANGS: Duration = Duration::from_secs(300);

/// Processes whose limit of address space is this number of bytes.
fn living(memory: u64) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|entry| {
            let limits = fs::read_to_string(entry.path().join("limits")).unwrap_or_default();
            limits.contains(&memory.to_string())
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_program_that_leaves_its_group_does_not_outlive_the_clock() {
    if !has_python() {
        return;
    }
    let memory = (1 << 30) + 9_437_184;
    let limits = Limits { seconds: 2, memory, ..Limits::default() };
    let sandbox = Sandbox::new(Path::new(DEMASK), Path::new("python3"), limits).unwrap();
    for code in [
        "import os,ctypes,time; os.setsid(); ctypes.CDLL(None).prctl(1,0); time.sleep(7200)",
        "import os,ctypes,time\ntry: os.setsid()\nexcept OSError: pass\nctypes.CDLL(None).prctl(1,0)\nx = bytearray(200 << 20)\ntime.sleep(7200)",
        "import os,ctypes,time\ntry: os.setpgid(0, 0)\nexcept OSError: pass\nos.close(1); time.sleep(7200)",
    ] {
        let start = Instant::now();
        let outcome = sandbox.test(code, "").unwrap();
        assert!(!outcome.passed(), "{code}: {outcome:?}");
        assert!(start.elapsed() < HANGS, "{code} held the scorer for {:?}", start.elapsed());
        assert_eq!(living(memory), [""; 0], "{code} lives on");
    }
}

#[test]
fn the_clock_binds_the_sanitiser() {
    if !has_python() {
        return;
    }
    let limits = Limits { seconds: 1, ..Limits::default() };
    let sandbox = Sandbox::new(Path::new(DEMASK), Path::new("python3"), limits).unwrap();
    // Four hundred lines that nearly parse: eighty thousand spans are tried, each of a long line.
    let line = format!("x = [{}", "1 + ".repeat(4000));
    let start = Instant::now();
    assert_eq!(sandbox.sanitize(&format!("{line}\n").repeat(400), "f").unwrap(), "");
    assert!(start.elapsed() < HANGS, "{:?}", start.elapsed());
}

#[test]
fn a_helper_that_fails_is_no_wrong_answer() {
    if !has_python() {
        return;
    }
    let folder = Folder::new();
    let helper = folder.path("helper");
    fs::copy(DEMASK, &helper).unwrap();
    let sandbox = Sandbox::new(Path::new(&helper), Path::new("python3"), Limits::default()).unwrap();
    assert_eq!(sandbox.test("", "").unwrap(), Outcome::Passed);
    // From now on it dies without a word, or with one.
    for script in ["#!/bin/sh\nexit 0\n", "#!/bin/sh\necho 'failed for want of memory' >&2\nexit 125\n"] {
        fs::remove_file(&helper).unwrap();
        fs::write(&helper, script).unwrap();
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
        let error = sandbox.test("x = 1", "assert x == 1").unwrap_err().to_string();
        assert!(error.contains("no answer's fault"), "{error}");
        assert!(sandbox.sanitize("x = 1", "x").is_err());
    }
}

/// Runs `demask score` where no more user namespaces are to be had; none where that cannot be arranged.
fn without_namespaces(arguments: &[&str]) -> Option<(i32, String, String)> {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["-Ur", "sh", "-c", script, "sh", DEMASK])
        .args(arguments)
        .output()
        .ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    if err.contains("unshare:") || err.contains("max_user_namespaces") {
        eprintln!("skipped: {err}");
        return None;
    }
    Some((output.status.code().unwrap_or(-1), out, err))
}

#[test]
fn without_namespaces_other_processes_and_files_are_safe_and_the_statement_is_true() {
    if !has_python() {
        return;
    }
    let folder = Folder::new();
    let mark = folder.write("mark", b"hidden");
    fs::set_permissions(&mark, fs::Permissions::from_mode(0o644)).unwrap();
    let mut victim = Command::new("sleep").arg("120").spawn().unwrap();
    let pid = victim.id();
    let attempts = [
        format!("os.chmod({mark:?}, 0o777)"),
        format!("os.chown({mark:?}, os.getuid(), os.getgid())"),
        format!("os.utime({mark:?}, (1, 1))"),
        format!("os.setxattr({mark:?}, 'user.x', b'x')"),
        format!("os.fchmod(os.open({mark:?}, os.O_RDONLY), 0o777)"),
        format!("os.sched_setaffinity({pid}, {{0}})"),
        format!("os.setpriority(os.PRIO_PROCESS, {pid}, 19)"),
        format!("import resource; resource.prlimit({pid}, resource.RLIMIT_CPU, (1, 1))"),
        format!("import fcntl; fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, {pid})"),
        format!("os.kill({pid}, 0)"),
        "os.setsid()".to_owned(),
        "os.setpgid(0, 0)".to_owned(),
        "os.fork()".to_owned(),
        "import socket; socket.socket()".to_owned(),
        format!("open({mark:?}).read()"),
        format!("open({mark:?}, 'a')"),
    ];
    let rows = |row: fn(usize, &str) -> Value| {
        let lines = attempts.iter().enumerate().map(|(i, a)| row(i, a).to_string() + "\n");
        lines.collect::<String>()
    };
    let data = rows(
        |i, _| json!({ "task_id": i + 11, "text": "", "code": "", "test_list": ["assert f()", "assert f", "assert f"] }),
    );
    let responses = rows(|i, attempt| {
        let code = format!(
            "import os\ndef f():\n    try:\n        {attempt}\n    except OSError:\n        return True\n    return False"
        );
        json!({ "doc_id": i, "response": code })
    });
    // A program that fills its folder is ended, with a bound on all files together.
    let (data, responses) =
        (folder.write("data.jsonl", data.as_bytes()), folder.write("responses.jsonl", responses.as_bytes()));
    let call = ["score", "--task", "mbpp", "--data", &data, "--responses", &responses];
    let ran = without_namespaces(&[&call[..], &["--allow-code-execution", "--code-timeout", "60"]].concat());
    let (alive, about) = (victim.try_wait().unwrap().is_none(), fs::metadata(&mark).unwrap());
    victim.kill().unwrap();
    victim.wait().unwrap();
    let Some((code, out, err)) = ran else { return };
    assert_eq!(code, 0, "{err}");
    for (line, attempt) in out.lines().zip(&attempts) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["correct"], true, "{attempt} was let through: {line}");
    }
    assert_eq!(out.lines().count(), attempts.len());
    assert!(alive);
    assert_eq!((about.permissions().mode() & 0o777, fs::read(&mark).unwrap()), (0o644, b"hidden".to_vec()));
    // What no filter can refuse is not promised.
    let (held, open) = err.split_once("; not contained: ").unwrap();
    assert!(open.contains("seeing which other files there are"), "{err}");
    assert!(
        held.contains("owners, rights and times of files") && held.contains("limits and priorities"),
        "{err}"
    );
}

#[test]
fn without_namespaces_the_total_written_is_bounded() {
    if !has_python() {
        return;
    }
    let folder = Folder::new();
    let data =
        folder.write("data.jsonl", br#"{"task_id": 11, "text": "", "code": "", "test_list": ["assert f() == 2000", "assert f", "assert f"]}"#);
    let fill = "def f():\n    for i in range(2000):\n        with open(str(i), 'wb') as file:\n            file.write(bytes(1 << 20))\n    return 2000";
    let response = json!({ "doc_id": 0, "response": fill }).to_string();
    let responses = folder.write("responses.jsonl", response.as_bytes());
    let call = ["score", "--task", "mbpp", "--data", &data, "--responses", &responses];
    let Some((code, out, err)) =
        without_namespaces(&[&call[..], &["--allow-code-execution", "--code-timeout", "60"]].concat())
    else {
        return;
    };
    assert_eq!(code, 0, "{err}");
    let line: Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(line["correct"], false, "two gigabytes were written: {line}");
}
