//! What a TV cache is made with. Everything here shapes the rows, so it is recorded with them.

use demask_model::HiddenRow;
use serde::{Deserialize, Serialize};

use super::format::Stored;
use super::states::States;
use crate::error::{Error, Result};

/// Which hidden rows are stored, so that training needs no backbone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HiddenRows {
    /// None: training runs the backbone again.
    None,
    /// The row of the masked token itself.
    I,
    /// The row before it.
    #[serde(rename = "i-1")]
    IMinusOne,
    /// Both, to compare the two conventions.
    #[default]
    Both,
}

impl HiddenRows {
    /// Whether these rows are stored.
    pub fn has(self, row: HiddenRow) -> bool {
        match row {
            HiddenRow::I => matches!(self, Self::I | Self::Both),
            HiddenRow::IMinusOne => matches!(self, Self::IMinusOne | Self::Both),
        }
    }
}

/// Settings of a TV cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TvCacheSettings {
    /// Seed of masks and draws.
    pub seed: u64,
    /// Independent masks per response (the paper: 5).
    pub masks_per_response: u32,
    /// Share of masks that get a second draw, from which the irreducible error is estimated.
    pub repeat_share: f64,
    /// Responses are filled up with EOS to one of these lengths, as the canvas is when decoding; none adds one EOS.
    pub pad_to: Vec<usize>,
    /// Longer prompt and response together are left out.
    pub max_tokens: usize,
    /// Longer responses are left out.
    pub max_response: usize,
    /// At most this many responses of the source; 0 takes all.
    pub limit: usize,
    /// Responses per parquet file; a killed run repeats at most one file.
    pub responses_per_file: usize,
    /// Hidden rows stored.
    pub hidden: HiddenRows,
    /// Number format of the hidden rows.
    pub hidden_dtype: Stored,
    /// Whether `KL(after ‖ before)` is stored beside the total variation, for a predictor of mutual information.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub divergence: bool,
    /// Where the masks come from.
    #[serde(skip_serializing_if = "States::is_random")]
    pub states: States,
    /// Stability labels, if they are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stability: Option<Labelling>,
}

/// How stability labels are made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Labelling {
    /// Positions above this are sure and revealed.
    pub gamma: f32,
    /// Nothing else is measured: a state costs two passes instead of one per mask.
    #[serde(default)]
    pub alone: bool,
}

impl Default for TvCacheSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            masks_per_response: 5,
            repeat_share: 0.05,
            pad_to: Vec::new(),
            max_tokens: 1024,
            max_response: 512,
            limit: 0,
            responses_per_file: 64,
            hidden: HiddenRows::default(),
            hidden_dtype: Stored::F16,
            divergence: false,
            states: States::Random,
            stability: None,
        }
    }
}

impl TvCacheSettings {
    /// For a few responses that are measured in memory: two masks each, both hidden rows in full precision.
    ///
    /// ```
    /// use demask_train::tv_cache::TvCacheSettings;
    /// let few = TvCacheSettings::few(24, 0);
    /// few.check()?;
    /// assert_eq!((few.masks_per_response, few.limit), (2, 24));
    /// # Ok::<(), demask_train::error::Error>(())
    /// ```
    pub fn few(limit: usize, seed: u64) -> Self {
        Self {
            seed,
            masks_per_response: 2,
            repeat_share: 0.0,
            limit,
            hidden: HiddenRows::Both,
            hidden_dtype: Stored::F32,
            ..Self::default()
        }
    }

    /// Whether dependencies are measured.
    pub fn measures_dependency(&self) -> bool {
        self.stability.is_none_or(|labels| !labels.alone)
    }

    /// Refuses values that make no cache.
    pub fn check(&self) -> Result<()> {
        let refuse = |name, value: String, allowed| Err(Error::Setting { name, value, allowed });
        if self.masks_per_response == 0 {
            return refuse("masks per response", "0".into(), "at least 1");
        }
        if !(0.0..=1.0).contains(&self.repeat_share) {
            return refuse("the share of repeated draws", self.repeat_share.to_string(), "between 0 and 1");
        }
        if let Some(Labelling { gamma, alone }) = self.stability {
            if !(0.0..1.0).contains(&gamma) {
                return refuse("what counts as sure", gamma.to_string(), "at least 0 and below 1");
            }
            if alone && (self.divergence || self.repeat_share > 0.0) {
                let value = "stability labels alone".into();
                return refuse(
                    "what is measured",
                    value,
                    "more, where divergences or second draws are wanted",
                );
            }
        }
        if self.responses_per_file == 0 {
            return refuse("responses per file", "0".into(), "at least 1");
        }
        if self.max_response < 2 {
            return refuse("the longest response", self.max_response.to_string(), "at least 2 tokens");
        }
        if let Some(length) = self.pad_to.iter().find(|&&length| length > self.max_response) {
            return refuse("a padded length", length.to_string(), "at most the longest response");
        }
        Ok(())
    }
}
