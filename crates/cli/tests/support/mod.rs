//! Running the binary, and checkpoints damaged in every way a test names.

#![allow(unreachable_pub, reason = "shared between the tests of this crate")]
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

pub const PROMPT: &str = "eva has 7 shells . eva finds 19 more . how many shells does eva have now ? <sep>";

pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub fn fixture() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy");
    path.canonicalize().unwrap().display().to_string()
}

pub fn demask(args: &[&str]) -> Run {
    demask_with(args, "")
}

pub fn demask_with(args: &[&str], input: &str) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_demask"))
        .args(args)
        .env("HF_HUB_OFFLINE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that does not read its input closes the pipe early.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs and also tells the peak resident memory in bytes, read while the process lives.
pub fn demask_peak(args: &[&str]) -> (Run, u64) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_demask"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        if let Ok(text) = fs::read_to_string(&status) {
            let line = text.lines().find(|l| l.starts_with("VmHWM:")).unwrap_or("VmHWM: 0 kB");
            let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
            peak = peak.max(kib << 10);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let run =
        Run { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) };
    (run, peak)
}

/// Sends a process a signal by its name; `STOP` holds it up wherever it is.
pub fn signal(name: &str, process: u32) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status().unwrap();
    assert!(sent.success(), "no signal {name}");
}

/// Waits until something holds, however long the machine takes; a process that ends before is a failure.
pub fn wait_for(child: &mut Child, what: &str, holds: impl Fn() -> bool) {
    while !holds() {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none() || holds(), "{what}: it ended before, {ended:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A temporary folder.
pub struct Folder(pub TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn copy_of(other: &str) -> Self {
        let folder = Self::new();
        for entry in fs::read_dir(other).unwrap() {
            let entry = entry.unwrap();
            fs::write(folder.0.path().join(entry.file_name()), fs::read(entry.path()).unwrap()).unwrap();
        }
        folder
    }

    pub fn root(&self) -> String {
        self.0.path().display().to_string()
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    pub fn write(&self, name: &str, content: &[u8]) -> String {
        fs::write(self.0.path().join(name), content).unwrap();
        self.path(name)
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.path().join(name)).unwrap()
    }

    fn change_json(&self, name: &str, change: impl Fn(&mut serde_json::Value)) {
        let mut value = serde_json::from_slice(&self.read(name)).unwrap();
        change(&mut value);
        self.write(name, value.to_string().as_bytes());
    }

    /// Rewrites the header of the weights, keeping the data.
    fn change_header(&self, change: impl Fn(&mut serde_json::Value)) {
        let bytes = self.read("model.safetensors");
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        change(&mut header);
        let text = header.to_string();
        let mut out = (text.len() as u64).to_le_bytes().to_vec();
        out.extend(text.as_bytes());
        out.extend(&bytes[8 + length..]);
        self.write("model.safetensors", &out);
    }
}

type Damage = Box<dyn Fn(&Folder)>;

/// What is broken, how, and what the sentence must say.
pub fn damages() -> Vec<(&'static str, Damage, &'static str)> {
    fn remove(folder: &Folder, name: &str) {
        fs::remove_file(folder.path(name)).unwrap();
    }
    let embed = "model.embed_tokens.weight";
    vec![
        ("no config", Box::new(|f: &Folder| remove(f, "config.json")), "config.json"),
        ("no weights", Box::new(|f: &Folder| remove(f, "model.safetensors")), "model.safetensors"),
        ("no tokenizer", Box::new(|f: &Folder| remove(f, "tokenizer.json")), "tokenizer.json"),
        (
            "config is not JSON",
            Box::new(|f: &Folder| drop(f.write("config.json", b"{"))),
            "not readable JSON",
        ),
        (
            "absurd dimension",
            Box::new(|f: &Folder| {
                f.change_json("config.json", |c| c["hidden_size"] = 1_u64.wrapping_shl(40).into())
            }),
            "hidden_size",
        ),
        (
            "unknown architecture",
            Box::new(|f: &Folder| {
                f.change_json("config.json", |c| {
                    c["architectures"] = serde_json::json!(["GPT2LMHeadModel"]);
                    c["model_type"] = "gpt2".into();
                });
            }),
            "gpt2",
        ),
        (
            "wrong shape",
            Box::new(|f: &Folder| f.change_json("config.json", |c| c["intermediate_size"] = 161.into())),
            "161",
        ),
        (
            "a layer too many in config",
            Box::new(|f: &Folder| f.change_json("config.json", |c| c["num_hidden_layers"] = 4.into())),
            "model.layers.3.",
        ),
        (
            "a layer too few in config",
            Box::new(|f: &Folder| f.change_json("config.json", |c| c["num_hidden_layers"] = 2.into())),
            "model.layers.2.",
        ),
        (
            "truncated weights",
            Box::new(|f: &Folder| {
                let bytes = f.read("model.safetensors");
                f.write("model.safetensors", &bytes[..bytes.len() / 2]);
            }),
            "model.safetensors",
        ),
        (
            "absurd header length",
            Box::new(|f: &Folder| {
                let mut bytes = f.read("model.safetensors");
                bytes[..8].copy_from_slice(&(1_u64 << 60).to_le_bytes());
                f.write("model.safetensors", &bytes);
            }),
            "model.safetensors",
        ),
        (
            "wrong dtype",
            Box::new(move |f: &Folder| f.change_header(|h| h[embed]["dtype"] = "I32".into())),
            "dtype I32",
        ),
        (
            "NaN weights",
            Box::new(|f: &Folder| {
                let mut bytes = f.read("model.safetensors");
                let length = bytes.len();
                bytes[length - 4096..].fill(0xFF);
                f.write("model.safetensors", &bytes);
            }),
            "not finite",
        ),
        (
            "a tokenizer of another model",
            Box::new(|f: &Folder| {
                f.change_json("tokenizer.json", |t| t["model"]["vocab"]["zzzz"] = 100_000.into());
            }),
            "tokenizer.json",
        ),
        (
            "a template that fails",
            Box::new(|f: &Folder| {
                f.change_json("tokenizer_config.json", |t| {
                    t["chat_template"] = "{{ raise_exception('no') }}".into()
                });
            }),
            "template",
        ),
        (
            "a template that does not end",
            Box::new(|f: &Folder| {
                let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{{ a }}{% endfor %}{% endfor %}{% endfor %}";
                f.change_json("tokenizer_config.json", |t| t["chat_template"] = endless.into());
            }),
            "template",
        ),
    ]
}
