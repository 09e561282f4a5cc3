//! Which files of a repository are fetched for the sake of a dependency predictor, whose name nobody prescribes.
//!
//! Invariant: a predictor that would be found in a folder with all files of the repository is found in the snapshot.

use std::path::Path;

use super::failure::Failure;
use super::{INDEX, Progress, Snapshot, WEIGHTS};
use crate::checkpoint::store::shard_names;
use crate::error::{Error, Result};
use crate::load::names_predictor;

/// A dependency predictor's usual name, asked for where the endpoint does not list its files.
pub(super) const USUAL: &str = "predictor.safetensors";
/// What was found out about a predictor that lies among the weights.
const CALIBRATED: &str = "predictor.json";
/// Weights that are not named like a predictor's are fetched and looked into up to this size: the paper's predictor of a
/// width of 8192 in half precision has a quarter of it.
const LARGEST: usize = 1 << 30;

impl Snapshot<'_> {
    /// What a whole checkpoint brings along besides its weights.
    pub(super) fn fetch_beside(&self, progress: &mut dyn Progress) -> Result<()> {
        let mut files = self.named();
        files.extend(self.unnamed()?);
        files.extend(self.calibrations(&files));
        for file in files {
            self.optional(&file, progress)?;
        }
        Ok(())
    }

    /// The files that are named like a predictor's; where none is, everything that is no shard of a checkpoint; where
    /// there are only shards, these.
    pub(super) fn fetch_predictor(&self, progress: &mut dyn Progress) -> Result<()> {
        let mut files = self.named();
        if files.is_empty() {
            let (shards, whole): (Vec<&String>, Vec<&String>) =
                self.weights().partition(|file| is_shard(file));
            files = if whole.is_empty() { shards } else { whole }.into_iter().cloned().collect();
            self.optional(INDEX, progress)?;
        }
        if files.is_empty() {
            let problem = "this repository has no .safetensors file, so it holds no predictor".to_owned();
            return Err(Error::Hub { name: self.hub.name.to_string(), problem });
        }
        files.iter().try_for_each(|file| self.required(file, progress))?;
        for file in self.calibrations(&files) {
            self.optional(&file, progress)?;
        }
        Ok(())
    }

    fn weights(&self) -> impl Iterator<Item = &String> {
        self.listing.files.iter().flatten().filter(|file| file.ends_with(".safetensors"))
    }

    /// Weights that are named like a predictor's.
    fn named(&self) -> Vec<String> {
        match self.listing.files {
            Some(_) => self.weights().filter(|file| names_predictor(file)).cloned().collect(),
            None => vec![USUAL.to_owned()],
        }
    }

    /// Other weights beside the checkpoint's own that are small enough for one.
    fn unnamed(&self) -> Result<Vec<String>> {
        let own = shard_names(&self.folder().join(INDEX)).unwrap_or_default();
        let mut found = Vec::new();
        for file in self.weights() {
            let other = file != WEIGHTS && !own.contains(file) && !is_shard(file) && !names_predictor(file);
            // A folder is not searched for predictors in folders of its own.
            if other && !file.contains('/') && self.is_small(file)? {
                found.push(file.clone());
            }
        }
        Ok(found)
    }

    /// What may have been found out about predictors: a file beside each, and one for that among the weights.
    fn calibrations(&self, weights: &[String]) -> Vec<String> {
        let beside = |file: &String| Path::new(file).with_extension("json").to_string_lossy().into_owned();
        let mut files: Vec<String> = weights.iter().map(beside).chain([CALIBRATED.to_owned()]).collect();
        files.sort();
        files.dedup();
        files
    }

    fn is_small(&self, file: &str) -> Result<bool> {
        if self.folder().join(file).exists() {
            return Ok(true);
        }
        let url = self.hub.api.repo(self.hub.at(&self.listing.commit)).url(file);
        match self.hub.metadata(url) {
            Ok(about) => Ok(about.size() < LARGEST),
            Err(Failure::Status(404)) => Ok(false),
            Err(failure) => Err(self.hub.refuse(&failure)),
        }
    }
}

/// Whether a file is named like a part of weights, of this checkpoint or of a variant.
fn is_shard(file: &str) -> bool {
    file.contains("-of-")
}
