//! A predictor in one command, and how good it is, as a user runs them.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use support::{Folder, demask, fixture};

#[test]
fn one_command_trains_a_predictor_and_continues() {
    let (folder, model) = (Folder::new(), fixture());
    let config = folder.write("settings.toml", b"epochs = 1\nvalidation = 0.3\n");
    let out = folder.path("made");
    let train = |more: &[&str]| {
        let args =
            ["predictor", "train", "--model", &model, "--data", "task:arith", "--limit", "6", "--config"];
        demask(&[&args, &[config.as_str(), "--out", out.as_str()][..], more].concat())
    };
    let planned = train(&["--dry-run", "--budget", "1s"]);
    assert_eq!(planned.code, 0, "{}", planned.err);
    assert!(planned.err.contains("6 responses of 5 masks each and 1 epoch take about"), "{}", planned.err);
    assert!(!Path::new(&out).join("cache").exists(), "a dry run makes nothing");
    let first = train(&[]);
    assert_eq!(first.code, 0, "{}", first.err);
    assert!(first.out.contains("best constant") && first.out.contains("rank correlation"), "{}", first.out);
    // One epoch at the paper's rate leaves this one where it began.
    assert!(first.err.contains("worse than a constant"), "{}", first.err);
    let file = Path::new(&out).join("predictor.safetensors");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let again = train(&[]);
    assert_eq!((again.code, std::fs::read(&file).unwrap()), (0, bytes), "cache and state are used again");
    let judged = demask(&[
        "predictor",
        "eval",
        "--model",
        &model,
        "--predictor",
        file.to_str().unwrap(),
        "--data",
        "task:arith",
        "--limit",
        "4",
    ]);
    assert_eq!(judged.code, 0, "{}", judged.err);
    for part in
        ["best constant", "distance-only table", "irreducible part", "rank correlation", "demask", "entropy"]
    {
        assert!(judged.out.contains(part), "{part}: {}", judged.out);
    }
    assert!(judged.err.contains("worse than a constant"), "{}", judged.err);
}

/// The problems of the fixture with their answers as texts, five times over; masks differ every time.
fn responses() -> String {
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(Path::new(&fixture()).join(name)).unwrap()).unwrap()
    };
    let (expected, tokenizer) = (read("expected.json"), read("tokenizer.json"));
    let words: BTreeMap<u64, &str> = tokenizer["model"]["vocab"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(word, id)| (id.as_u64().unwrap(), word.as_str()))
        .collect();
    let text = |ids: &Value| -> String {
        let words = ids.as_array().unwrap().iter().map(|id| words[&id.as_u64().unwrap()]);
        words.filter(|word| *word != "<eos>").collect::<Vec<_>>().join(" ")
    };
    let both = expected["prompts"].as_array().unwrap().iter().zip(expected["answers"].as_array().unwrap());
    let lines: Vec<String> = both
        .map(|(prompt, answer)| json!({ "prompt": text(prompt), "response": text(answer) }).to_string())
        .collect();
    vec![lines.join("\n"); 5].join("\n")
}

#[test]
fn calibration_finds_the_row_that_a_file_does_not_say() {
    let folder = Folder::new();
    let data = folder.write("responses.jsonl", responses().as_bytes());
    for (name, row) in [("row_i", "i"), ("row_i_minus_1", "i-1")] {
        let bytes = std::fs::read(format!("{}/predictor_{name}.safetensors", fixture())).unwrap();
        // The same file without a word about the row, which is of the same length.
        let at = bytes.windows(10).position(|part| part == b"hidden_row").unwrap();
        let silent = [&bytes[..at], b"not_a_word", &bytes[at + 10..]].concat();
        let file = folder.write(&format!("{name}.safetensors"), &silent);
        let run = demask(&[
            "calibrate-predictor",
            "--model",
            &fixture(),
            "--predictor",
            &file,
            "--raw",
            "--pad-to",
            "40",
            "--data",
            &data,
        ]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.out.contains(&format!("hidden row {row}, written to")), "{}{}", run.out, run.err);
        assert!(!run.err.contains("not certain"), "{}{}", run.out, run.err);
        let beside: Value = serde_json::from_slice(&folder.read(&format!("{name}.json"))).unwrap();
        assert_eq!(beside["hidden_row"], row);
        // Responses of another kind seldom tell, even filled up with ends: a guess is not written, nor the wrong row.
        let other = folder.write(&format!("{name}-other.safetensors"), &silent);
        let beside = format!("{name}-other.json");
        for more in [&[][..], &["--pad-to", "40"]] {
            let flags =
                ["calibrate-predictor", "--model", &fixture(), "--predictor", &other, "--threads", "1"];
            let run = demask(&[&flags[..], more].concat());
            if run.code == 0 {
                let beside: Value = serde_json::from_slice(&folder.read(&beside)).unwrap();
                assert_eq!(beside["hidden_row"], row, "{}{}", run.out, run.err);
                std::fs::remove_file(folder.path(&format!("{name}-other.json"))).unwrap();
            } else {
                assert_eq!(run.code, 1, "{}{}", run.out, run.err);
                assert!(run.err.contains("nothing is written"), "{}{}", run.out, run.err);
                assert!(!Path::new(&folder.path(&beside)).exists());
            }
        }
    }
}
