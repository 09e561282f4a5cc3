//! `demask pull`, `demask doctor` and the warning before a model that does not fit, as a user meets them; the Hub is a
//! server of our own on loopback.

#[path = "../../model/tests/support/hub.rs"]
mod hub;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use demask::model::shapes;
use support::{PROMPT, fixture};

fn repository() -> BTreeMap<String, Vec<u8>> {
    let folder = Path::new(&fixture()).to_path_buf();
    let names = [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "model.safetensors",
    ];
    let mut files: BTreeMap<String, Vec<u8>> =
        names.iter().map(|name| ((*name).to_owned(), fs::read(folder.join(name)).unwrap())).collect();
    let predictor = fs::read(folder.join("predictor_row_i_minus_1.safetensors")).unwrap();
    files.insert("predictor.safetensors".to_owned(), predictor);
    files
}

fn run(home: &Path, endpoint: Option<&str>, free: Option<u64>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demask"));
    command.args(args).env("HF_HOME", home).env_remove("HF_TOKEN").env_remove("HF_HUB_OFFLINE");
    match endpoint {
        Some(address) => command.env("HF_ENDPOINT", address),
        None => command.env("HF_HUB_OFFLINE", "1"),
    };
    if let Some(bytes) = free {
        command.env("DEMASK_FREE_MEMORY", bytes.to_string());
    }
    command.output().unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_model_is_pulled_after_an_interruption_quantised_and_run() {
    let (server, home) = (hub::Server::start(repository()), tempfile::tempdir().unwrap());
    let pull = |more: &[&str]| {
        run(home.path(), Some(&server.address), None, &[&["pull", hub::NAME][..], more].concat())
    };
    // The connection breaks in the middle of every file.
    server.with(|hub| hub.broken = 1000);
    let broken = pull(&["--int8"]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(said(&broken.stderr).contains("again to resume"), "{}", said(&broken.stderr));
    server.with(|hub| hub.broken = 0);
    server.take_log();
    let whole = pull(&["--int8"]);
    let (out, err) = (said(&whole.stdout), said(&whole.stderr));
    assert!(whole.status.success(), "{err}");
    let resumed = |line: &String| line.contains("bytes=") && !line.contains("bytes=0-");
    let log = server.take_log();
    assert!(log.iter().any(resumed), "nothing was resumed: {log:?}");
    assert!(out.contains("predictor.safetensors") && out.contains("demask generate --model"), "{out}");
    // What it says is there runs, without a network and with its predictor.
    let place = out.lines().next().unwrap();
    let answer = run(home.path(), None, None, &["generate", "--model", place, "--json", PROMPT]);
    assert!(answer.status.success(), "{}", said(&answer.stderr));
    assert!(said(&answer.stdout).contains("\"strategy\":\"demask"), "{}", said(&answer.stdout));
    // A second time nothing is left to do.
    let again = pull(&["--int8"]);
    assert!(
        again.status.success() && said(&again.stderr).contains("is there already"),
        "{}",
        said(&again.stderr)
    );
    let weights = |line: &String| line.contains("/content/");
    assert!(!server.take_log().iter().any(weights));
    // Without a flag it stays in the Hub's cache, and four bits have a place of their own.
    let plain = pull(&[]);
    assert!(plain.status.success() && said(&plain.stdout).contains(&format!("--model {}", hub::NAME)));
    let q4 = pull(&["--q4"]);
    assert!(q4.status.success() && said(&q4.stdout).contains("-q4"), "{}", said(&q4.stderr));
    assert_eq!(pull(&["--int8", "--q4"]).status.code(), Some(2));
    assert_eq!(pull(&["--out", "x"]).status.code(), Some(2));
}

/// `--predictor org/name`: its tokens are those of the file, and what was understood is said where the file came from.
#[test]
fn a_predictor_is_named_by_its_repository() {
    let file = Path::new(&fixture()).join("predictor_row_i_minus_1.safetensors");
    let files = BTreeMap::from([("learned.safetensors".to_owned(), fs::read(&file).unwrap())]);
    let (server, home) = (hub::Server::start(files), tempfile::tempdir().unwrap());
    let answered = |endpoint: Option<&str>, predictor: &str| {
        let model = fixture();
        let flags = ["generate", "--model", &model, "-n", "32", "--json", "--predictor", predictor, PROMPT];
        let run = run(home.path(), endpoint, None, &flags);
        let (out, err) = (said(&run.stdout), said(&run.stderr));
        assert!(run.status.success(), "{err}");
        assert_eq!(err.matches("reads hidden row i-1").count(), 1, "{err}");
        let answer: serde_json::Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
        assert_eq!(answer["strategy"], "demask", "{out}");
        (answer["canvas"].clone(), answer["text"].clone(), answer["steps"].clone())
    };
    let plain = answered(None, file.to_str().unwrap());
    assert!(!plain.0.is_null() && !plain.1.is_null(), "{plain:?}");
    assert_eq!(answered(Some(&server.address), hub::NAME), plain);
    // Once it is here, no network is needed.
    assert_eq!(answered(None, hub::NAME), plain);
}

#[test]
fn what_was_begun_is_thrown_away_and_begun_again() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("small");
    let begun = home.path().join("small.part");
    fs::create_dir(&begun).unwrap();
    fs::write(begun.join("model.safetensors"), b"half").unwrap();
    let done = run(home.path(), None, None, &["pull", &fixture(), "--int8", "-o", out.to_str().unwrap()]);
    assert!(done.status.success(), "{}", said(&done.stderr));
    assert!(out.join("config.json").exists() && !begun.exists());
}

#[test]
fn a_model_that_does_not_fit_is_told_before_anything_is_read() {
    let (home, model) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(model.path().join("config.json"), shapes::ALL[0].config().to_string()).unwrap();
    let name = model.path().to_str().unwrap();
    let told =
        |free: u64| said(&run(home.path(), None, Some(free), &["generate", "--model", name, "hello"]).stderr);
    let tight = told(9 << 30);
    let first = tight.lines().next().unwrap();
    assert!(first.starts_with("warning:") && first.contains("9.0 GiB are free"), "{tight}");
    assert!(
        first.contains("demask pull") && first.contains("--int8 would take") && first.contains("--q4"),
        "{tight}"
    );
    // There are no weights, which is told after it.
    assert!(tight.lines().count() > 1, "{tight}");
    let tighter = told(6 << 30);
    assert!(tighter.contains("--q4 would take") && !tighter.contains("--int8 would"), "{tighter}");
    assert!(told(1 << 30).contains("no precision of it fits"));
    assert!(!told(64 << 30).contains("warning"));
    // The small model runs all the same.
    let small =
        run(home.path(), None, Some(1 << 20), &["generate", "--model", &fixture(), "-n", "4", PROMPT]);
    assert!(small.status.success() && said(&small.stderr).contains("warning:"), "{}", said(&small.stderr));
}

#[test]
fn the_doctor_tells_what_there_is() {
    let home = tempfile::tempdir().unwrap();
    let told = run(home.path(), None, Some(20 << 30), &["doctor", "--length", "32"]);
    let out = said(&told.stdout);
    assert!(told.status.success(), "{}", said(&told.stderr));
    for word in [
        "cores",
        "instructions",
        "20.0 GiB free",
        "sandbox",
        "not asked",
        "inside",
        "int8",
        "operations a second",
    ] {
        assert!(out.contains(word), "{word} in\n{out}");
    }
    let line = |name: &str| out.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("dream-7b").matches(" s").count() == 3, "{out}");
    assert!(line("llada2-flash").contains("too large"), "{out}");
    let server = hub::Server::start(BTreeMap::new());
    let asked = said(&run(home.path(), Some(&server.address), None, &["doctor", "--length", "16"]).stdout);
    assert!(asked.contains(&format!("{} answers in", server.address)), "{asked}");
    let nobody =
        said(&run(home.path(), Some("http://127.0.0.1:9"), None, &["doctor", "--length", "16"]).stdout);
    assert!(nobody.contains("cannot be reached"), "{nobody}");
}
