//! Checkpoint folders without a tokenizer, run by ids: the published loops pass by pass, through the command line.

mod support;

use std::path::Path;

use serde_json::Value;
use support::demask;

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name).display().to_string()
}

fn expected(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(Path::new(&fixture(name)).join("expected.json")).unwrap()).unwrap()
}

/// Generates by ids and returns the JSON.
fn generate(name: &str, trace: &Value, flags: &[String]) -> Value {
    let ids: Vec<String> = trace["prompt"].as_array().unwrap().iter().map(Value::to_string).collect();
    let (model, ids) = (fixture(name), ids.join(","));
    let (length, block) = (trace["gen_length"].to_string(), trace["block_length"].to_string());
    let mut args =
        vec!["generate", "--model", &model, "--prompt-ids", &ids, "-n", &length, "--block-length", &block];
    args.extend(["--temperature", "0", "--json"]);
    args.extend(flags.iter().map(String::as_str));
    let run = demask(&args);
    assert_eq!(run.code, 0, "{}", run.err);
    serde_json::from_str(&run.out).unwrap()
}

/// Holds the passes against the published ones and the answer against the published end.
fn assert_same(got: &Value, trace: &Value, ends: &[u64], what: &str) {
    let changed =
        |pass: &&Value| ["positions", "edited"].iter().any(|k| !pass[k].as_array().is_none_or(Vec::is_empty));
    let ours: Vec<&Value> = got["passes"].as_array().unwrap().iter().filter(changed).collect();
    let theirs = trace["steps_taken"].as_array().unwrap();
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (step, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        for (key, value) in theirs.as_object().unwrap() {
            assert_eq!(&ours[key], value, "{what}: step {step}, {key}");
        }
    }
    // What was asked for, up to its first end.
    let canvas = trace["final"].as_array().unwrap();
    let asked = &canvas[..canvas.len().min(trace["gen_length"].as_u64().unwrap() as usize)];
    let end = asked.iter().position(|id| ends.contains(&id.as_u64().unwrap()));
    let answer = got["answer_ids"].as_array().unwrap();
    assert_eq!(answer[..], asked[..end.map_or(asked.len(), |end| end + 1)], "{what}");
}

#[test]
fn the_published_loops_by_ids() {
    let llada2 = expected("llada2-toy");
    for trace in llada2["generate"].as_array().unwrap() {
        let strategy = format!(
            "llada2:threshold={},steps={},minimal={}",
            trace["threshold"], trace["steps"], trace["minimal_topk"]
        );
        let eos = if trace["eos_early_stop"] == true { "stop" } else { "auto" };
        let flags = ["--strategy".into(), strategy.clone(), "--eos".into(), eos.into()];
        assert_same(&generate("llada2-toy", trace, &flags), trace, &[151], &strategy);
    }
    for trace in llada2["generate_editing"].as_array().unwrap() {
        let strategy =
            format!("llada2:threshold={},transfer={}", trace["threshold"], trace["num_to_transfer"]);
        let eos = if trace["eos_early_stop"] == true { "block-fill" } else { "none" };
        let threshold = trace["editing_threshold"].to_string();
        let mut flags = vec!["--strategy".into(), strategy.clone(), "--eos".into(), eos.into()];
        flags.extend(["--edit-threshold".into(), threshold]);
        flags.extend(["--post-steps".into(), trace["max_post_steps"].to_string()]);
        let got = generate("llada2-toy", trace, &flags);
        assert_same(&got, trace, &[151], &format!("{strategy} with edits"));
        assert_eq!(got["forwards"], trace["forward_passes"]);
    }
    for trace in expected("sdar-toy")["generate"].as_array().unwrap() {
        let mode = match (trace["order"].as_str().unwrap(), &trace["threshold"]) {
            ("sequential", _) => "sequential".to_owned(),
            (_, Value::Null) => "static".to_owned(),
            (_, threshold) => format!("dynamic,threshold={threshold}"),
        };
        let strategy = format!("sdar:mode={mode},steps={}", trace["denoising_steps"]);
        let got = generate("sdar-toy", trace, &["--strategy".into(), strategy.clone()]);
        assert_same(&got, trace, &[151, 152], &strategy);
        assert_eq!(got["cache"], "auto");
    }
    for trace in expected("lladamoe-toy")["generate"].as_array().unwrap() {
        let strategy = format!("low-confidence:steps={}", trace["steps"]);
        let flags = ["--strategy".into(), strategy.clone(), "--eos".into(), "none".into()];
        assert_same(&generate("lladamoe-toy", trace, &flags), trace, &[151], &strategy);
    }
}

#[test]
fn a_folder_without_a_tokenizer_is_described_and_needs_ids() {
    let model = fixture("llada2-toy");
    let inspected = demask(&["inspect", &model, "--json"]);
    let about: Value = serde_json::from_str(&inspected.out).unwrap();
    assert_eq!(
        (about["attention"].as_str(), about["experts"]["chosen"].as_u64()),
        (Some("block-causal"), Some(4))
    );
    let shaped = (&about["rotary"], &about["qk_norm"], &about["block"], &about["blocks_from"]);
    assert_eq!(shaped, (&8.into(), &true.into(), &32.into(), &"prompt".into()));
    assert!(about["active_parameters"].as_u64() < about["parameters"].as_u64());
    let refused = demask(&["generate", "--model", &model, "hello"]);
    assert!(refused.code != 0 && refused.err.contains("tokenizer.json"), "{}", refused.err);
    let outside = demask(&["generate", "--model", &model, "--prompt-ids", "5,900", "-n", "4"]);
    assert!(outside.code != 0 && outside.err.contains("900"), "{}", outside.err);
}

#[test]
fn ids_are_taken_as_people_write_them() {
    let model = fixture("sdar-toy");
    let run = |ids: &str| {
        demask(&[
            "generate",
            "--model",
            &model,
            "--prompt-ids",
            ids,
            "-n",
            "4",
            "--temperature",
            "0",
            "--json",
        ])
    };
    let ids = |run: &support::Run| -> Value {
        assert_eq!(run.code, 0, "{}", run.err);
        serde_json::from_str::<Value>(&run.out).unwrap()["answer_ids"].clone()
    };
    let plain = ids(&run("15,61,78"));
    for written in ["15, 61, 78", "15 61 78", "[15, 61, 78]", " [15,61 78] "] {
        assert_eq!(ids(&run(written)), plain, "{written}");
    }
    for (written, named) in [("15,x", "\"x\""), ("15,,61", "missing"), ("[15", "bracket"), ("", "missing")] {
        let refused = run(written);
        assert!(refused.code != 0 && refused.err.contains(named), "{written}: {}", refused.err);
    }
}

#[test]
fn fields_that_nobody_knows_are_told_by_generate_and_inspect() {
    let folder = support::Folder::copy_of(&fixture("sdar-toy"));
    let mut config: Value = serde_json::from_slice(&folder.read("config.json")).unwrap();
    config["warp_factor"] = 9.into();
    folder.write("config.json", config.to_string().as_bytes());
    let model = folder.root();
    let told = "config.json has fields this engine does not know and leaves out: warp_factor";
    let made =
        demask(&["generate", "--model", &model, "--prompt-ids", "5,6", "-n", "4", "--temperature", "0"]);
    assert_eq!((made.code, made.err.matches(told).count()), (0, 1), "{}", made.err);
    let seen = demask(&["inspect", &model]);
    assert!(seen.out.contains(told), "{}", seen.out);
    let about: Value = serde_json::from_str(&demask(&["inspect", &model, "--json"]).out).unwrap();
    assert_eq!(about["notes"], serde_json::json!([told]));
}
