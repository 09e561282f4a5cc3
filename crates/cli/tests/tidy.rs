//! The house rules a program can check: module docs, file sizes, direction of the crates, a map
//! that matches the tree, layers that leave numbers on the device, no path of anybody's machine.

use std::fs;
use std::path::{Path, PathBuf};

const CRATES: &[(&str, &[&str])] = &[
    ("kernels", &[]),
    ("model", &["kernels"]),
    ("decode", &["kernels", "model"]),
    ("tiny", &[]),
    ("engine", &["kernels", "model", "decode", "tiny"]),
    ("plot", &["kernels", "model"]),
    ("train", &["kernels", "model", "decode", "engine", "plot"]),
    ("eval", &["kernels", "model", "decode", "engine", "plot"]),
    ("serve", &["kernels", "model", "decode", "engine"]),
    ("demask", &["kernels", "model", "decode", "engine", "plot", "train", "eval", "serve"]),
    ("cli", &["demask"]),
    ("python", &["demask", "cli"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|e| e == "rs") {
            found.push(entry);
        }
    }
}

fn all_sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    sources(&root().join("crates"), &mut found);
    assert!(found.len() > 50);
    found.into_iter().map(|p| (p.clone(), fs::read_to_string(p).unwrap())).collect()
}

#[test]
fn every_module_says_what_it_is() {
    for (path, text) in all_sources() {
        assert!(text.starts_with("//!"), "{} does not open with //!", path.display());
    }
}

#[test]
fn no_file_is_over_800_lines() {
    for (path, text) in all_sources() {
        assert!(text.lines().count() <= 800, "{} has {} lines", path.display(), text.lines().count());
    }
}

#[test]
fn crates_point_one_way() {
    for (name, allowed) in CRATES {
        let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
        let normal = manifest.split("[dev-dependencies]").next().unwrap();
        for (other, _) in CRATES {
            let package = if *other == "demask" { "demask".to_owned() } else { format!("demask-{other}") };
            let depends = |line: &str| {
                line.strip_prefix(&package).is_some_and(|rest| rest.starts_with([' ', '.', '=']))
            };
            let uses = normal.lines().any(depends) && other != name;
            assert!(!uses || allowed.contains(other), "{name} must not import {other}");
        }
    }
}

#[test]
fn unsafe_stays_in_its_rooms() {
    for (path, text) in all_sources() {
        let room = path.display().to_string();
        let allowed = room.contains("crates/kernels/")
            || room.ends_with("checkpoint/map.rs")
            || room.contains("/tests/");
        let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
        assert!(allowed || !code.clone().any(|l| l.contains("unsafe {")), "{room} has unsafe code");
    }
}

/// Where numbers of a tensor may be read on the host: file, how, how often, and why that is not a layer reading back what a
/// device computed.
const ON_THE_HOST: &[(&str, &str, usize, &str)] = &[
    ("model/src/layer/cpu.rs", "storage_and_layout", 1, "the CPU's own tensors, for the kernels"),
    ("model/src/layer/attention.rs", "cpu::with", 6, "kernels: keys that lie apart, gradients"),
    ("model/src/layer/linear.rs", "cpu::with", 5, "kernels: bytes, importance, gradients"),
    ("model/src/layer/linear.rs", "to_vec1", 1, "an expert over the kernels whose weights are trained"),
    ("model/src/layer/mlp.rs", "cpu::with", 4, "kernels: bytes, gradients"),
    ("model/src/layer/norm.rs", "cpu::with", 3, "kernels: gradients"),
    ("model/src/layer/experts.rs", "cpu::with", 1, "kernels: rows grouped by expert"),
    (
        "model/src/layer/experts.rs",
        "to_vec1",
        2,
        "the router's scores, which the host sorts, and its bias at loading",
    ),
    ("model/src/layer/head.rs", "to_vec1", 1, "the bias at loading"),
    ("model/src/transformer.rs", "to_vec1", 1, "hidden rows of the CPU's kernels"),
    ("model/src/transformer/session.rs", "cpu::with", 4, "keys and values of the CPU's kernels"),
    ("model/src/transformer/session.rs", "to_device(&", 1, "keys and values of the CPU's kernels"),
    ("model/src/transformer/device.rs", "to_vec1", 1, "the door that counts"),
    ("decode/src/dependency/oracle/on_device.rs", "to_vec1", 1, "base logits for enumeration and tests"),
];

/// Every number that reaches the host goes through the door that counts; a layer that reads one back is found here.
#[test]
fn layers_read_nothing_back() {
    let crates = root().join("crates");
    let rooms = ["model/src/layer", "model/src/transformer", "model/src/transformer.rs", "decode/src"];
    let (mut files, mut found) = (0, 0);
    for (path, text) in all_sources() {
        let file = path.strip_prefix(&crates).unwrap();
        if !rooms.iter().any(|room| file.starts_with(room)) {
            continue;
        }
        files += 1;
        let code = text.split("#[cfg(test)]").next().unwrap();
        for word in [
            "to_vec0",
            "to_vec1",
            "to_vec2",
            "to_vec3",
            "to_scalar",
            "cpu::with",
            "to_device(&",
            "storage_and_layout",
        ] {
            let known = ON_THE_HOST.iter().find(|known| Path::new(known.0) == file && known.1 == word);
            let (times, allowed) = (code.matches(word).count(), known.map_or(0, |known| known.2));
            assert_eq!(times, allowed, "{} reads numbers back: {word}", file.display());
            found += usize::from(times > 0);
        }
    }
    assert!(files > 100 && found == ON_THE_HOST.len(), "{files} files, {found} of the list");
}

/// Flags are the command line's business: what a library says names none.
#[test]
fn libraries_name_no_flag() {
    let flag = |line: &str| {
        line.match_indices("--").any(|(at, _)| {
            let (before, after) = (line[..at].chars().next_back(), line[at + 2..].chars().next());
            before.is_some_and(|c| " \"`(|".contains(c)) && after.is_some_and(|c| c.is_ascii_lowercase())
        })
    };
    for (path, text) in all_sources() {
        let room = path.display().to_string();
        let library =
            room.contains("/src/") && !room.contains("crates/cli/") && !room.contains("crates/python/");
        // A program's own build instructions may stand in a doc comment; what it says may not hold flags.
        let said = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in said.take_while(|line| line.trim() != "#[cfg(test)]") {
            assert!(!library || !flag(line), "{room} names a flag: {}", line.trim());
        }
    }
}

/// Every folder the map of ARCHITECTURE.md names exists, and each crate's modules are named in its own part of the map.
#[test]
fn the_map_matches_the_tree() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let map = text.split("```map").nth(1).expect("a map block").split("```").next().unwrap();
    for (name, _) in CRATES {
        let source = root().join("crates").join(name).join("src");
        let part = part_of(map, &format!("crates/{name}/src"));
        for entry in fs::read_dir(&source).unwrap().map(|e| e.unwrap().path()) {
            let stem = entry.file_stem().unwrap().to_str().unwrap();
            let named = part.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == stem);
            assert!(
                named || ["lib", "main"].contains(&stem),
                "ARCHITECTURE.md's map does not name {name}/src/{stem} among the modules of {name}"
            );
        }
    }
    for path in map.split_whitespace().filter(|w| w.starts_with("crates/") || w.starts_with("tests/")) {
        assert!(root().join(path).exists(), "ARCHITECTURE.md names {path}, which is not there");
    }
}

/// The lines of the map from a folder's name to the next folder.
fn part_of(map: &str, folder: &str) -> String {
    let mut lines = map.lines().skip_while(|line| line.split_whitespace().next() != Some(folder));
    let first = lines.next().unwrap_or_default().to_owned();
    first + &lines.take_while(|line| line.starts_with(' ')).collect::<Vec<_>>().join("\n")
}

#[test]
fn no_machine_paths() {
    let mut texts = all_sources();
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", ".ci/run", "Cargo.toml"] {
        texts.push((root().join(name), fs::read_to_string(root().join(name)).unwrap()));
    }
    let forbidden = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    for (path, text) in texts {
        for bad in forbidden {
            assert!(!text.contains(bad), "{} names {bad}", path.display());
        }
    }
}
