//! A predictor in one command, and how good it is, as a user runs them.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::{Folder, PROMPT, demask, fixture, wait_for};

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

#[test]
fn a_predictor_that_is_not_used_is_named_once() {
    let folder = Folder::copy_of(&fixture());
    let whole = folder.read("predictor_row_i.safetensors");
    for name in ["predictor_row_i.safetensors", "predictor_row_i_minus_1.safetensors"] {
        std::fs::remove_file(folder.path(name)).unwrap();
    }
    folder.write("torn.safetensors", &whole[..whole.len() / 2]);
    let said = |flags: &[&str]| {
        let root = folder.root();
        let run = demask(&[&["generate", "--model", &root, "-n", "8", PROMPT], flags].concat());
        assert_eq!(run.err.matches("torn.safetensors (").count(), 1, "{}", run.err);
        run
    };
    for flags in [&[][..], &["-s", "entropy"], &["-s", "demask"]] {
        let run = said(flags);
        assert_eq!(run.code != 0, flags.contains(&"demask"), "{}", run.err);
        assert!(run.err.contains("no predictor is used; passed over: torn.safetensors ("), "{}", run.err);
    }
    folder.write("own.safetensors", &whole);
    let run = said(&[]);
    let line = run.err.lines().find(|line| line.starts_with("predictor ")).unwrap();
    assert!(line.contains("own.safetensors: one head") && line.contains("; passed over: torn"), "{line}");
}

/// Passes that are measured again would give another plan, for which the cache of the first is of no use.
#[test]
fn a_budget_is_planned_once() {
    let (folder, model) = (Folder::new(), fixture());
    let config = folder.write("settings.toml", b"epochs = 1\nvalidation = 0.3\n");
    let out = folder.path("made");
    let train = |budget: &str| {
        let args = ["predictor", "train", "--model", &model, "--data", "task:arith", "--config", &config];
        demask(&[&args[..], &["--out", &out, "--budget", budget]].concat())
    };
    let first = train("2s");
    assert_eq!(first.code, 0, "{}", first.err);
    assert!(first.err.contains("within 0:00:02: "), "{}", first.err);
    let given_up = |text: &str| -> String {
        text.split_once("; given up: ")
            .expect("what a budget gives up is said")
            .1
            .lines()
            .next()
            .unwrap()
            .into()
    };
    assert!(given_up(&first.err).contains(" of 500000 examples"), "{}", first.err);
    let file = Path::new(&out).join("predictor.safetensors");
    let (bytes, plan) = (std::fs::read(&file).unwrap(), folder.read("made/plan.json"));
    std::fs::remove_file(&file).unwrap();
    let again = train("2s");
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(
        again.err.contains("the plan of before is kept") && !again.err.contains("measured"),
        "{}",
        again.err
    );
    assert_eq!(given_up(&again.err), given_up(&first.err));
    assert_eq!((std::fs::read(&file).unwrap(), folder.read("made/plan.json")), (bytes.clone(), plan.clone()));
    // A run that is killed ends as one that was not.
    let killed = folder.path("killed");
    std::fs::create_dir(&killed).unwrap();
    std::fs::copy(Path::new(&out).join("plan.json"), Path::new(&killed).join("plan.json")).unwrap();
    let args = ["predictor", "train", "--model", &model, "--data", "task:arith", "--config", &config];
    let mut child = Command::new(env!("CARGO_BIN_EXE_demask"))
        .args(args)
        .args(["--out", &killed, "--budget", "2s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Path::new(&killed).join("cache");
    wait_for(&mut child, "a cache", || std::fs::read_dir(&begun).is_ok_and(|files| files.count() > 0));
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was killed before its end");
    let resumed = demask(&[&args[..], &["--out", &killed, "--budget", "2s"]].concat());
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    assert_eq!(folder.read("killed/predictor.safetensors"), bytes);
    let other = train("3s");
    assert!(other.code != 0 && other.err.contains("plan.json was made for another budget"), "{}", other.err);
    assert_eq!(folder.read("made/plan.json"), plan, "a budget that was mistyped costs nothing");
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
