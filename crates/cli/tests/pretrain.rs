//! A pre-training run that is killed without warning and started again ends with the same weights, bit for bit.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

mod support;

use support::wait_for;

const CONFIG: &str = r#"
    seed = 7
    [model]
    hidden = 16
    layers = 2
    heads = 2
    kv_heads = 1
    ffn = 24
    [data]
    mixture = { lines = 1.0 }
    lengths = [32, 64]
    batch_tokens = 512
    [optimizer]
    ema = 0.9
    [[stage]]
    objective = "autoregressive"
    steps = 60
    rate = { peak = 1e-2, warmup = 10 }
    [[stage]]
    objective = "diffusion"
    steps = 140
    rate = { peak = 1e-2, warmup = 10 }
    [report]
    save_seconds = 0
    validate_steps = 0
    validate_problems = 2
"#;

fn demask(arguments: &[&Path]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demask"));
    command.arg("pretrain").args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn start(config: &Path, tokenizer: &Path, out: &Path) -> Child {
    let flag = |name| Path::new(name);
    let arguments = [flag("--config"), config, flag("--tokenizer"), tokenizer, flag("--out"), out];
    demask(&arguments).spawn().unwrap()
}

fn finish(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

/// Steps of the newest state in a run's folder.
fn saved(out: &Path) -> u64 {
    let states = fs::read_dir(out.join("state")).into_iter().flatten().flatten();
    let names = states.filter_map(|entry| entry.file_name().into_string().ok());
    let step = |name: String| name.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse().ok();
    names.filter_map(step).max().unwrap_or(0)
}

#[test]
fn a_killed_run_continues_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let (config, tokenizer) = (folder.path().join("run.toml"), folder.path().join("tokenizer"));
    fs::write(&config, CONFIG).unwrap();
    finish(demask(&[Path::new("tokenizer"), Path::new("--out"), &tokenizer]).spawn().unwrap());
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    finish(start(&config, &tokenizer, &whole));
    let in_the_middle = (0..20).any(|_| {
        let _ = fs::remove_dir_all(&killed);
        [20, 90].iter().all(|&at| {
            let mut child = start(&config, &tokenizer, &killed);
            wait_for(&mut child, "a state", || saved(&killed) >= at);
            child.kill().unwrap();
            child.wait().unwrap();
            // A machine that did not let this test look in time gets another chance.
            saved(&killed) < 200
        })
    });
    assert!(in_the_middle, "the run was always over before it was killed");
    let log = finish(start(&config, &tokenizer, &killed));
    assert!(!log.contains(" 0 updates done"), "{log}");
    let weights = |out: &Path| fs::read(out.join("export/model.safetensors")).unwrap();
    assert!(weights(&whole) == weights(&killed));
    // Weights and moments follow the header, which also holds the seconds a run took.
    let moments = |out: &Path| {
        let bytes = fs::read(out.join("state/step-0000000200.safetensors")).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    assert!(moments(&whole) == moments(&killed));
}
