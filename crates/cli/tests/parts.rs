//! Second models and trained parts through the command line: APD's published traces, and every part trained for a few
//! updates, used, and refused on another backbone.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{PROMPT, demask, fixture, signal, wait_for};

fn beside(name: &str) -> String {
    Path::new(&fixture()).join("..").join(name).canonicalize().unwrap().display().to_string()
}

fn read(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn apds_published_traces() {
    let (model, assistant) = (fixture(), beside("apd-toy/verifier"));
    let prompts = read(&format!("{model}/expected.json"))["prompts"].clone();
    let traces = read(&beside("apd-toy/expected.json"))["traces"].clone();
    let greedy = |t: &&Value| t["alg"] == "apd" && t["temperature"].as_f64() == Some(0.0);
    for trace in traces.as_array().unwrap().iter().filter(greedy) {
        let prompt = prompts[trace["prompt"].as_u64().unwrap() as usize].as_array().unwrap();
        let ids: Vec<String> = prompt.iter().map(Value::to_string).collect();
        let mut strategy = format!("apd:r={}", trace["R"]);
        for (key, name) in [("W", "window"), ("M", "lookahead")] {
            if let Some(value) = trace[key].as_u64() {
                strategy += &format!(",{name}={value}");
            }
        }
        let run = demask(&[
            "generate",
            "--model",
            &model,
            "--assistant",
            &assistant,
            "--prompt-ids",
            &ids.join(","),
            "-n",
            "40",
            "--temperature",
            "0",
            "--strategy",
            &strategy,
            "--json",
        ]);
        assert_eq!(run.code, 0, "{strategy}: {}", run.err);
        let got: Value = serde_json::from_str(&run.out).unwrap();
        let passes = got["passes"].as_array().unwrap();
        let accepted: Vec<usize> = passes.iter().map(|p| p["positions"].as_array().unwrap().len()).collect();
        let want: Vec<usize> =
            trace["accepted"].as_array().unwrap().iter().map(|a| a.as_u64().unwrap() as usize).collect();
        assert_eq!(accepted, want, "{strategy}, prompt {}", trace["prompt"]);
        let (answer, want) = (got["answer_ids"].as_array().unwrap(), trace["response"].as_array().unwrap());
        assert_eq!(answer[..], want[..answer.len()], "{strategy}, prompt {}", trace["prompt"]);
    }
    let without = demask(&["generate", "--model", &model, "--raw", "-s", "apd", PROMPT]);
    assert_ne!(without.code, 0);
    assert!(without.err.contains("causal") && without.err.contains("--assistant"), "{}", without.err);
}

#[test]
fn every_part_is_trained_used_and_refused_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let line = |i: usize| {
        let prompt = PROMPT.replace(" 7 ", &format!(" {} ", 2 + i % 7));
        serde_json::json!({ "id": i.to_string(), "prompt": prompt, "response": "7 + 19 = 26 . the answer is 26" }).to_string()
    };
    std::fs::write(at("data.jsonl"), (0..12).map(|i| line(i) + "\n").collect::<String>()).unwrap();
    let (model, data) = (fixture(), at("data.jsonl"));
    let asked = ["--model", &model, "--data", &data, "--raw", "--length", "20", "--steps", "3"];
    let parts: [(&[&str], &str, &str, &str); 3] = [
        (&["adjust", "--batch", "2", "--depth", "2"], "sampler", "--sampler-layer", "adjust:k=2"),
        (
            &["policy", "--target", "final", "--hidden", "16", "--batch", "2"],
            "policy",
            "--policy",
            "policy:mode=threshold",
        ),
        (&["prior", "--states", "4", "--rounds", "2", "--batch", "2"], "prior", "--prior", "codd:k=2"),
    ];
    for (train, file, flag, strategy) in parts {
        let out = at(&format!("{file}.safetensors"));
        let args = [&["train"], train, &asked, &["--out", &out]].concat();
        let run = demask(&args);
        assert_eq!(run.code, 0, "{train:?}: {}", run.err);
        // A baseline stands beside the loss.
        assert!(run.out.contains("loss held out") && run.out.contains(flag), "{}", run.out);
        let again = demask(&args);
        assert_eq!((again.code, &again.out), (0, &run.out), "finished runs say the same: {}", again.err);
        let used =
            demask(&["generate", "--model", &model, flag, &out, "-s", strategy, "--raw", "-n", "12", PROMPT]);
        assert_eq!(used.code, 0, "{strategy}: {}", used.err);
        let other = beside("llada-toy");
        let refused = demask(&[
            "generate",
            "--model",
            &other,
            flag,
            &out,
            "-s",
            strategy,
            "--prompt-ids",
            "5,6",
            "-n",
            "4",
        ]);
        let named = ["trained on backbone", "do not fit"].iter().any(|why| refused.err.contains(why));
        assert!(refused.code != 0 && named, "{}", refused.err);
    }
    let distilled = at("distilled");
    let run =
        demask(&[&["train", "distill", "--batch-tokens", "80"], &asked[..], &["--out", &distilled]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(
        run.out.contains("before: the teacher's answers") && run.err.contains("after 3:"),
        "{} {}",
        run.out,
        run.err
    );
    let export = Path::new(&distilled).join("export").display().to_string();
    let used =
        demask(&["generate", "--model", &export, "-s", "entropy-threshold", "--raw", "-n", "12", PROMPT]);
    assert_eq!(used.code, 0, "{}", used.err);
    // The same command with other weights in the model's place is another run, whether its answers are still there or not.
    let copied = at("copied");
    std::fs::create_dir(&copied).unwrap();
    let inside = |name: &str| Path::new(&copied).join(name);
    for name in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(Path::new(&model).join(name), inside(name)).unwrap();
    }
    let asked: Vec<&str> =
        asked.iter().map(|&word| if word == model { copied.as_str() } else { word }).collect();
    let out = at("moved");
    let distil = [&["train", "distill", "--batch-tokens", "80"], &asked[..], &["--out", &out]].concat();
    assert_eq!(demask(&distil).code, 0);
    let mut bytes = std::fs::read(inside("model.safetensors")).unwrap();
    let last = bytes.len() - 4;
    bytes[last] ^= 1;
    std::fs::write(inside("model.safetensors"), bytes).unwrap();
    let refused = demask(&distil);
    assert!(refused.code != 0 && refused.err.contains("was made by another model"), "{}", refused.err);
    std::fs::remove_file(Path::new(&out).join("trajectories.jsonl")).unwrap();
    let refused = demask(&distil);
    assert!(
        refused.code != 0 && refused.err.contains("another config, tokenizer or start"),
        "{}",
        refused.err
    );
    let unchecked = demask(&[&["train", "policy"], &asked[..], &["--out", &at("x.safetensors")]].concat());
    assert!(unchecked.code != 0 && unchecked.err.contains("task:NAME"), "{}", unchecked.err);
}

/// Known cells among the masks, by ids: what the published copula drew, chunk by chunk.
#[test]
fn the_copulas_of_the_published_function_by_ids() {
    let (model, assistant) = (fixture(), beside("apd-toy/verifier"));
    let prompts = read(&format!("{model}/expected.json"))["prompts"].clone();
    for case in read(&beside("dcd-toy/expected.json"))["cases"].as_array().unwrap() {
        let prompt = prompts[case["prompt"].as_u64().unwrap() as usize].as_array().unwrap();
        let cell = |i: usize| case["known"].get(i.to_string()).map_or("1".into(), Value::to_string);
        let ids: Vec<String> = prompt.iter().map(Value::to_string).chain((0..40).map(cell)).collect();
        let strategy = format!("copula:steps={}", case["steps"]);
        let (ids, flags) = (ids.join(","), ["--temperature", "0", "--eos", "none", "--json"]);
        let asked = ["infill", "--model", &model, "--assistant", &assistant, "--ids", &ids, "-s", &strategy];
        let run = demask(&[&asked[..], &flags].concat());
        assert_eq!(run.code, 0, "{strategy}: {}", run.err);
        let got: Value = serde_json::from_str(&run.out).unwrap();
        let want = case["response_to_eos"].as_array().unwrap();
        let ours = &got["token_ids"].as_array().unwrap()[prompt.len()..];
        assert_eq!(ours[..want.len()], want[..], "{case}");
        let passes = got["passes"].as_array().unwrap();
        assert_eq!(passes.len() as u64, case["steps"].as_u64().unwrap());
        // Two passes a step, and a row of the assistant for each drawn token, wherever passes are told.
        assert!(passes.iter().all(|p| p["forwards"] == 2 && p["assistant_rows"].as_u64() > Some(0)), "{got}");
        assert!(got["metrics"]["seconds"]["extra"].as_f64() > Some(0.0));
    }
    let without = demask(&["infill", "--model", &model, "--ids", "5,6,7", "-s", "entropy"]);
    assert!(without.code != 0 && without.err.contains("mask"), "{}", without.err);
}

/// What learns from rewards and from divergences, on the embedded model; the program tells what it costs besides passes.
#[test]
fn rewards_and_divergences_are_learned_through_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (policy, cache, information) = (at("policy.safetensors"), at("cache"), at("information.safetensors"));
    let few = ["--steps", "2", "--batch", "1", "--group", "2", "--held", "2", "--hidden", "16", "-n", "24"];
    let train = [&["train", "policy", "--data", "task:arith", "--limit", "4"], &few[..], &["--out", &policy]];
    let run = demask(&train.concat());
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("less the reward of threshold:threshold=0.9"), "{}", run.out);
    let ask = ["generate", "-q", "-n", "16", "--stats", "What is 3 plus 4?"];
    let used = demask(&[&ask[..], &["-s", "policy", "--policy", &policy]].concat());
    assert!(used.code == 0 && used.err.contains("inner call"), "{}", used.err);
    let toy = fixture();
    let elsewhere = |flags: &[&str]| {
        let run = demask(&[&["generate", "--model", &toy, "--prompt-ids", "5,6", "-n", "4"], flags].concat());
        assert_ne!(run.code, 0, "{flags:?}");
        run.err
    };
    let refused = elsewhere(&["-s", "policy", "--policy", &policy]);
    assert!(refused.contains("was trained on backbone"), "{refused}");

    let make = ["tv-cache", "generate", "--data", "task:arith", "--limit", "12", "--masks-per-response", "1"];
    let run = demask(&[&make[..], &["--divergence", "--out", &cache]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let train =
        ["train", "predictor", "--cache", &cache, "--target", "kl", "--epochs", "1", "--validation", "0.3"];
    let run = demask(&[&train[..], &["--out", &information]].concat());
    assert!(run.code == 0 && run.out.contains("best constant"), "{} {}", run.out, run.err);
    let used = demask(&[&ask[..], &["-s", "mi", "--information", &information]].concat());
    assert_eq!(used.code, 0, "{}", used.err);
    // Another backbone's is refused, in both directions.
    let refused = elsewhere(&["-s", "mi", "--information", &information]);
    assert!(refused.contains("belongs to another model"), "{refused}");
    let foreign = Path::new(&toy).join("predictor_row_i_minus_1.safetensors").display().to_string();
    let refused = demask(&[&ask[..], &["-s", "mi", "--information", &foreign]].concat());
    assert!(refused.code != 0 && refused.err.contains("belongs to another model"), "{}", refused.err);
    // A predictor of the one is none of the other.
    let swapped = demask(&[&ask[..], &["-s", "demask", "--predictor", &information]].concat());
    let why = "it predicts mutual information where total variation is needed";
    assert!(swapped.code != 0 && swapped.err.contains(why), "{}", swapped.err);
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../tiny/checkpoint/predictor.safetensors");
    let swapped = demask(&[&ask[..], &["-s", "mi", "--information", own]].concat());
    let why = "it predicts total variation where mutual information is needed";
    assert!(swapped.code != 0 && swapped.err.contains(why), "{}", swapped.err);
}

#[test]
fn a_stopped_distillation_goes_on_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let line = |i: usize| serde_json::json!({ "prompt": PROMPT.replace(" 7 ", &format!(" {} ", 2 + i)), "response": "26" });
    std::fs::write(at("data.jsonl"), (0..8).map(|i| line(i).to_string() + "\n").collect::<String>()).unwrap();
    let (model, data) = (fixture(), at("data.jsonl"));
    let call = |out: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_demask"));
        command.args(["train", "distill", "--model", &model, "--data", &data, "--raw", "--length", "16"]);
        command.args(["--steps", "800", "--batch-tokens", "160", "--out", out]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let (whole, cut) = (at("whole"), at("cut"));
    assert!(call(&whole).output().unwrap().status.success());
    let mut child = call(&cut).spawn().unwrap();
    // What is exported after an eighth of the updates.
    let begun = Path::new(&cut).join("export/model.safetensors");
    wait_for(&mut child, "an eighth of the updates", || begun.exists());
    signal("INT", child.id());
    let stopped = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&stopped.stdout).into_owned();
    assert!(said.contains("the same command continues"), "it was over before it could be stopped: {said}");
    assert!(call(&cut).output().unwrap().status.success());
    let weights = |out: &str| std::fs::read(Path::new(out).join("export/model.safetensors")).unwrap();
    assert_eq!(weights(&whole), weights(&cut));
}
