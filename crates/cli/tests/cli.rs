//! The command as a user runs it: the real binary, real files, exit codes and sentences.

mod support;

use std::fs;

use serde_json::Value;
use support::{Folder, PROMPT, demask, fixture};

#[test]
fn generate_prints_the_answer() {
    let run = demask(&["generate", "--model", &fixture(), "-n", "40", "-s", "entropy", PROMPT]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(run.out.trim(), "7 + 19 = 28 . so eva has 28 shells .");
}

#[test]
fn generate_reads_standard_input_and_files() {
    let piped = support::demask_with(&["generate", "--model", &fixture(), "-n", "40"], PROMPT);
    let folder = Folder::new();
    let file = folder.write("prompt.txt", PROMPT.as_bytes());
    let read = demask(&["generate", "--model", &fixture(), "-n", "40", "--prompt-file", &file]);
    assert_eq!((piped.code, read.code), (0, 0));
    assert_eq!(piped.out, read.out);
}

#[test]
fn json_has_everything_a_script_needs() {
    let predictor = format!("{}/predictor_row_i_minus_1.safetensors", fixture());
    let run =
        demask(&["generate", "--model", &fixture(), "-n", "40", "--predictor", &predictor, "--json", PROMPT]);
    let object: Value = serde_json::from_str(&run.out).expect("one JSON object");
    assert_eq!(object["strategy"], "demask");
    assert_eq!(object["canvas"].as_array().unwrap().len(), 40);
    assert_eq!(object["token_ids"].as_array().unwrap().len(), 12);
    assert!(object["steps"].as_u64().unwrap() < 40 && object["seconds"].as_f64().unwrap() > 0.0);
    assert!(!object["text"].as_str().unwrap().is_empty());
}

#[test]
fn a_trace_explains_every_token() {
    let folder = Folder::new();
    let trace = folder.path("trace.jsonl");
    let run = demask(&[
        "generate",
        "--model",
        &fixture(),
        "-n",
        "40",
        "-s",
        "entropy:k=3",
        "--trace",
        &trace,
        PROMPT,
    ]);
    assert_eq!(run.code, 0, "{}", run.err);
    let lines: Vec<Value> =
        fs::read_to_string(&trace).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines[0]["demask_trace"], 1);
    let (mut committed, mut filled) = (0, 0);
    for (step, record) in lines[1..].iter().enumerate() {
        assert_eq!(record["step"], step);
        committed += record["commits"].as_array().unwrap().len();
        filled += record["filled"].as_array().map_or(0, Vec::len);
    }
    assert!(committed + filled >= 40, "{committed} committed, {filled} filled");
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1, "no partial file is left");
}

#[test]
fn one_seed_one_answer() {
    let ask = |seed: &str| {
        demask(&[
            "generate",
            "--model",
            &fixture(),
            "-n",
            "40",
            "--temperature",
            "1.5",
            "--seed",
            seed,
            PROMPT,
        ])
        .out
    };
    assert_eq!(ask("3"), ask("3"));
    assert!((0..5).any(|s| ask(&s.to_string()) != ask("3")), "another seed gives another answer");
}

#[test]
fn the_end_can_be_held_back() {
    let ask = |hold: &str| {
        let one =
            ["generate", "-m", &fixture(), "-n", "24", "-s", "entropy", "--hold-eos", hold, "--json", PROMPT];
        let run = demask(&one);
        assert_eq!(run.code, 0, "{}", run.err);
        let object: Value = serde_json::from_str(&run.out).unwrap();
        let text = object["token_ids"].as_array().unwrap().len() as u64;
        (object["canvas"].as_array().unwrap().contains(&2.into()), object["steps"].as_u64().unwrap(), text)
    };
    let (never, logits, confidence) = (ask("never"), ask("logits"), ask("confidence"));
    assert!(never.0 && !logits.0, "the toy ends its answers unless it cannot");
    assert_eq!(logits.1, 24);
    assert!(confidence.0 && never.1 > never.2 + 1, "without it some ends are written early: {never:?}");
    assert_eq!(confidence.1, confidence.2 + 1, "the text first, then one end that fills the rest");
}

#[test]
fn infill_changes_only_the_gap() {
    let text = PROMPT.replace("finds 19 more", "finds [MASK:2] more");
    let run = demask(&["infill", "--model", &fixture(), &text]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.starts_with("eva has 7 shells . eva finds "), "{}", run.out);
    assert!(run.out.contains("how many shells does eva have now ?"), "{}", run.out);
}

#[test]
fn chat_answers_each_line_and_takes_commands() {
    let input = format!("{PROMPT}\n/strategy token-order\n/retry\n/strategy nothing\n/history\n/exit\n");
    let run = support::demask_with(&["chat", "--model", &fixture(), "-n", "40"], &input);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(run.out.lines().count(), 2, "{}", run.out);
    assert!(run.err.contains("there is no strategy") && run.err.contains("assistant:"), "{}", run.err);
}

#[test]
fn a_cache_is_told_in_the_trace() {
    let folder = Folder::new();
    let trace = folder.path("trace.jsonl");
    let model = fixture();
    let run = demask(&[
        "generate",
        "--model",
        &model,
        "-n",
        "40",
        "-s",
        "entropy:k=3",
        "--block-length",
        "10",
        "--cache",
        "dual",
        "--trace",
        &trace,
        "--json",
        PROMPT,
    ]);
    assert_eq!(run.code, 0, "{}", run.err);
    let object: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(object["cache"], "dual");
    let lines: Vec<Value> =
        fs::read_to_string(&trace).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines[0]["cache"], "dual");
    let counts: Vec<u64> = lines[1..].iter().map(|l| l["computed_rows"].as_u64().unwrap()).collect();
    let length = lines[0]["tokens"].as_array().unwrap().len() as u64;
    assert!(counts[0] == length && counts[1] <= 11, "{counts:?}");
    let rows = lines[2]["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|r| r[1].as_u64().unwrap() - r[0].as_u64().unwrap()).sum::<u64>(), counts[1]);
}

#[test]
fn bench_decode_compares_caches_in_one_run() {
    let run = demask(&[
        "bench",
        "decode",
        "--model",
        &fixture(),
        "--prompt",
        "12",
        "-n",
        "16",
        "--block-length",
        "4",
        "--blocks",
        "2",
        "--repeats",
        "1",
        "--cache",
        "none",
        "--cache",
        "dual",
        "--json",
    ]);
    assert_eq!(run.code, 0, "{}", run.err);
    let object: Value = serde_json::from_str(&run.out).unwrap();
    let rows = object["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|r| r["tokens"] == 8 && r["ms_per_token"].as_f64().unwrap() > 0.0), "{rows:?}");
    assert_eq!((&rows[0]["rows_per_step"], &rows[0]["as_first"]), (&28.0.into(), &1.0.into()));
    // Two passes over everything and six over a block (and the row before it, which predicts its first token).
    let dual = rows[1]["rows_per_step"].as_f64().unwrap();
    assert!(dual > 28.0 / 4.0 && dual <= (2.0 * 28.0 + 6.0 * 5.0) / 8.0, "{dual}");
}

#[test]
fn strategies_and_completions_list_what_there_is() {
    let plain = demask(&["strategies"]);
    for name in ["demask", "entropy", "klass", "token-order", "tau", "0.04"] {
        assert!(plain.out.contains(name), "{name}");
    }
    assert!(plain.out.contains("dual") && plain.out.contains("vicinity"));
    let markdown = demask(&["strategies", "--markdown"]).out;
    let kept = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/strategies.md")).unwrap();
    assert!(
        kept.replace("\r\n", "\n") == markdown,
        "docs/strategies.md is not current: write it with demask strategies --markdown"
    );
    assert!(demask(&["strategies", "klass", "--markdown"]).out.contains("| `conf` | `0.9` |"));
    assert!(demask(&["completions", "bash"]).out.contains("_demask"));
}

/// The sentence names what, where and (where there is one) the value; the code tells usage from failure.
#[test]
fn mistakes_in_the_call_are_usage_errors() {
    let model = fixture();
    let cases: &[(&[&str], &str)] = &[
        (&["generate", "-m", &model, "-s", "entropi", PROMPT], "did you mean entropy"),
        (&["generate", "-m", &model, "-s", "entropy:q=1", PROMPT], "no parameter \"q\""),
        (&["generate", "-m", &model, "-s", "klass:conf=2", PROMPT], "between 0 and 1"),
        (&["generate", "-m", &model, "-s", "demask", PROMPT], "dependency predictor"),
        (&["generate", "-m", &model, "--temperature=-1", PROMPT], "must be 0 or more"),
        (&["generate", "-m", &model, "--top-p", "0", PROMPT], "top-p"),
        (&["generate", "-m", &model, "--eos", "never", PROMPT], "fill-after"),
        (&["generate", "-m", &model, "-n", "600", PROMPT], "context of 512"),
        (&["generate", "-m", &model, "  "], "prompt is empty"),
        (&["infill", "-m", &model, "no gap here"], "[MASK]"),
        (&["infill", "-m", &model, "eva has [MASK:600] shells"], "context of 512"),
        (&["infill", "-m", &model, "[MASK] has shells"], "begins with a gap"),
        (&["generate", "-m", &model, "--cfg", "-1", PROMPT], "guidance = -1: must be 0 or more"),
        (&["generate", "-m", &model, "--eos-penalty", "nan", PROMPT], "end of sequence = NaN"),
        (&["generate", "-m", &model, "--sampler", "dice", PROMPT], "categorical or gumbel"),
        (
            &["generate", "-m", &model, "--sampler", "gumbel", "--top-k", "5", PROMPT],
            "leave out top-p and top-k",
        ),
        (&["generate", "-m", &model, "--hold-eos", "always", PROMPT], "never, logits or confidence"),
        (&["generate", "-m", &model, "-s", "klass:bar=over", PROMPT], "at-least, above"),
        (&["generate", "-m", &model, "--wrong", PROMPT], "--wrong"),
        (&["strategies", "foo"], "there is no strategy"),
        (&["generate", "--model", "x", "--cache", "duel", "hello"], "did you mean dual"),
    ];
    for (args, sentence) in cases {
        let run = demask(args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.err);
        assert!(run.err.contains(sentence), "{args:?}: {}", run.err);
    }
}

#[test]
fn damaged_checkpoints_are_failures_with_a_sentence() {
    for (what, damage, sentence) in support::damages() {
        let folder = Folder::copy_of(&fixture());
        damage(&folder);
        let run = demask(&["generate", "--model", &folder.root(), "-n", "8", "-s", "entropy", PROMPT]);
        assert_eq!(run.code, 1, "{what}: {}", run.err);
        assert!(run.err.contains(sentence), "{what}: {}", run.err);
        assert_eq!(run.err.trim().lines().count(), 1, "{what}: {}", run.err);
        assert!(!run.err.contains("panicked"), "{what}: {}", run.err);
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_a_failure() {
    let run =
        demask(&["generate", "-m", &fixture(), "-n", "8", "--trace", "/nonexistent/trace.jsonl", PROMPT]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("cannot write /nonexistent/trace.jsonl"), "{}", run.err);
}

/// A checkpoint big enough that weights, activations and logits all matter.
#[cfg(target_os = "linux")]
#[test]
fn inspect_predicts_the_peak_memory() {
    let folder = Folder::new();
    let config = folder.write(
        "shape.json",
        br#"{"model_type":"Dream","vocab_size":32000,"hidden_size":1024,"intermediate_size":4096,
            "num_hidden_layers":6,"num_attention_heads":16,"num_key_value_heads":4,"max_position_embeddings":2048,
            "rms_norm_eps":1e-6,"rope_theta":1e6,"mask_token_id":1,"eos_token_id":2,"pad_token_id":0,"torch_dtype":"bfloat16"}"#,
    );
    let model = folder.path("model");
    let made =
        demask(&["synthesize", &model, "--config", &config, "--shard", "128", "--tokenizer", &fixture()]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert!(fs::metadata(format!("{model}/model.safetensors.index.json")).is_ok(), "sharded");
    let inspected: Value =
        serde_json::from_str(&demask(&["inspect", &model, "--length", "421", "--json"]).out).unwrap();
    let predicted = inspected["memory_bytes"].as_f64().unwrap();
    let args = [
        "generate",
        "-m",
        &model,
        "-n",
        "400",
        "-s",
        "token-order:k=200",
        "--eos",
        "none",
        "--threads",
        "2",
        PROMPT,
    ];
    let (run, peak) = support::demask_peak(&args);
    assert_eq!(run.code, 0, "{}", run.err);
    let ratio = predicted / peak as f64;
    assert!((0.9..1.1).contains(&ratio), "predicted {predicted}, measured {peak}: {ratio:.3}");
}

/// What stands in for DEMASK without a predictor is said once, and runs; with one, what was made of it is said.
#[test]
fn what_was_understood_of_a_predictor_is_said() {
    let folder = Folder::copy_of(&fixture());
    std::fs::remove_file(folder.path("predictor_row_i.safetensors")).unwrap();
    std::fs::rename(folder.path("predictor_row_i_minus_1.safetensors"), folder.path("mine.safetensors"))
        .unwrap();
    let root = folder.root();
    let (trace, run) = (folder.path("trace.jsonl"), |more: &[&str]| {
        demask(&[&["generate", "--model", &root, "-n", "24", "--json", PROMPT], more].concat())
    });
    let found = run(&["--trace", &trace]);
    assert_eq!(found.code, 0, "{}", found.err);
    assert!(found.out.contains("\"strategy\":\"demask\""), "{}", found.out);
    assert_eq!(found.err.matches("W_Q and W_K as [in, out]").count(), 1, "{}", found.err);
    let header = std::fs::read_to_string(&trace).unwrap();
    assert!(header.lines().next().unwrap().contains("reads hidden row i-1 after the final norm"), "{header}");
    let described = demask(&["inspect", &root]);
    assert!(described.out.contains("mine.safetensors: one head of width 64"), "{}", described.out);
    std::fs::remove_file(folder.path("mine.safetensors")).unwrap();
    let without = run(&[]);
    assert_eq!(without.err.matches("no dependency predictor: threshold:threshold=0.95 decodes").count(), 1);
    for way in ["--predictor FILE|DIR|org/name", "into the checkpoint's folder", "demask predictor train"] {
        assert!(without.err.contains(way), "{}", without.err);
    }
    assert!(without.out.contains("\"strategy\":\"threshold:threshold=0.95\""), "{}", without.out);
    assert_eq!(run(&["-s", "entropy"]).err, "");
}

#[test]
fn a_parameter_given_as_a_flag_is_told_where_it_goes() {
    for (args, spelled) in [
        (&["generate", "--tau", "0.1", "x"][..], "-s demask:tau=0.1"),
        (&["generate", "--gamma=0.9", "--tau=0.1", "x"], "-s demask:gamma=0.9,tau=0.1"),
        (&["generate", "-s", "demask:tau=0.1", "--gamma", "0.9", "x"], "-s demask:tau=0.1,gamma=0.9"),
        (&["chat", "--conf", "0.9", "--kl", "0.001"], "-s klass:conf=0.9,kl=0.001"),
        (&["eval", "--strategy=threshold", "--threshold", "0.9"], "-s threshold:threshold=0.9"),
        (&["infill", "a [MASK]", "--tau"], "-s demask:tau=…"),
    ] {
        let run = demask(args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.err);
        assert!(run.err.trim().ends_with(spelled) && run.err.lines().count() == 1, "{args:?}: {}", run.err);
    }
    // What is no decoder's parameter, or belongs to a command without decoders, is clap's to answer.
    for args in [&["generate", "--tua", "0.1", "x"][..], &["inspect", "--tau", "0.1", "x"]] {
        let run = demask(args);
        assert!(run.code == 2 && run.err.contains("unexpected argument"), "{args:?}: {}", run.err);
    }
}
