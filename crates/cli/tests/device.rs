//! The reference device and replicas, as a user runs them; on one thread, because candle's products of a few rows wake
//! threads that have less to do than waking takes.

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
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
