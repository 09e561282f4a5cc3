//! Evaluation as a user runs it: records that survive a kill, shards that merge, tables, pictures, replays.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Folder, PROMPT, demask, fixture, wait_for};

fn predictor() -> String {
    format!("{}/predictor_row_i_minus_1.safetensors", fixture())
}

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

/// Arguments of a small evaluation on the fixture.
fn evaluation<'a>(model: &'a str, predictor: &'a str, out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args =
        vec!["eval", "--model", model, "--predictor", predictor, "--tasks", "arith,grid", "-n", "24"];
    args.extend([
        "-s",
        "entropy:k=4",
        "-s",
        "demask:tau=0.5,gamma=0.3",
        "--temperature",
        "0.7",
        "--out",
        out,
    ]);
    args.extend(more);
    args
}

#[test]
fn a_killed_evaluation_ends_with_the_same_records() {
    let (folder, model, predictor) = (Folder::new(), fixture(), predictor());
    let (whole, killed) = (folder.path("whole"), folder.path("killed"));
    let args = |out, limit| evaluation(&model, &predictor, out, &["--limit", limit, "--token-budget", "200"]);
    let run = demask(&args(&whole, "12"));
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("demask:tau=0.5,gamma=0.3") && run.out.contains("NFE"), "{}", run.out);
    // So many problems that it cannot be over when it is killed.
    let mut child = Command::new(env!("CARGO_BIN_EXE_demask"))
        .args(args(&killed, "1000"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let path = Path::new(&killed).join("records.jsonl");
    wait_for(&mut child, "records to be killed after", || {
        fs::read_to_string(&path).is_ok_and(|text| text.lines().count() > 8)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let run = demask(&args(&killed, "12"));
    assert_eq!(run.code, 0, "{}", run.err);
    // It may have got further than the limit before.
    let mut found = records(&killed);
    found.retain(|record| record["index"].as_u64().is_none_or(|index| index < 12));
    assert_eq!(found, records(&whole));
    for name in ["summary.json", "summary.csv", "table.md", "table.tex"] {
        assert!(Path::new(&whole).join(name).exists(), "{name}");
    }
}

#[test]
fn a_problem_asked_several_times_tells_how_varied_the_answers_are() {
    let (folder, model) = (Folder::new(), fixture());
    let ask = |out: &str, draws, temperature| {
        demask(&[
            "eval",
            "--model",
            &model,
            "-s",
            "entropy:k=4",
            "-t",
            "open",
            "-n",
            "24",
            "--limit",
            "2",
            "--min-new-tokens",
            "12",
            "--draws",
            draws,
            "--temperature",
            temperature,
            "--out",
            &folder.path(out),
        ])
    };
    let (several, once) = (ask("several", "3", "1"), ask("once", "1", "1"));
    assert_eq!((several.code, once.code), (0, 0), "{}{}", several.err, once.err);
    assert!(several.out.contains("valid and new") && !once.out.contains("valid and new"), "{}", several.out);
    let (several, once) = (records(&folder.path("several")), records(&folder.path("once")));
    let ids: Vec<&str> = several[1..].iter().map(|r| r["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["0", "0#1", "0#2", "1", "1#1", "1#2"]);
    // A first draw is the answer of a problem asked once; the others have randomness of their own.
    assert_eq!(several[4]["response"], once[2]["response"]);
    assert_eq!(several[4]["prompt"], several[5]["prompt"]);
    assert_ne!(several[4]["response"], several[5]["response"]);
    let refused = ask("cold", "3", "0");
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("--temperature 1"), "{}", refused.err);
}

#[test]
fn fresh_wording_is_reported_beside_the_test() {
    let (folder, model) = (Folder::new(), fixture());
    let out = folder.path("both");
    let args = |tasks, more: &[&'static str]| -> Vec<String> {
        let args =
            ["eval", "--model", &model, "-s", "entropy:k=8", "-n", "16", "--limit", "4", "--tasks", tasks];
        args.iter().chain(&["--out", &out]).chain(more).map(ToString::to_string).collect()
    };
    let ask = |tasks, more: &[&'static str]| {
        demask(&args(tasks, more).iter().map(String::as_str).collect::<Vec<_>>())
    };
    let run = ask("arith,arith:fresh", &["--kinds"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("fresh wording") && run.out.contains("arith:fresh/"), "{}", run.out);
    assert!(Path::new(&out).join("fresh.md").exists());
    let prompts = |task: &str| -> Vec<Value> {
        let of = |record: &Value| record["task"] == *task;
        records(&out).iter().filter(|record| of(record)).map(|record| record["prompt"].clone()).collect()
    };
    let (usual, fresh) = (prompts("arith"), prompts("arith:fresh"));
    assert!(usual.len() == 4 && fresh.len() == 4 && usual != fresh, "{usual:?} {fresh:?}");
    // Nothing is chosen on test problems, in whatever words.
    let run = ask("arith:fresh", &["--split", "validation"]);
    assert!(run.code != 0 && run.err.contains("--split test"), "{}", run.err);
}

#[test]
fn shards_merge_and_tables_follow_the_paper() {
    let (folder, model, predictor) = (Folder::new(), fixture(), predictor());
    let (whole, merged) = (folder.path("whole"), folder.path("merged"));
    let run = demask(&evaluation(&model, &predictor, &whole, &["--limit", "5"]));
    assert_eq!(run.code, 0, "{}", run.err);
    let shards = [folder.path("s0"), folder.path("s1")];
    for (shard, out) in ["0/2", "1/2"].iter().zip(&shards) {
        let run = demask(&evaluation(&model, &predictor, out, &["--limit", "5", "--shard", shard]));
        assert_eq!(run.code, 0, "{}", run.err);
    }
    let run = demask(&["eval", "merge", &shards[0], &shards[1], "--out", &merged]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(records(&merged), records(&whole));
    let run = demask(&["table", "main", &merged, "--tuned", "arith", "--form", "latex"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("\\toprule") && run.out.contains("DEMASK tau=0.5,gamma=0.3"), "{}", run.out);
    let run = demask(&["table", "eos", &merged]);
    assert!(run.code == 1 && run.err.contains("--eos none"), "{}", run.err);
    let bare = folder.path("bare");
    demask(&evaluation(&model, &predictor, &bare, &["--limit", "2", "--eos", "none"]));
    let name = folder.path("table2");
    let run = demask(&["table", "eos", &bare, "--out", &name, "--form", "markdown"]);
    assert!(run.code == 0 && run.out.contains("| arith"), "{}{}", run.out, run.err);
    assert!(["md", "csv", "tex"].iter().all(|e| Path::new(&format!("{name}.{e}")).exists()));
}

#[test]
fn a_sweep_draws_its_figure_and_chooses() {
    let (folder, model, predictor) = (Folder::new(), fixture(), predictor());
    let grid = folder.write(
        "grid.toml",
        b"baseline = \"entropy\"\n[[grid]]\nstrategy = \"demask\"\ntau = [0.1, 1.0]\ngamma = [0.3, 0.9]\n",
    );
    let out = folder.path("sweep");
    let args = [
        "sweep",
        "--grid",
        &grid,
        "--model",
        &model,
        "--predictor",
        &predictor,
        "--tasks",
        "arith",
        "--limit",
        "40",
        "-n",
        "16",
        "--halving",
        "--out",
        &out,
    ];
    let run = demask(&args);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("AUP") && run.out.contains("demask:tau="), "{}", run.out);
    for name in ["figure1.svg", "figure1.png", "chosen.txt", "chosen.md", "summary.csv"] {
        assert!(Path::new(&out).join(name).exists(), "{name}");
    }
    let first = records(&out);
    assert_eq!(demask(&args).code, 0);
    assert_eq!(records(&out), first, "nothing is done twice");
    let wrong = demask(&["sweep", "--grid", "nowhere.toml", "--model", &model, "--out", &out]);
    assert!(wrong.code == 1 && wrong.err.contains("nowhere.toml"), "{}", wrong.err);
}

#[test]
fn the_lab_and_the_demo_compare() {
    let (folder, model, predictor) = (Folder::new(), fixture(), predictor());
    let out = folder.path("lab");
    let run = demask(&[
        "lab",
        "--model",
        &model,
        "--predictor",
        &predictor,
        "--limit",
        "1",
        "-n",
        "16",
        "--out",
        &out,
    ]);
    assert_eq!(run.code, 0, "{}", run.err);
    let csv = fs::read_to_string(Path::new(&out).join("table.csv")).unwrap();
    assert!(csv.lines().count() > 25, "{csv}");
    assert!(Path::new(&out).join("picture.png").exists());
    let run = demask(&["demo", "--model", &model, "--predictor", &predictor, "-n", "24"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("shuffle") || run.out.contains("lines"), "{}", run.out);
    assert!(run.out.contains("demask: ") && run.out.contains("entropy: "), "{}", run.out);
}

#[test]
fn a_trace_is_replayed_and_becomes_one_page() {
    let (folder, model, predictor) = (Folder::new(), fixture(), predictor());
    let (trace, html) = (folder.path("t.jsonl"), folder.path("t.html"));
    let run = demask(&[
        "generate",
        "--model",
        &model,
        "--predictor",
        &predictor,
        "-n",
        "40",
        "--trace",
        &trace,
        "--trace-dependency",
        PROMPT,
    ]);
    assert_eq!(run.code, 0, "{}", run.err);
    let told = demask(&["trace", "view", &trace, "--model", &model]);
    assert!(told.out.contains("step 1 ") && told.out.contains("eva"), "{}", told.out);
    let run = demask(&["trace", "view", &trace, "--model", &model, "--html", &html]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.is_empty() && run.err.contains(&html), "{}{}", run.out, run.err);
    let page = fs::read_to_string(&html).unwrap();
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    let steps = data["runs"][0]["steps"].as_array().unwrap();
    assert!(steps[0]["dependency"]["values"].is_array() && steps[0]["budget"]["limit"].is_number());
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!outside.contains("http://") && !outside.contains("https://"), "the page needs nothing else");
    // A second trace races the first on the same stage.
    let run = demask(&["trace", "view", &trace, &trace, "--model", &model, "--html", &html]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(fs::read_to_string(&html).unwrap().matches("\"demask_trace\"").count() == 2);
    // And the same as a picture without a script, which shows the question and every token of the answer.
    let svg = folder.path("t.svg");
    let run = demask(&["trace", "view", &trace, &trace, "--model", &model, "--svg", &svg]);
    assert_eq!(run.code, 0, "{}", run.err);
    let picture = fs::read_to_string(&svg).unwrap();
    let asked = "eva has 7 shells . eva finds 19 more";
    assert!(picture.contains(asked) && !picture.contains("<script"), "{picture}");
    assert!(picture.contains("@keyframes a") && picture.contains("&lt;sep&gt;"), "{picture}");
    assert_eq!(picture.matches("forward pass").count(), 2, "each race says how long it took");
    let broken = folder.write("broken.jsonl", b"{\"demask_trace\": 1}\n");
    let run = demask(&["trace", "view", &broken, "--model", &model]);
    assert!(run.code == 1 && run.err.contains("not a trace"), "{}", run.err);
}

#[test]
fn mistakes_are_named_before_anything_runs() {
    let (folder, model) = (Folder::new(), fixture());
    let out = folder.path("x");
    for (args, hint) in [
        (vec!["eval", "--model", &model, "--tasks", "arit", "--out", &out], "arith"),
        (vec!["eval", "--model", &model, "-s", "demask", "--tasks", "arith", "--out", &out], "predictor"),
        (vec!["eval", "--model", &model, "--shard", "2/2", "--out", &out], "0 to n-1"),
        (vec!["lab", "--model", &model, "-s", "entropi", "--out", &out], "entropy"),
    ] {
        let run = demask(&args);
        assert!(run.code == 2 && run.err.contains(hint), "{args:?}: {}", run.err);
        assert!(!Path::new(&out).exists());
    }
}
