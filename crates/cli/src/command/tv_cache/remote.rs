//! A TV cache in a bucket: each missing file of the share is made on this machine's disk and committed by itself.

use std::ops::ControlFlow;

use anyhow::Result;
use demask::Shard;
use demask::train::tv_cache::{Generator, Observer, Outcome, TvCacheProgress, file_name};

use crate::host::{Host, Progress};
use crate::store::Store;

const MANIFEST: &str = "manifest.json";
const REFUSED: &str = "refused.jsonl";

/// Makes what is missing of the generator's share; the last to come writes the manifest.
pub(super) fn run(generator: &Generator<'_>, url: &str, host: &mut Host<'_>) -> Result<Outcome> {
    let (store, all_files, scratch) = (Store::open(url)?, generator.files()?, tempfile::tempdir()?);
    let names = store.names()?;
    if names.contains(MANIFEST) {
        store.fetch(MANIFEST, &scratch.path().join(MANIFEST))?;
        return Ok(Generator { folder: scratch.path(), ..*generator }.run(&mut ())?);
    }
    let (there, missing): (Vec<usize>, Vec<usize>) =
        (0..all_files).partition(|&file| names.contains(&file_name(file)));
    if let Some(&file) = there.first() {
        // A bucket of another run is refused before anything is made.
        store.fetch_end(&file_name(file), &scratch.path().join(file_name(file)))?;
        let shard = Shard { index: file, count: all_files };
        Generator { folder: scratch.path(), shard, ..*generator }.run(&mut ())?;
    }
    let mine: Vec<usize> = missing.into_iter().filter(|&file| generator.shard.has(file)).collect();
    for (done, &file) in mine.iter().enumerate() {
        let (folder, shard) = (tempfile::tempdir()?, Shard { index: file, count: all_files });
        let made = Generator { folder: folder.path(), shard, ..*generator }.run(&mut Files {
            host,
            done: done as u64,
            total: mine.len() as u64,
        })?;
        if made == Outcome::Stopped {
            return Ok(made);
        }
        let name = file_name(file);
        if !store.commit(&folder.path().join(&name), &name)? {
            host.note(&format!("{name} was already there when it was made; the first one stays"));
        }
    }
    finish(generator, &store, all_files)
}

/// Writes the manifest if no file is missing; of the files, only their footers are read.
fn finish(generator: &Generator<'_>, store: &Store, all_files: usize) -> Result<Outcome> {
    let (names, folder) = (store.names()?, tempfile::tempdir()?);
    let files = (0..all_files).filter(|&file| names.contains(&file_name(file))).count();
    if files < all_files {
        return Ok(Outcome::Waiting { files, all_files });
    }
    for file in (0..all_files).map(file_name) {
        store.fetch_end(&file, &folder.path().join(&file))?;
    }
    let outcome = Generator { folder: folder.path(), shard: Shard::WHOLE, ..*generator }.run(&mut ())?;
    for name in [REFUSED, MANIFEST] {
        store.replace(&folder.path().join(name), name)?;
    }
    Ok(outcome)
}

/// Tells the host how many files are made.
struct Files<'h, 'a> {
    host: &'h mut Host<'a>,
    done: u64,
    total: u64,
}

impl Observer for Files<'_, '_> {
    fn on_progress(&mut self, progress: &TvCacheProgress) -> ControlFlow<()> {
        let message = format!("{} of {} responses", progress.responses, progress.all_responses);
        self.host.show(&Progress { unit: "files", done: self.done, total: self.total, message })
    }
}
