//! Packs the words of the tasks (`src/task/**/*.txt`) into one compressed file: as plain text they would be a fifteenth of the
//! program.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;

fn main() -> io::Result<()> {
    let given = |name: &str| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let root = given("CARGO_MANIFEST_DIR").join("src/task");
    println!("cargo:rerun-if-changed=src/task");
    let mut files = Vec::new();
    find(&root, &mut files)?;
    files.sort();
    let mut packed =
        DeflateEncoder::new(File::create(given("OUT_DIR").join("wordings.deflate"))?, Compression::best());
    // A file is its name, its length and its bytes; names have no line breaks.
    for path in files {
        let bytes = fs::read(&path)?;
        let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        writeln!(packed, "{name} {}", bytes.len())?;
        packed.write_all(&bytes)?;
    }
    packed.finish()?;
    Ok(())
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            files.push(path);
        }
    }
    Ok(())
}
