//! Where a model's dependency predictor comes from: the one that was chosen, a file beside the weights, or tensors among
//! them; and what is said where there is none.
//!
//! Invariant: a predictor that is used fits the backbone; one that is there and not used is named.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use demask_decode::StrategySpec;
use demask_decode::dependency::{
    Candidates, Choice, Measure, Parts, PassedOver, Predictor, Stability, Understanding, file_names,
};
use demask_model::Backbone;

use crate::beside::measures;
use crate::decoding::Decoding;
use crate::error::{Error, Result};
use crate::model::Model;

/// The decoder without a predictor, of families that publish no loop of their own: a rule that needs no training and keeps
/// the accuracy of one-token decoding within a standard error at few passes (docs/predictors.md has the numbers).
const TRAINING_FREE: &str = "threshold:threshold=0.95";

/// A predictor and what was made of its file.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// None where the file holds a stability head alone.
    pub(crate) predictor: Option<Predictor>,
    pub(crate) stability: Option<Stability>,
    pub(crate) understanding: Understanding,
}

/// The outcome of looking for one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Search {
    pub(crate) found: Option<Found>,
    /// Predictors among which none was chosen.
    pub(crate) several: Vec<PathBuf>,
    /// Predictors that are there and not used.
    pub(crate) passed_over: Vec<PassedOver>,
}

impl Search {
    /// The predictor at a place that somebody named.
    pub(crate) fn chosen(path: &Path, backbone: &dyn Backbone) -> Result<Self> {
        Self::found(Parts::load(path)?, backbone)
    }

    /// This one, if it fits.
    pub(crate) fn found(
        (parts, understanding): (Parts, Understanding),
        backbone: &dyn Backbone,
    ) -> Result<Self> {
        let path = understanding.path.clone();
        let (fits, stability) = (parts.check_fit(backbone), parts.stability.clone());
        let predictor = if parts.heads.is_empty() { None } else { Some(Predictor::new(parts)?) };
        let measured = |()| predictor.as_ref().map_or(Ok(()), |p| measures(p, Measure::TotalVariation));
        fits.and_then(measured).map_err(|cause| Error::Predictor { path, problem: cause.to_string() })?;
        Ok(Self { found: Some(Found { predictor, stability, understanding }), ..Self::default() })
    }

    /// Of a checkpoint folder: a file of any name, else what lies among the weights.
    pub(crate) fn in_folder(
        chosen: Option<PathBuf>,
        folder: &Path,
        inside: Option<(Parts, Understanding, Vec<String>)>,
        backbone: &dyn Backbone,
    ) -> Result<Self> {
        if let Some(path) = chosen {
            return Self::chosen(&path, backbone);
        }
        let (choice, passed_over) = Candidates::of(folder).choose(inside.is_some());
        let search = match (choice, inside) {
            (Choice::File(file), _) => Self::chosen(&file, backbone)?,
            (Choice::Several(several), _) => Self { several, ..Self::default() },
            (_, Some((parts, understanding, _))) => Self::found((parts, understanding), backbone)?,
            (_, None) => Self::default(),
        };
        Ok(Self { passed_over, ..search })
    }

    /// Of a single file, whose folder may hold the predictors of other models too: one that fits.
    pub(crate) fn beside_file(chosen: Option<PathBuf>, file: &Path, backbone: &dyn Backbone) -> Result<Self> {
        if let Some(path) = chosen {
            return Self::chosen(&path, backbone);
        }
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let Candidates { files, mut passed_over } = Candidates::of(folder);
        let mut fitting = Vec::new();
        for path in files {
            match Self::chosen(&path, backbone) {
                Ok(_) => fitting.push(path),
                Err(why) => passed_over.push(PassedOver::file(&path, why)),
            }
        }
        let (choice, passed_over) = Candidates { files: fitting, passed_over }.choose(false);
        let search = match choice {
            Choice::File(file) => Self::chosen(&file, backbone)?,
            Choice::Several(several) => Self { several, ..Self::default() },
            Choice::Inside | Choice::Nothing => Self::default(),
        };
        Ok(Self { passed_over, ..search })
    }
}

impl Model {
    pub(crate) fn with_search(mut self, search: Search) -> Self {
        self.several = search.several;
        self.passed_over = search.passed_over;
        if let Some(Found { predictor, stability, understanding }) = search.found {
            self.context.predictor = predictor.map(Arc::new);
            self.context.stability = stability.map(Arc::new);
            self.understanding = Some(Arc::new(understanding));
        }
        self
    }

    /// What was made of the predictor's file.
    pub fn understanding(&self) -> Option<&Understanding> {
        self.understanding.as_deref()
    }

    /// The predictors that lie where one was looked for and are not used, with why, for a sentence; `None` where there is
    /// no such.
    pub fn passed_over(&self) -> Option<String> {
        PassedOver::list(&self.passed_over)
    }

    /// What the predictor's file holds, read again: for whoever trains a head beside those that are there.
    pub fn predictor_parts(&self) -> Result<Option<Parts>> {
        let Some(understanding) = &self.understanding else { return Ok(None) };
        #[cfg(feature = "embedded")]
        if crate::embedded::is_own(&understanding.path) {
            return Ok(Some(crate::embedded::predictor()?.0));
        }
        Ok(Some(Parts::load(&understanding.path)?.0))
    }

    /// The decoder where neither caller nor checkpoint chooses: the paper's where the predictor it needs is at hand, else
    /// the family's published loop, else the best rule that needs no training.
    pub(crate) fn general_strategy(&self) -> StrategySpec {
        let name = match self.backbone().spec().architecture {
            _ if self.context().predictor.is_some() => "demask",
            "llada2" => "llada2",
            "sdar" | "sdar-moe" => "sdar",
            _ => TRAINING_FREE,
        };
        name.parse().unwrap_or_else(|_| unreachable!("a known name"))
    }

    /// What a user should know where DEMASK would have run and does not: why, and which decoder does. `None` where there
    /// is a predictor, or the decoder was chosen.
    pub fn without_predictor(&self, decoding: &Decoding) -> Option<String> {
        let chosen = decoding.strategy.is_some() || self.defaults().strategy.is_some();
        if chosen || self.predictor().is_some() {
            return None;
        }
        let why = match &self.several[..] {
            [] => "no dependency predictor".to_owned(),
            several => format!("several dependency predictors ({}) and none chosen", file_names(several)),
        };
        Some(format!("{why}: {} decodes instead of DEMASK", self.general_strategy()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use demask_model::checkpoint::{Mapped, write};
    use demask_model::{LoadOptions, Transformer};

    use super::*;

    /// The folder of a GGUF file may hold the predictors of other models.
    #[test]
    fn beside_a_single_file_one_that_does_not_fit_is_named() {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy");
        let backbone = Transformer::load(&fixture, &LoadOptions::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let search = || Search::beside_file(None, &folder.path().join("toy.gguf"), &backbone).unwrap();
        let narrow = |name: &str| (name.to_owned(), Mapped::from_f32(&[8, 8], vec![0.5; 64]));
        for name in ["of-another.safetensors", "predictor.safetensors"] {
            write::file(&folder.path().join(name), &[narrow("w_q"), narrow("w_k")], &Default::default())
                .unwrap();
        }
        let own = |name: &str| {
            let plain = fixture.join("predictor_row_i_minus_1.safetensors");
            fs::copy(plain, folder.path().join(name)).unwrap();
        };
        let found = search();
        assert!(found.found.is_none() && found.several.is_empty());
        let told = PassedOver::list(&found.passed_over).unwrap();
        assert!(told.contains("of-another.safetensors (") && told.contains("width 8 but"), "{told}");
        assert!(told.contains("predictor.safetensors ("), "{told}");
        own("own.safetensors");
        let found = search();
        assert!(found.found.unwrap().understanding.path.ends_with("own.safetensors"));
        assert_eq!(found.passed_over.len(), 2);
        own("more.safetensors");
        let found = search();
        assert_eq!((found.several.len(), found.passed_over.len()), (2, 2), "of two that fit none");
        own("predictor.safetensors");
        let found = search();
        assert!(found.found.unwrap().understanding.path.ends_with("predictor.safetensors"));
        assert_eq!(found.passed_over.len(), 3, "{:?}", found.passed_over);
    }
}
