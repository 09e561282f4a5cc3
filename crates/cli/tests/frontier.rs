//! The stability head and the fair comparison as a user runs them: trained in rounds, decoded with, told of; chosen on
//! validation problems, run on test problems once, with who picked what.

mod support;

use std::path::Path;

use support::{Folder, PROMPT, demask, fixture};

fn predictor() -> String {
    format!("{}/predictor_row_i_minus_1.safetensors", fixture())
}

#[test]
fn a_head_is_trained_in_rounds_decoded_with_and_told_of() {
    let (folder, model, before) = (Folder::new(), fixture(), predictor());
    let out = folder.path("made.safetensors");
    let train = |more: &[&str]| {
        let args =
            ["train", "stability", "--model", &model, "--data", "task:arith", "--limit", "10", "--out", &out];
        let how = ["--gamma", "0.5", "--rounds", "2", "--states", "3", "--epochs", "1", "--batch", "16"];
        demask(&[&args[..], &how, more].concat())
    };
    let run = train(&["--predictor", &before]);
    assert_eq!(run.code, 0, "{}", run.err);
    for part in
        ["round 1:", "round 2:", "log-loss", "the constant rate", "visited by demask:start=stable", "kappa"]
    {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    let bytes = std::fs::read(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    let again = train(&["--predictor", &before]);
    assert_eq!(
        (again.code, std::fs::read(&out).unwrap()),
        (0, bytes.clone()),
        "caches and states are used again"
    );

    let generate = |predictor: &str| {
        let strategy = "demask:start=stable,gamma=0.5,tau=1";
        demask(&[
            "generate",
            "--model",
            &model,
            "--raw",
            "-n",
            "16",
            "-s",
            strategy,
            "--predictor",
            predictor,
            PROMPT,
        ])
    };
    let with = generate(&out);
    assert_eq!(with.code, 0, "{}", with.err);
    assert!(with.err.contains("a stability head through 96 for what is sure above 0.5"), "{}", with.err);
    let without = generate(&before);
    assert_ne!(without.code, 0);
    assert!(without.err.contains("needs a stability head"), "{}", without.err);

    // In a checkpoint's folder it is found, told of, and kept by a quantised copy.
    let checkpoint = Folder::copy_of(&model);
    checkpoint.write("predictor.safetensors", &bytes);
    let told = demask(&["inspect", &checkpoint.root()]);
    assert!(told.out.contains("a stability head through 96"), "{} {}", told.out, told.err);
    let small = folder.path("small");
    let quantized = demask(&["quantize", &checkpoint.root(), &small]);
    assert_eq!(quantized.code, 0, "{}", quantized.err);
    assert_eq!(std::fs::read(Path::new(&small).join("predictor.safetensors")).unwrap(), bytes);
}

#[test]
fn states_and_labels_are_made_by_the_cache_and_trained_on() {
    let (folder, model, before) = (Folder::new(), fixture(), predictor());
    let (cache, out) = (folder.path("cache"), folder.path("made.safetensors"));
    let made = demask(&[
        "tv-cache",
        "generate",
        "--model",
        &model,
        "--predictor",
        &before,
        "--data",
        "task:arith",
        "--limit",
        "12",
        "--states",
        "decoder",
        "--gamma",
        "0.5",
        "--labels-only",
        "--hidden",
        "both",
        "--out",
        &cache,
    ]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert!(made.out.contains("with a stability label"), "{}", made.out);
    let told = demask(&["tv-cache", "info", &cache]);
    assert!(
        told.out.contains("visited by demask:start=confident,tau=0.4,gamma=0.5"),
        "{} {}",
        told.out,
        told.err
    );
    let head = demask(&[
        "train",
        "stability",
        "--model",
        &model,
        "--predictor",
        &before,
        "--cache",
        &cache,
        "--epochs",
        "1",
        "--out",
        &out,
    ]);
    assert_eq!(head.code, 0, "{}", head.err);
    let wrong = demask(&["train", "predictor", "--cache", &cache, "--out", &folder.path("no.safetensors")]);
    assert_ne!(wrong.code, 0);
    assert!(wrong.err.contains("stores no dependencies"), "{}", wrong.err);
}

#[test]
fn what_was_chosen_runs_once_and_rows_say_who_picked_them() {
    let (folder, model, predictor) = (Folder::new(), fixture(), predictor());
    let grid = folder.write(
        "grid.toml",
        b"[[grid]]\nstrategy = \"threshold\"\nthreshold = [0.5, 0.9]\n[[grid]]\nlabel = \"paper's\"\nstrategy = \"demask:dependency=paper\"\ntau = [0.1, 0.5]\n",
    );
    let (choice, test, other) = (folder.path("choice"), folder.path("test"), folder.path("other"));
    let named = format!("paper={predictor}");
    let shared = ["--model", &model, "--dependency", &named, "-n", "24", "--limit", "4"];
    let sweep = |out: &str, seed: &str| {
        demask(
            &[&["sweep", "--grid", &grid, "--tasks", "arith", "--seed", seed, "--out", out][..], &shared]
                .concat(),
        )
    };
    let run = sweep(&choice, "0");
    assert_eq!(run.code, 0, "{}", run.err);
    let lab = |choice: &str, tasks: &str| {
        let own = ["lab", "--chosen", choice, "--with", "entropy:k=8", "--tasks", tasks, "--out", &test];
        demask(&[&own[..], &shared].concat())
    };
    let run = lab(&choice, "arith,arith:fresh");
    assert_eq!(run.code, 0, "{}", run.err);
    for part in [
        "picked by",
        "the rule, of 2",
        "nobody",
        "fresh wording",
        "won/lost",
        "4 validation problems",
        "sign test",
    ] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    assert!(run.out.contains("demask:dependency=paper"), "{}", run.out);
    assert!(Path::new(&test).join("compare.md").exists());
    // Another choice may not be judged on the same records.
    std::fs::create_dir_all(&other).unwrap();
    let text = String::from_utf8(std::fs::read(Path::new(&choice).join("chosen.json")).unwrap()).unwrap();
    std::fs::write(Path::new(&other).join("chosen.json"), text.replace("threshold=0.", "threshold=0.8"))
        .unwrap();
    let run = lab(&other, "arith,arith:fresh");
    assert_ne!(run.code, 0);
    assert!(run.err.contains("another choice"), "{}", run.err);
}
