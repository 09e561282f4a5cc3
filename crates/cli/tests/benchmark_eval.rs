//! Public benchmarks through the one evaluation runner: on a toy checkpoint with small files of the benchmarks' own
//! formats, and on the embedded model where the real data is at hand.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::{Folder, Run, demask, fixture};

/// Every benchmark that needs no Python.
const SILENT: [&str; 4] = ["gsm8k", "mmlu_pro", "countdown", "sudoku"];
const POSITIONS: u64 = 512;

fn python() -> bool {
    let found = Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: benchmarks of programs need a python3");
    }
    found
}

/// A folder with a folder of each benchmark, in the owners' formats.
fn data() -> Folder {
    let folder = Folder::new();
    let scoring = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/scoring");
    let own = |name: &str| fs::read(scoring.join(name)).unwrap();
    let shots = String::from_utf8(own("mmlu_pro.jsonl")).unwrap();
    let shots = shots.replace(
        "\"cot_content\": \"\"",
        "\"cot_content\": \"A: Let's think step by step. The answer is (A).\"",
    );
    let planning =
        |rows: &dyn Fn(usize) -> Value| (0..10).map(|i| format!("{}\n", rows(i))).collect::<String>();
    let countdown = planning(&|i| json!({"input": format!("1,2,{},{}", i + 3, i + 6), "output": "1+2=3"}));
    let sudoku =
        planning(&|_| json!({"input": "1230\n3412\n2143\n4321", "output": "1234\n3412\n2143\n4321"}));
    for (name, bytes) in [
        ("gsm8k/test.jsonl", own("gsm8k.jsonl")),
        ("gsm8k/train.jsonl", own("gsm8k.jsonl")),
        ("mmlu_pro/test.jsonl", own("mmlu_pro.jsonl")),
        ("mmlu_pro/validation.jsonl", shots.into_bytes()),
        ("humaneval/HumanEval.jsonl", own("humaneval.jsonl")),
        ("mbpp/mbpp.jsonl", own("mbpp.jsonl")),
        ("mbpp/sanitized-mbpp.json", b"[]".to_vec()),
        ("countdown/cd3_test.jsonl", countdown.into_bytes()),
        ("sudoku/sudoku_4x4_4.jsonl", sudoku.into_bytes()),
    ] {
        fs::create_dir_all(Path::new(&folder.path(name)).parent().unwrap()).unwrap();
        folder.write(name, &bytes);
    }
    folder
}

/// An evaluation of the toy checkpoint, which has no chat template.
fn toy(tasks: &str, data: &str, out: &str, more: &[&str]) -> Run {
    let model = fixture();
    let mut args =
        vec!["eval", "--model", &model, "--tasks", tasks, "--chat-template", "false", "--out", out];
    args.extend(["-s", "entropy:k=8", "-n", "16", "--data", data]);
    args.extend(more);
    demask(&args)
}

/// The records of a run, without what the clock adds.
fn records(folder: &str) -> Vec<Value> {
    let text = fs::read_to_string(Path::new(folder).join("records.jsonl")).unwrap();
    let strip = |line: &str| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        value.as_object_mut().unwrap().remove("seconds");
        value
    };
    text.lines().skip(1).map(strip).collect()
}

#[test]
fn benchmarks_stand_beside_own_tasks() {
    let (data, out) = (data(), Folder::new());
    let mut tasks = SILENT.to_vec();
    if python() {
        tasks.extend(["humaneval", "mbpp"]);
    }
    tasks.push("arith");
    let run =
        toy(&tasks.join(","), &data.root(), &out.path("r"), &["--limit", "2", "--allow-code-execution"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let records = records(&out.path("r"));
    assert_eq!(records.len(), 2 * tasks.len());
    for record in &records {
        let own = record["task"] == "arith";
        assert_eq!(record["protocol"], if own { Value::Null } else { "dream".into() }, "{record}");
        assert_eq!(record["canvas"], 16);
        assert!(record["prompt_tokens"].as_u64().unwrap() <= POSITIONS - 16);
        assert!((1..=2).contains(&record["forwards"].as_u64().unwrap()), "eight tokens a step");
    }
    let of = |task: &str| records.iter().filter(|r| r["task"] == task).collect::<Vec<_>>();
    assert!(of("gsm8k_cot")[0]["strict"].is_boolean());
    assert!(
        of("cd3").len() == 2 && of("cd3").iter().all(|r| !r["response"].as_str().unwrap().contains('\n'))
    );
    // A limit takes the first questions of every subject.
    let kinds: Vec<&Value> = of("mmlu_pro").iter().map(|r| &r["kind"]).collect();
    assert_eq!(kinds, ["mmlu_pro_computer_science", "mmlu_pro_law"]);
    if tasks.contains(&"mbpp") {
        assert!(run.err.contains("sandbox:"), "{}", run.err);
        assert!(of("mbpp_instruct").len() == 2 && of("humaneval_instruct")[0]["extracted"].is_string());
    }
    // Table 1 knows a benchmark by either of its names.
    let run = demask(&["table", "main", &out.path("r"), "--tuned", "gsm8k", "--form", "markdown"]);
    assert!(run.code == 0 && run.out.contains("Avg excludes gsm8k_cot"), "{}{}", run.out, run.err);
}

#[test]
fn a_benchmark_is_continued_and_merged_but_not_mixed() {
    let (data, out) = (data(), Folder::new());
    let at = |name: &str| out.path(name);
    for (name, more) in [
        ("whole", ["--limit", "5"].as_slice()),
        ("more", &["--limit", "2"]),
        ("more", &["--limit", "5", "--token-budget", "1"]),
        ("s0", &["--limit", "5", "--shard", "0/2"]),
        ("s1", &["--limit", "5", "--shard", "1/2"]),
        ("other", &["--limit", "5", "--shard", "1/2", "--protocol", "lm-eval", "--shots", "0"]),
    ] {
        let run = toy("gsm8k_cot", &data.path("gsm8k"), &at(name), more);
        assert_eq!(run.code, 0, "{name}: {}", run.err);
    }
    assert_eq!(records(&at("more")), records(&at("whole")));
    let run = demask(&["eval", "merge", &at("s0"), &at("s1"), "--out", &at("merged")]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(records(&at("merged")), records(&at("whole")));
    let run = demask(&["eval", "merge", &at("s0"), &at("other"), "--out", &at("mixed")]);
    assert!(run.code == 1 && run.err.contains("lm-eval version 1"), "{}", run.err);
    let lm_eval = ["--limit", "5", "--protocol", "lm-eval", "--shots", "0"];
    let run = toy("gsm8k_cot", &data.path("gsm8k"), &at("whole"), &lm_eval);
    assert!(run.code == 1 && run.err.contains("dream version 1 then, lm-eval version 1 now"), "{}", run.err);
}

#[test]
fn a_sweep_chooses_on_other_questions() {
    let (data, out, model) = (data(), Folder::new(), fixture());
    let grid = out.write("grid.toml", b"[[grid]]\nstrategy = \"entropy\"\nk = [4, 8]\n");
    let sweep = |task: &str| {
        let (data, out) = (data.root(), out.path("sweep"));
        demask(&[
            "sweep",
            "--grid",
            &grid,
            "--model",
            &model,
            "--tasks",
            task,
            "--data",
            &data,
            "--limit",
            "3",
            "-n",
            "16",
            "--chat-template",
            "false",
            "--allow-code-execution",
            "--out",
            &out,
        ])
    };
    let run = sweep("gsm8k");
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(records(&out.path("sweep")).len(), 9);
    let run = sweep("humaneval");
    assert!(run.code == 1 && run.err.contains("--split test"), "{}", run.err);
}

#[test]
fn a_question_longer_than_the_context_loses_its_beginning() {
    let (folder, out) = (Folder::new(), Folder::new());
    let question = "eva has 7 shells . ".repeat(400);
    let row = json!({"question": question, "answer": "Seven. #### 7"});
    let file = folder.write("test.jsonl", format!("{row}\n").as_bytes());
    let run = toy("gsm8k", &file, &out.path("r"), &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("1 of 1 prompts do not fit the model's context of 512 tokens"), "{}", run.err);
    assert_eq!(records(&out.path("r"))[0]["prompt_tokens"], POSITIONS - 16);
}

#[test]
fn mistakes_are_named_before_anything_is_decoded() {
    let (data, out, model) = (data(), Folder::new(), fixture());
    let (root, file, target) = (data.root(), data.path("gsm8k/test.jsonl"), out.path("r"));
    for (tasks, data, more, code, hint) in [
        ("humaneval", &root, [].as_slice(), 2, "--allow-code-execution"),
        ("gsm8k,mbpp", &root, &[], 2, "mbpp_instruct: the answers are programs"),
        ("gsm8k,mmlu_pro", &file, &[], 2, "--data gsm8k="),
        ("gsm8k", &"./nowhere.jsonl".to_owned(), &[], 2, "./nowhere.jsonl does not exist"),
        ("gsm9k", &root, &[], 2, "humaneval"),
        ("gsm8k", &root, &["-n", "600"], 1, "--max-new-tokens"),
        ("gsm8k", &root, &["--chat-template", "true"], 1, "--chat-template false"),
    ] {
        let mut args = vec!["eval", "--model", &model, "--tasks", tasks, "--data", data, "--out", &target];
        args.extend(if more.is_empty() { &["-n", "16"] } else { more });
        let run = demask(&args);
        assert!(run.code == code && run.err.contains(hint), "{args:?}: {} {}", run.code, run.err);
        assert!(run.err.lines().count() <= 2, "{}", run.err);
        assert!(!Path::new(&target).exists(), "{args:?}");
    }
    let none = demask(&["eval", "--model", &model, "--tasks", "countdown", "--out", &target]);
    assert!(none.code == 2 && none.err.contains("--data countdown=FILE"), "{}", none.err);
    let hub = Command::new(env!("CARGO_BIN_EXE_demask"))
        .args(["eval", "--model", &model, "--tasks", "gsm8k", "--out", &target])
        .env("HF_HUB_OFFLINE", "1")
        .env("HF_HOME", out.path("home"))
        .output()
        .unwrap();
    let said = String::from_utf8(hub.stderr).unwrap();
    assert!(
        hub.status.code() == Some(1) && said.contains("--data") && said.contains("openai/gsm8k"),
        "{said}"
    );
}

/// The embedded model on the first question of every benchmark as it is shipped.
#[test]
fn the_real_benchmarks_run_on_the_embedded_model() {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/assets/bench");
    if !bench.exists() {
        return eprintln!("skipped: {} is not there", bench.display());
    }
    let out = Folder::new();
    let file = |name: &str| bench.join(name).display().to_string();
    let countdown = format!("countdown={}", file("dream_planning/cd4_test.jsonl"));
    let sudoku = format!("sudoku={}", file("dream_planning/sudoku_4x4_6.jsonl"));
    let tasks = if python() {
        "gsm8k,mmlu_pro,humaneval,mbpp,countdown,sudoku"
    } else {
        "gsm8k,mmlu_pro,countdown,sudoku"
    };
    let (bench, target) = (file(""), out.path("r"));
    let run = demask(&[
        "eval",
        "--tasks",
        tasks,
        "--data",
        &bench,
        "--data",
        &countdown,
        "--data",
        &sudoku,
        "--limit",
        "1",
        "-n",
        "24",
        "-s",
        "entropy:k=8",
        "--allow-code-execution",
        "--out",
        &target,
    ]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("lose their beginning"), "{}", run.err);
    assert_eq!(records(&target).len(), tasks.split(',').count());
}
