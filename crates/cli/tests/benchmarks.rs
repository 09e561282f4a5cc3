//! `demask prompts` and `demask score`: golden prompts of Dream's own evaluation where the data is at hand, and
//! responses whose marks lm_eval has confirmed.

mod support;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Folder, demask, fixture};

fn asset(name: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/assets").join(name);
    if path.exists() {
        return Some(path.display().to_string());
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Task, data, and how many questions it has.
const ALL: [(&str, &str, usize); 4] = [
    ("gsm8k", "bench/gsm8k/test.jsonl", 1319),
    ("mmlu_pro", "bench/mmlu_pro", 12_032),
    ("humaneval", "bench/humaneval/HumanEval.jsonl", 164),
    ("mbpp", "bench/mbpp/mbpp.jsonl", 500),
];

/// Subjects of MMLU-Pro.
const SUBJECTS: [&str; 14] = [
    "biology",
    "business",
    "chemistry",
    "computer_science",
    "economics",
    "engineering",
    "health",
    "history",
    "law",
    "math",
    "other",
    "philosophy",
    "physics",
    "psychology",
];

/// Golden prompts by task and number.
struct Golden(HashMap<(String, u64), Value>);

impl Golden {
    fn open() -> Option<Self> {
        let text = fs::read_to_string(asset("golden/dream_eval_instruct_prompts.jsonl")?).unwrap();
        let key =
            |line: &Value| (line["task"].as_str().unwrap().to_owned(), line["doc_id"].as_u64().unwrap());
        Some(Self(lines(&text).into_iter().map(|line| (key(&line), line)).collect()))
    }

    /// Whether there is a golden prompt for this one of ours; it must be the same.
    fn compare(&self, ours: &Value, suffix: &str) -> bool {
        let id = (ours["task"].as_str().unwrap().to_owned(), ours["doc_id"].as_u64().unwrap());
        let Some(theirs) = self.0.get(&id) else { return false };
        assert_eq!(ours["prompt"], theirs[format!("prompt{suffix}")], "{id:?}");
        assert_eq!(ours["prompt_token_ids"], theirs[format!("prompt_token_ids{suffix}")], "{id:?}");
        for field in ["num_fewshot", "max_new_tokens", "until", "target"] {
            assert_eq!(ours[field], theirs[field], "{id:?} {field}");
        }
        true
    }
}

/// Every prompt of the four benchmarks is built; those that Dream's own evaluation recorded are the same, byte for byte
/// and id for id; most of MMLU-Pro's lose their beginning, as they do there.
#[test]
fn prompts_are_those_of_dreams_own_evaluation() {
    let (Some(golden), Some(model)) = (Golden::open(), asset("dream-7b-instruct")) else { return };
    let (mut compared, mut longer, mut longest) = (0, 0, 0);
    for (task, data, questions) in ALL {
        let Some(data) = asset(data) else { return };
        let run = demask(&["prompts", "--task", task, "--data", &data, "--model", &model]);
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(run.out.lines().count(), questions, "{task}");
        for line in run.out.lines() {
            let ours: Value = serde_json::from_str(line).unwrap();
            compared += usize::from(golden.compare(&ours, ""));
            let length = ours["prompt_token_ids"].as_array().unwrap().len();
            assert_eq!(ours["prompt_tokens_kept"].as_u64().unwrap() as usize, length.min(1024));
            if task == "mmlu_pro" {
                longer += usize::from(length > 1024);
                longest = longest.max(length);
            }
        }
    }
    assert_eq!(compared, golden.0.len());
    eprintln!("{longer} prompts of MMLU-Pro lose their beginning; the longest has {longest} tokens");
    assert!(longer > 12_032 / 2, "{longer}");
}

#[test]
fn prompts_of_the_transformers_dream_prescribes() {
    let (Some(golden), Some(model)) = (Golden::open(), asset("dream-7b-instruct")) else { return };
    let subjects = SUBJECTS.map(|subject| (format!("mmlu_pro_{subject}"), "bench/mmlu_pro"));
    let others = ALL
        .into_iter()
        .filter(|(task, ..)| *task != "mmlu_pro")
        .map(|(task, data, _)| (task.to_owned(), data));
    let mut compared = 0;
    for (task, data) in others.chain(subjects) {
        let Some(data) = asset(data) else { return };
        let run = demask(&[
            "prompts",
            "--task",
            &task,
            "--data",
            &data,
            "--model",
            &model,
            "--transformers",
            "4.46",
            "--limit",
            "9",
        ]);
        assert_eq!(run.code, 0, "{}", run.err);
        for line in run.out.lines() {
            let ours = serde_json::from_str(line).unwrap();
            compared += usize::from(golden.compare(&ours, "_transformers_4_46_2"));
        }
    }
    assert_eq!(compared, golden.0.len());
}

#[test]
fn prompts_need_no_weights() {
    let folder = Folder::copy_of(&fixture());
    fs::remove_file(folder.path("model.safetensors")).unwrap();
    let data = scoring("gsm8k.jsonl");
    let run = demask(&[
        "prompts",
        "--task",
        "gsm8k_cot",
        "--protocol",
        "lm-eval",
        "--shots",
        "1",
        "--limit",
        "2",
        "--data",
        &data,
        "--model",
        &folder.root(),
    ]);
    assert_eq!(run.code, 0, "{}", run.err);
    let lines = lines(&run.out);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["doc_id"], 1);
    assert!(lines[0]["prompt"].as_str().unwrap().starts_with("Q: There are 15 trees"));
    assert!(!lines[0]["prompt_token_ids"].as_array().unwrap().is_empty());
}

#[test]
fn mistakes_are_named() {
    let run = demask(&["prompts", "--task", "gsm9k", "--model", &fixture()]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("gsm8k_cot"), "{}", run.err);
    let run = demask(&["prompts", "--task", "gsm8k", "--data", "./none.jsonl", "--model", &fixture()]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("./none.jsonl does not exist"), "{}", run.err);
    let run = demask(&["prompts", "--task", "sudoku", "--model", &fixture()]);
    assert!(run.err.contains("--data"), "{}", run.err);
}

fn scoring(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/scoring").join(name);
    path.display().to_string()
}

/// Every response of the fixture gets the marks that lm_eval gave it; `scripts/check_scoring.py` asks lm_eval again.
#[test]
fn marks_are_those_of_lm_eval() {
    let python = Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_ok();
    let marked = lines(&fs::read_to_string(scoring("marks.jsonl")).unwrap());
    assert!(marked.len() >= 200);
    let mut tasks: Vec<&str> = marked.iter().map(|m| m["task"].as_str().unwrap()).collect();
    tasks.sort_unstable();
    tasks.dedup();
    assert!(tasks.len() >= 7, "{tasks:?}");
    for task in tasks {
        let data = match task {
            t if t.starts_with("mmlu_pro") => "mmlu_pro.jsonl",
            "gsm8k" | "gsm8k_cot" => "gsm8k.jsonl",
            "humaneval" | "humaneval_instruct" => "humaneval.jsonl",
            _ => "mbpp.jsonl",
        };
        if !python && (task.starts_with("humaneval") || task.starts_with("mbpp")) {
            eprintln!("skipped: {task} needs a python3");
            continue;
        }
        let marks: Vec<&Value> = marked.iter().filter(|m| m["task"] == task).collect();
        let folder = Folder::new();
        let responses: String = marks.iter().map(|m| format!("{m}\n")).collect();
        let responses = folder.write("responses.jsonl", responses.as_bytes());
        let run = demask(&[
            "score",
            "--task",
            task,
            "--protocol",
            "lm-eval",
            "--data",
            &scoring(data),
            "--responses",
            &responses,
            "--allow-code-execution",
            "--code-timeout",
            "60",
        ]);
        assert_eq!(run.code, 0, "{task}: {}", run.err);
        for (ours, theirs) in lines(&run.out).iter().zip(marks) {
            assert_eq!(ours["correct"], theirs["correct"], "{theirs}");
            assert_eq!(ours["strict"], theirs["strict"], "{theirs}");
        }
    }
}
