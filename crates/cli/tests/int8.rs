//! `--dtype int8` and `demask quantize` as a user runs them.

mod support;

use serde_json::Value;
use support::{Folder, PROMPT, demask, fixture};

fn tokens(args: &[&str]) -> Value {
    let run = demask(&[&["generate", "-n", "40", "--json", PROMPT][..], args].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let object: Value = serde_json::from_str(&run.out).unwrap();
    object["canvas"].clone()
}

#[test]
fn threads_do_not_change_the_tokens() {
    let model = fixture();
    let one = tokens(&["--model", &model, "--dtype", "int8", "--threads", "1"]);
    let two = tokens(&["--model", &model, "--dtype", "int8", "--threads", "2"]);
    assert_eq!(one, two);
    assert_eq!(one.as_array().unwrap().len(), 40);
}

#[test]
fn a_quantised_folder_generates_what_quantising_at_load_does() {
    let folder = Folder::new();
    let to = folder.path("int8");
    let made = demask(&["quantize", &fixture(), &to]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert!(made.out.contains("groups of 128"), "{}", made.out);
    assert_eq!(tokens(&["--model", &to]), tokens(&["--model", &fixture(), "--dtype", "int8"]));
    let again = demask(&["quantize", &fixture(), &to]);
    assert!(again.code == 1 && again.err.contains("already holds a checkpoint"), "{}", again.err);
    let described = demask(&["inspect", &to, "--json"]);
    let described: Value = serde_json::from_str(&described.out).unwrap();
    assert!(described["weights_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn four_bits_as_a_user_runs_them() {
    let folder = Folder::new();
    let to = folder.path("q4");
    let made = demask(&["quantize", &fixture(), &to, "--dtype", "q4"]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert!(made.out.contains("q4 in groups of 32"), "{}", made.out);
    let stored = tokens(&["--model", &to, "--threads", "1"]);
    assert_eq!(stored, tokens(&["--model", &fixture(), "--dtype", "q4", "--threads", "2"]));
}

#[test]
fn measurements_print_tables_json_and_pictures() {
    let folder = Folder::new();
    let out = folder.path("bench");
    let config = format!("{}/config.json", fixture());
    let small = ["--repeats", "1", "--config", &config];
    let cases: [&[&str]; 4] = [
        &["forward", "--lengths", "16,32"],
        &["predictor", "--length", "32", "--masked", "16", "--selection", "32"],
        &["scaling", "--lengths", "8,16", "--masked", "4", "--batch", "1,2"],
        &["cache", "--prompt", "8", "--response", "8", "--responses", "1"],
    ];
    for case in cases {
        let run = demask(&[&["bench"][..], case, &small[..], &["--json", "--out", &out][..]].concat());
        assert_eq!(run.code, 0, "{case:?}: {}", run.err);
        let object: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(object["bench"], case[0]);
        assert!(!object["rows"].as_array().unwrap().is_empty());
        for end in ["json", "svg", "png"] {
            assert!(std::path::Path::new(&format!("{out}/{}.{end}", case[0])).exists(), "{case:?} {end}");
        }
    }
    let run = demask(&["bench", "gemm", "--shape", "64x48", "--rows", "3", "--repeats", "1"]);
    assert!(run.code == 0 && run.out.contains("of limit"), "{}{}", run.out, run.err);
    let run = demask(&["bench", "bandwidth", "--repeats", "1"]);
    assert!(run.code == 0 && run.out.contains("GB/s"), "{}{}", run.out, run.err);
    let wrong = demask(&["bench", "gemm", "--shape", "64"]);
    assert!(wrong.code == 2 && wrong.err.contains("KxN"), "{}", wrong.err);
}

#[test]
fn candle_gives_the_same_logits() {
    for model in [vec![], vec!["--model".to_owned(), fixture()]] {
        let args = ["bench", "candle", "--batch", "1,3", "--length", "12", "--repeats", "1", "--json"];
        let args: Vec<&str> = args.into_iter().chain(model.iter().map(String::as_str)).collect();
        let run = demask(&args);
        assert_eq!(run.code, 0, "{model:?}: {}", run.err);
        let object: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(object["rows"].as_array().unwrap().len(), 6);
    }
}
