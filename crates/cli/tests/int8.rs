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
    assert!(made.out.contains("q4 in groups of 128"), "{}", made.out);
    let stored = tokens(&["--model", &to, "--threads", "1"]);
    assert_eq!(stored, tokens(&["--model", &fixture(), "--dtype", "q4", "--threads", "2"]));
}
