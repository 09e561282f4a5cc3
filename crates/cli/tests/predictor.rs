//! A predictor in one command, and how good it is, as a user runs them.

mod support;

use std::path::Path;

use support::{Folder, demask, fixture};

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
