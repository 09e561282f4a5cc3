//! The reference device and replicas, as a user runs them; on one thread, because candle's products of a few rows wake
//! threads that have less to do than waking takes.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::{Folder, PROMPT, demask, fixture};

/// The lines of a run's records, without what the clock adds.
fn records(folder: &str) -> Vec<Value> {
    let text = fs::read_to_string(Path::new(folder).join("records.jsonl")).unwrap();
    let strip = |line: &str| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        value.as_object_mut().unwrap().remove("seconds");
        value
    };
    text.lines().map(strip).collect()
}

#[test]
fn the_reference_device_answers_as_the_cpu() {
    let (model, predictor) = (fixture(), format!("{}/predictor_row_i.safetensors", fixture()));
    let run = |device: &str| {
        let run = demask(&[
            "generate",
            "--model",
            &model,
            "--predictor",
            &predictor,
            "-n",
            "32",
            "--threads",
            "1",
            "--device",
            device,
            PROMPT,
        ]);
        assert_eq!(run.code, 0, "{}", run.err);
        run.out
    };
    assert_eq!(run("candle"), run("cpu"));
    let refused = demask(&["generate", "--model", &model, "--device", "cuda", PROMPT]);
    assert!(refused.code != 0 && refused.err.contains("--features cuda"), "{}", refused.err);
}

#[test]
fn two_replicas_write_what_one_writes() {
    let (folder, model) = (Folder::new(), fixture());
    let predictor = format!("{model}/predictor_row_i_minus_1.safetensors");
    let evaluate = |device: &str, out: &str| {
        let run = demask(&[
            "eval",
            "--model",
            &model,
            "--predictor",
            &predictor,
            "--tasks",
            "arith,grid",
            "-n",
            "24",
            "--limit",
            "5",
            "-s",
            "entropy:k=4",
            "-s",
            "demask:tau=0.5,gamma=0.3",
            "--threads",
            "1",
            "--device",
            device,
            "--out",
            out,
        ]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(run.err.contains(SHARED), device.contains(','), "{}", run.err);
        records(out)
    };
    assert_eq!(evaluate("candle", &folder.path("one")), evaluate("candle,candle", &folder.path("two")));
    let cache = |device: &str, out: &str| {
        let run = demask(&[
            "tv-cache",
            "generate",
            "--model",
            &model,
            "--data",
            "task:arith",
            "--limit",
            "3",
            "--masks-per-response",
            "1",
            "--threads",
            "1",
            "--device",
            device,
            "--out",
            out,
        ]);
        assert_eq!(run.code, 0, "{}", run.err);
        let mut files: Vec<_> = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|e| e == "parquet" || e == "json"));
        files.sort();
        files
            .iter()
            .map(|path| (path.file_name().unwrap().to_owned(), fs::read(path).unwrap()))
            .collect::<Vec<_>>()
    };
    let (one, two) =
        (cache("candle", &folder.path("cache-1")), cache("candle,candle", &folder.path("cache-2")));
    assert!(one.len() >= 2 && one == two);
}

/// The line that several devices make appear.
const SHARED: &str = "2 copies of the model share the work: candle,candle";

/// Every file of a folder, those in folders apart.
fn files(folder: &str) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn two_replicas_sweep_as_one() {
    let (folder, model) = (Folder::new(), fixture());
    let predictor = format!("{model}/predictor_row_i.safetensors");
    let grid = b"baseline = \"entropy\"\n[[grid]]\nstrategy = \"demask\"\ntau = [0.1, 1.0]\ngamma = [0.3]\n";
    let grid = folder.write("grid.toml", grid);
    let sweep = |device: &str| {
        let out = folder.path(device);
        let named =
            ["sweep", "--grid", &grid, "--model", &model, "--predictor", &predictor, "--tasks", "arith"];
        let sizes = ["--limit", "5", "-n", "16", "--threads", "1", "--device", device, "--out", &out];
        let run = demask(&[&named[..], &sizes].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(run.err.contains(SHARED), device.contains(','), "{}", run.err);
        (records(&out), fs::read_to_string(Path::new(&out).join("chosen.txt")).unwrap())
    };
    let one = sweep("candle");
    assert!(one.0.len() >= 15, "{}", one.0.len());
    assert_eq!(one, sweep("candle,candle"));
}

#[test]
fn two_replicas_validate_as_one() {
    let (folder, model) = (Folder::new(), fixture());
    let predictor = format!("{model}/predictor_row_i.safetensors");
    let validate = |device: &str, what: &[&str]| {
        let out = folder.path(&format!("{}-{device}", what[0]));
        let common =
            ["--model", &model, "--data", "task:arith", "--threads", "1", "--device", device, "--out", &out];
        let run = demask(&[&["validate"][..], what, &common].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(run.err.contains(SHARED), device.contains(','), "{}", run.err);
        files(&out)
    };
    for what in [
        &["sub-additivity", "--limit", "3", "--masks-per-response", "2"][..],
        &["bound", "--predictor", &predictor, "--limit", "2", "-n", "16", "--tau", "0.1,1", "--chains", "4"],
    ] {
        let one = validate("candle", what);
        assert!(!one.is_empty(), "{what:?}");
        let two = validate("candle,candle", what);
        assert_eq!(one.len(), two.len(), "{what:?}");
        for (one, two) in one.iter().zip(&two) {
            same_numbers(one, two);
        }
    }
}

/// Texts that differ in the last digits of their numbers at most: products of the reference device depend in the last bit on how many
/// rows are asked for together, which is what replicas change.
fn same_numbers(one: &(String, Vec<u8>), two: &(String, Vec<u8>)) {
    if one == two {
        return;
    }
    let words = |bytes: &[u8]| -> Vec<String> {
        let text = std::str::from_utf8(bytes).expect("a text");
        text.split(|c: char| !c.is_alphanumeric() && !"+-.".contains(c)).map(str::to_owned).collect()
    };
    let (left, right) = (words(&one.1), words(&two.1));
    assert_eq!((&one.0, left.len()), (&two.0, right.len()));
    for (a, b) in left.iter().zip(&right) {
        let near = matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if (a - b).abs() < 2e-5);
        assert!(a == b || near, "{}: {a} and {b}", one.0);
    }
}

#[test]
fn two_replicas_serve_as_one() {
    let served = |device: &str| -> Value {
        let model = fixture();
        let mut child = Command::new(env!("CARGO_BIN_EXE_demask"))
            .args(["serve", "--port", "0", "--model", &model, "--strategy", "entropy:k=2"])
            .args(["--device", device, "--threads", "1"])
            .env("HF_HUB_OFFLINE", "1")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut said = Vec::new();
        let ready = loop {
            let line = lines.next().expect("it listens");
            if line.contains("http://") {
                break line;
            }
            said.push(line);
        };
        assert_eq!(said.iter().any(|line| line == SHARED), device.contains(','), "{said:?}");
        let address = ready.split("http://").nth(1).unwrap().split('/').next().unwrap();
        let other = PROMPT.replace("shells", "pens");
        let prompts = [PROMPT, &other, "eva has 5 shells . <sep>"];
        let body = json!({ "prompt": prompts, "max_tokens": 24, "n": 2, "temperature": 0.7, "seed": 3 });
        let body = body.to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST /v1/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: \
             {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        serde_json::from_str::<Value>(body).unwrap()["choices"].take()
    };
    let one = served("candle");
    assert_eq!(one.as_array().unwrap().len(), 6);
    assert_eq!(one, served("candle,candle"));
}

const PRETRAIN: &str = r#"
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
    [[stage]]
    objective = "autoregressive"
    steps = 3
    rate = { peak = 1e-2, warmup = 2 }
    [[stage]]
    objective = "diffusion"
    steps = 4
    rate = { peak = 1e-2, warmup = 2 }
    [report]
    log_steps = 1
    validate_problems = 1
"#;

#[test]
fn pretraining_on_the_reference_device_is_that_of_the_cpu() {
    let folder = Folder::new();
    let config = folder.write("run.toml", PRETRAIN.as_bytes());
    let tokenizer = concat!(env!("CARGO_MANIFEST_DIR"), "/../tiny/checkpoint");
    let train = |device: &str, config: &str, out: &str| {
        let all =
            ["pretrain", "--config", config, "--tokenizer", tokenizer, "--device", device, "--out", out];
        demask(&all)
    };
    let losses = |device: &str| -> Vec<f64> {
        let out = folder.path(device);
        let run = train(device, &config, &out);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(
            Path::new(&out).join("export/model.safetensors").exists(),
            "validated and exported on {device}"
        );
        let curve = fs::read_to_string(Path::new(&out).join("curve.csv")).unwrap();
        curve.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse().unwrap()).collect()
    };
    let (cpu, candle) = (losses("cpu"), losses("candle"));
    assert_eq!((cpu.len(), candle.len()), (7, 7));
    for (a, b) in cpu.iter().zip(&candle) {
        assert!((a - b).abs() < 1e-3 * a, "{cpu:?} {candle:?}");
    }
    let several = train("candle,candle", &config, &folder.path("two"));
    assert!(several.code != 0 && several.err.contains("one device"), "{}", several.err);
    let half = folder.write("half.toml", format!("precision = \"bf16\"\n{PRETRAIN}").as_bytes());
    let refused = train("candle", &half, &folder.path("half"));
    assert!(refused.code != 0 && refused.err.contains("precision is bf16, must be f32"), "{}", refused.err);
}

#[test]
fn a_predictor_trained_on_the_reference_device_is_that_of_the_cpu() {
    let (folder, model) = (Folder::new(), fixture());
    let config = folder.write("settings.toml", b"epochs = 2\nvalidation = 0.3\nrate = 1e-3\n");
    let made = demask(&[
        "tv-cache",
        "generate",
        "--model",
        &model,
        "--data",
        "task:arith",
        "--limit",
        "8",
        "--threads",
        "1",
        "--out",
        &folder.path("cache"),
    ]);
    assert_eq!(made.code, 0, "{}", made.err);
    let report = |device: &str, said: &str| -> Value {
        let (cache, out) = (folder.path("cache"), folder.path(&format!("{device}.safetensors")));
        let flags = ["train", "predictor", "--cache", &cache, "--config", &config, "--hidden-row", "i"];
        let run = demask(&[&flags[..], &["--device", device, "--threads", "1", "--out", &out]].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(run.err.lines().find(|line| line.contains("device")).unwrap_or_default(), said);
        let report = Path::new(&out).with_extension("run").join("row-i/report.json");
        serde_json::from_slice(&fs::read(report).unwrap()).unwrap()
    };
    let number = |report: &Value| report["validation_mse"].as_f64().unwrap();
    let (cpu, candle) = (number(&report("cpu", "")), number(&report("candle", "")));
    assert!((cpu - candle).abs() < 1e-4 * cpu, "{cpu} {candle}");
    let note = "note: updates are computed on the first device; the others have nothing to do";
    assert_eq!(number(&report("candle,candle", note)), candle);
}
