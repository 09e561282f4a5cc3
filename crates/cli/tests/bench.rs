//! `demask bench` as a user runs it: every measurement prints a table, JSON and a picture, and its numbers fit together.

mod support;

use serde_json::Value;
use support::{Folder, demask, fixture};

#[test]
fn measurements_print_tables_json_and_pictures() {
    let folder = Folder::new();
    let out = folder.path("bench");
    let config = format!("{}/config.json", fixture());
    let small = ["--repeats", "1", "--config", &config];
    let cases: [&[&str]; 6] = [
        &["pretrain", "--lengths", "8,16"],
        &["forward", "--lengths", "16,32", "--dtype", "int8,q4"],
        &["step", "--rows", "4,8", "--length", "32"],
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

fn rows(args: &[&str]) -> Vec<Value> {
    let run = demask(&[&["bench"][..], args, &["--repeats", "1", "--json"][..]].concat());
    assert_eq!(run.code, 0, "{args:?}: {}", run.err);
    let object: Value = serde_json::from_str(&run.out).unwrap();
    object["rows"].as_array().unwrap().clone()
}

#[test]
fn precisions_take_turns_in_one_run() {
    let config = format!("{}/config.json", fixture());
    let found = rows(&["forward", "--config", &config, "--lengths", "8,16", "--dtype", "int8,q4,f32"]);
    let names: Vec<_> = found.iter().map(|row| (&row["L"], row["weights"].as_str().unwrap())).collect();
    let expected = [8, 16].map(|length| ["int8", "q4", "f32"].map(|name| (Value::from(length), name)));
    let expected: Vec<_> = expected.iter().flatten().map(|(length, name)| (length, *name)).collect();
    assert_eq!(names, expected);
    assert_eq!(found[0]["over"]["median"], 1.0, "the first is what others are compared with");
}

#[test]
fn the_parts_of_a_step_are_shares_of_it() {
    let config = format!("{}/config.json", fixture());
    for row in rows(&["step", "--config", &config, "--rows", "8", "--length", "24", "--dtype", "q4"]) {
        let share = |name: &str| row[name].as_f64().unwrap();
        let parts =
            ["norm", "qkv", "attention", "output", "mlp", "head", "marginals", "predictor", "selection"];
        assert!(parts.iter().all(|part| share(part) > 0.0), "{row}");
        let sum: f64 = parts.iter().map(|part| share(part)).sum::<f64>() + share("rest");
        assert!((sum - 1.0).abs() < 1e-9 && share("of limit") > 0.0, "{row}");
    }
    let wrong = demask(&["bench", "step", "--config", &config, "--rows", "9", "--length", "8"]);
    assert!(wrong.code == 2 && wrong.err.contains("--length"), "{}", wrong.err);
}

#[test]
fn scaling_says_what_is_outside_products() {
    let found = rows(&["scaling", "--embedded", "--dtype", "f32", "--lengths", "24", "--masked", "4"]);
    let axes: Vec<_> = found.iter().map(|row| row["axis"].as_str().unwrap()).collect();
    assert_eq!(axes.iter().filter(|axis| **axis == "batch").count(), 3);
    for row in &found {
        let share = |name: &str| row[name].as_f64().unwrap();
        let inside = share("products") + share("attention");
        assert!(share("products") > 0.0 && share("attention") > 0.0, "{row}");
        assert!((inside + share("outside both") - 1.0).abs() < 1e-9, "{row}");
        if row["axis"] == "threads" && row["value"] == 1 {
            assert_eq!(row["of ideal"], 1.0);
            assert!(inside < 1.0, "one thread cannot be in two products at a time: {row}");
        }
    }
}

/// A config of few layers whose vocabulary has room for the bytes.
fn with_bytes(folder: &Folder) -> String {
    let text = std::fs::read_to_string(format!("{}/config.json", fixture())).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    for (key, value) in
        [("vocab_size", 300), ("mask_token_id", 299), ("eos_token_id", 298), ("pad_token_id", 298)]
    {
        config[key] = value.into();
    }
    let path = folder.path("config.json");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

#[test]
fn whole_answers_are_compared() {
    let folder = Folder::new();
    let config = with_bytes(&folder);
    let (program, heard) = (folder.path("llama-diffusion-cli"), folder.path("heard"));
    // It says what llama.cpp's program says and remembers what it was asked.
    let script = format!(
        "#!/bin/sh\necho \"$@\" > {heard}\n\
         echo 'total time: 8000.00ms, time per step: 4000.00ms, sampling time per step: 500.00ms' >&2\n"
    );
    std::fs::write(&program, script).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).unwrap();
    let own = std::path::Path::new(&program).parent().unwrap().display().to_string();
    let args = ["--config", &config, "--llama-cpp", &own, "--prompt", "12", "-n", "8", "--steps", "2"];
    let more = ["--layers", "1,2", "--block-length", "4", "--tokens-per-pass", "2"];
    let found = rows(&[&["compare"][..], &args[..], &more[..]].concat());
    assert_eq!(found.len(), 2 * 4, "two depths of four engines");
    let asked = std::fs::read_to_string(&heard).unwrap();
    assert!(asked.contains("-p abcdefghijkl -ub 20 ") && asked.contains("--diffusion-steps 2"), "{asked}");
    let (theirs, plain, cached) = (&found[0], &found[1], &found[2]);
    assert_eq!(
        (&theirs["s a step"]["median"], &theirs["times the first"]["median"]),
        (&4.0.into(), &1.0.into())
    );
    assert_eq!(theirs["of it after the backbone"]["median"], 0.5);
    assert_eq!(plain["s a step"], plain["s a token"], "one token a step");
    assert!(plain["times the first"]["median"].as_f64().unwrap() > 0.0, "{plain}");
    assert!(
        cached["s of the process"]["median"].as_f64().unwrap() > 0.0
            && cached["peak GB"].as_f64().unwrap() > 0.0
    );
    // What was measured is kept, and not measured again.
    let log = folder.path("log");
    let kept = ["--layers", "1", "--block-length", "4", "--log", &log];
    let once = [&["compare"][..], &args[..], &kept[..]].concat();
    let first = rows(&once);
    std::fs::remove_file(&heard).unwrap();
    assert_eq!(first, rows(&once));
    assert!(!std::path::Path::new(&heard).exists(), "everything was known");
    let wrong = demask(&["bench", "compare", "--config", &config, "-n", "7", "--steps", "2"]);
    assert!(wrong.code == 2 && wrong.err.contains("must divide"), "{}", wrong.err);
}
