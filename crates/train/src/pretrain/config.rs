//! A pre-training run as a TOML file.
//!
//! Invariant: a `Config` that exists has passed `Config::check`; two runs of one `Config` give the same weights.

use std::collections::BTreeMap;
use std::path::Path;

use demask_model::checkpoint::Dtype;
use serde::{Deserialize, Serialize};

use super::muon::Muon;
use crate::error::{Error, Result};
use crate::optimizer::AdamW;
use crate::schedule::Schedule;

/// Everything that decides the weights of a run, and how often it reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Seed of the initial weights, the data and the masks.
    pub seed: u64,
    /// What the factors of products are rounded to; weights, sums and everything else are f32.
    #[serde(default)]
    pub precision: Precision,
    /// Shape of the backbone.
    pub model: Model,
    /// The stream of examples.
    pub data: Data,
    /// The optimizer.
    #[serde(default)]
    pub optimizer: AdamW,
    /// Muon for the matrices of the blocks; AdamW for all if absent.
    #[serde(default)]
    pub muon: Option<Muon>,
    /// What is trained, in order; each stage has its own schedule.
    pub stage: Vec<Stage>,
    /// Saving and reporting; does not change the weights.
    #[serde(default)]
    pub report: Report,
}

/// Number format of a product's factors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Single precision.
    #[default]
    F32,
    /// Brain floating point on CPUs that multiply it at twice the rate (AVX-512-BF16), else f32: the weights then depend
    /// on the machine, though not on its threads.
    Bf16,
}

/// Shape of the backbone; vocabulary and special ids come from the tokenizer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Inner width of the MLP.
    pub ffn: usize,
    /// The head shares the embedding matrix.
    #[serde(default)]
    pub tied: bool,
    /// Base of the rotary embedding.
    #[serde(default = "rope_theta")]
    pub rope_theta: f64,
    /// Longest canvas.
    #[serde(default = "max_positions")]
    pub max_positions: usize,
}

/// The stream of examples and the canvases made of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Weight of each part of the stream, by the names its maker knows.
    pub mixture: BTreeMap<String, f64>,
    /// Response lengths that canvases are padded to with EOS, ascending.
    pub lengths: Vec<usize>,
    /// Chance that a canvas gets the shortest length that fits; else the next one is tried with the same chance.
    #[serde(default = "tight")]
    pub tight: f64,
    /// Tokens of one batch: examples are added until it is reached.
    pub batch_tokens: usize,
}

/// What a stage trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// Causal attention, next-token loss on the response and its end.
    Autoregressive,
    /// Bidirectional attention, eq. 1 of the paper: masked response positions, weight 1/t.
    Diffusion,
    /// Bidirectional attention, half of the response masked and then the other half: right, and sure of what is right.
    Certainty,
}

impl Objective {
    /// How it is spelled.
    pub fn name(self) -> &'static str {
        match self {
            Self::Autoregressive => "autoregressive",
            Self::Diffusion => "diffusion",
            Self::Certainty => "certainty",
        }
    }

    /// The objective of a name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Autoregressive, Self::Diffusion, Self::Certainty].into_iter().find(|o| o.name() == name)
    }
}

/// One stage of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// What it trains.
    pub objective: Objective,
    /// Number of updates.
    pub steps: u64,
    /// Weights of the parts of the stream in this stage, in the place of [`Data::mixture`] where there are any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mixture: BTreeMap<String, f64>,
    /// Weight of a prompt's token beside one of the response in causal canvases: what the prompts say is
    /// learned too, at hardly any cost. Diffusion masks responses only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prompt: f32,
    /// Share of a diffusion stage's canvases of which a prefix is known and little of the rest, as in decoding.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ordered: f32,
    /// Share of a diffusion stage's canvases that are trained on the next token under causal attention.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub causal: f32,
    /// The same with prompts that see themselves both ways, as in diffusion: what is looked up in a prompt is learned in every
    /// row of the response.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prefix: f32,
    /// Share of the examples in which words that stand both in the prompt and in the response are cut at random places, alike
    /// in both: a model that has seen a word only as one token cannot copy one that comes in pieces.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: f32,
    /// Weight of the entropy beside the cross-entropy in a certainty stage.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub entropy: f32,
    /// Certainty within one block of this length, what follows it masked and not trained; 0 is the whole response.
    #[serde(default, skip_serializing_if = "is_none")]
    pub block: usize,
    /// Learning rate.
    pub rate: Schedule,
}

/// Saving and reporting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Report {
    /// Steps between two lines of the curve.
    pub log_steps: u64,
    /// Seconds between two saved states.
    pub save_seconds: u64,
    /// Steps between two validations; 0 validates at the end only.
    pub validate_steps: u64,
    /// Problems of each part in a validation.
    pub validate_problems: usize,
    /// Decoding strategy of validations, as on the command line; the caller knows what it means.
    pub validate_with: String,
    /// Number format of the exported weights.
    pub dtype: Stored,
}

/// Number format of exported weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stored {
    /// Single precision, as trained.
    F32,
    /// Half precision.
    F16,
    /// Brain floating point.
    Bf16,
}

impl Stored {
    /// The checkpoint's number format.
    pub fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::Bf16,
        }
    }
}

impl Default for Report {
    fn default() -> Self {
        Self {
            log_steps: 20,
            save_seconds: 120,
            validate_steps: 1000,
            validate_problems: 64,
            // Every token of at least this probability at once: near one-token accuracy in a third of the passes.
            validate_with: "klass:conf=0.9,kl=1000,history=1".into(),
            dtype: Stored::F32,
        }
    }
}

impl Config {
    /// Reads and checks a TOML file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(Error::read(path))?;
        Self::parse(&text).map_err(|problem| Error::Config { path: path.to_owned(), problem })
    }

    /// Parses and checks the text of a file; the error is a sentence without the file's name.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|cause| cause.to_string().trim_end().to_owned())?;
        match config.problem() {
            Some(problem) => Err(problem),
            None => Ok(config),
        }
    }

    /// Updates of all stages together.
    pub fn steps(&self) -> u64 {
        self.stage.iter().map(|stage| stage.steps).sum()
    }

    /// Weights of the parts of the stream in a stage.
    pub fn mixture<'a>(&'a self, stage: &'a Stage) -> &'a BTreeMap<String, f64> {
        if stage.mixture.is_empty() { &self.data.mixture } else { &stage.mixture }
    }

    /// The stage of step `step`, and the step within it.
    pub fn stage_at(&self, step: u64) -> Option<(&Stage, u64)> {
        let mut left = step;
        for stage in &self.stage {
            if left < stage.steps {
                return Some((stage, left));
            }
            left -= stage.steps;
        }
        None
    }

    /// What decides the weights after `step` updates, as text: a state saved there belongs to every run with the same.
    /// Reporting is no part of it, nor are stages that begin later.
    pub fn identity(&self, step: u64) -> String {
        let mut start = 0;
        let begun = self.stage.iter().take_while(|stage| {
            let begun = start < step;
            start += stage.steps;
            begun
        });
        let begun: Vec<&Stage> = begun.collect();
        let muon = self.muon.map(|muon| format!("{muon:?}")).unwrap_or_default();
        // Not in the list where it is the default: states of earlier versions remain readable.
        let precision = if self.precision == Precision::F32 { "" } else { " bf16" };
        serde_json::json!([self.seed, self.model, self.data, self.optimizer, begun]).to_string()
            + &muon
            + precision
    }

    fn problem(&self) -> Option<String> {
        let Model { hidden, layers, heads, kv_heads, ffn, .. } = self.model;
        let sizes =
            [("hidden", hidden), ("layers", layers), ("heads", heads), ("kv_heads", kv_heads), ("ffn", ffn)];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| !(1..1 << 16).contains(size)) {
            return Some(format!("model.{name} must be between 1 and 65535"));
        }
        if !hidden.is_multiple_of(heads) || !(hidden / heads).is_multiple_of(2) {
            return Some(format!(
                "model.hidden {hidden} must be model.heads {heads} times an even head width"
            ));
        }
        if !heads.is_multiple_of(kv_heads) {
            return Some(format!("model.kv_heads {kv_heads} must divide model.heads {heads}"));
        }
        let optimizer = self.optimizer.problem().map(|problem| format!("optimizer.{problem}"));
        let muon = self.muon.and_then(|muon| muon.problem()).map(|problem| format!("muon.{problem}"));
        self.data.problem(self.model.max_positions).or(optimizer).or(muon).or_else(|| self.stages_problem())
    }

    fn stages_problem(&self) -> Option<String> {
        if self.steps() == 0 {
            return Some("there is no [[stage]] with steps".into());
        }
        let mut problems = self.stage.iter().enumerate().filter_map(|(i, s)| Some((i, s.problem()?)));
        problems.next().map(|(index, problem)| format!("stage {}: {problem}", index + 1))
    }
}

impl Stage {
    fn problem(&self) -> Option<String> {
        if !self.mixture.is_empty() && !weighs(&self.mixture) {
            return Some("mixture needs weights that are not negative and not all zero".into());
        }
        if !(0.0..=1.0).contains(&self.prompt) {
            return Some(format!("prompt is {}, must be between 0 and 1", self.prompt));
        }
        if self.prompt > 0.0 && self.objective != Objective::Autoregressive && self.causal == 0.0 {
            return Some("prompt is for causal canvases: diffusion masks responses only".into());
        }
        let shares = [
            ("ordered", self.ordered),
            ("causal", self.causal),
            ("prefix", self.prefix),
            ("ordered + causal + prefix", self.ordered + self.causal + self.prefix),
        ];
        if let Some((name, share)) = shares.iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            return Some(format!("{name} is {share}, must be between 0 and 1"));
        }
        if !(0.0..=1.0).contains(&self.cut) {
            return Some(format!("cut is {}, must be between 0 and 1", self.cut));
        }
        if self.ordered + self.causal + self.prefix > 0.0 && self.objective != Objective::Diffusion {
            return Some("ordered, causal and prefix are shares of a diffusion stage".into());
        }
        if !(0.0..=100.0).contains(&self.entropy) {
            return Some(format!("entropy is {}, must be between 0 and 100", self.entropy));
        }
        if (self.entropy > 0.0 || self.block > 0) && self.objective != Objective::Certainty {
            return Some("entropy and block are for certainty stages".into());
        }
        self.rate.problem().map(|problem| format!("rate.{problem}"))
    }
}

impl Data {
    fn problem(&self, max_positions: usize) -> Option<String> {
        if !weighs(&self.mixture) {
            return Some("data.mixture needs weights that are not negative and not all zero".into());
        }
        let ascending = self.lengths.windows(2).all(|pair| pair[0] < pair[1]);
        if self.lengths.first().is_none_or(|&first| first == 0) || !ascending {
            return Some(format!("data.lengths {:?} must be ascending and positive", self.lengths));
        }
        if self.lengths.last().is_some_and(|&last| last >= max_positions) {
            return Some(format!(
                "data.lengths must leave room for a prompt below model.max_positions {max_positions}"
            ));
        }
        if !(self.tight > 0.0 && self.tight <= 1.0) {
            return Some(format!("data.tight is {}, must be above 0 and at most 1", self.tight));
        }
        (self.batch_tokens == 0).then(|| "data.batch_tokens must be positive".into())
    }
}

fn weighs(mixture: &BTreeMap<String, f64>) -> bool {
    mixture.values().all(|weight| *weight >= 0.0 && weight.is_finite()) && mixture.values().sum::<f64>() > 0.0
}

fn is_zero(value: &f32) -> bool {
    *value == 0.0
}

fn is_none(value: &usize) -> bool {
    *value == 0
}

fn rope_theta() -> f64 {
    10_000.0
}

fn max_positions() -> usize {
    512
}

fn tight() -> f64 {
    0.7
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const SMALL: &str = r#"
        seed = 3
        [model]
        hidden = 16
        layers = 2
        heads = 2
        kv_heads = 1
        ffn = 24
        [data]
        mixture = { sums = 1.0 }
        lengths = [8, 12]
        batch_tokens = 160
        [[stage]]
        objective = "autoregressive"
        steps = 20
        rate = { peak = 1e-2, warmup = 5 }
        [[stage]]
        objective = "diffusion"
        steps = 40
        rate = { peak = 1e-2, warmup = 5 }
    "#;

    #[test]
    fn stages_follow_one_another() {
        let config = Config::parse(SMALL).unwrap();
        assert_eq!(config.steps(), 60);
        let at = |step| config.stage_at(step).map(|(stage, local)| (stage.objective, local));
        assert_eq!(at(0), Some((Objective::Autoregressive, 0)));
        assert_eq!(at(20), Some((Objective::Diffusion, 0)));
        assert_eq!(at(59), Some((Objective::Diffusion, 39)));
        assert_eq!(at(60), None);
    }

    #[test]
    fn reporting_and_later_stages_may_change_on_resume() {
        let same = |text: &str, step| {
            Config::parse(SMALL).unwrap().identity(step) == Config::parse(text).unwrap().identity(step)
        };
        assert!(same(&format!("{SMALL}\n[report]\nlog_steps = 1"), 60));
        assert!(!same(&SMALL.replace("seed = 3", "seed = 4"), 1));
        let longer = SMALL.replace("steps = 40", "steps = 50");
        assert!(same(&longer, 20) && !same(&longer, 21));
        assert!(!same(&SMALL.replace("steps = 20", "steps = 30"), 20));
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("hidden = 16", "hidden = 15", "model.hidden"),
            ("kv_heads = 1", "kv_heads = 3", "model.kv_heads"),
            (
                "objective = \"diffusion\"",
                "objective = \"diffusion\"\nordered = 0.7\ncausal = 0.7",
                "ordered + causal",
            ),
            (
                "objective = \"autoregressive\"",
                "objective = \"autoregressive\"\nordered = 0.5",
                "diffusion stage",
            ),
            ("objective = \"diffusion\"", "objective = \"diffusion\"\nmixture = { sums = 0.0 }", "mixture"),
            ("layers = 2", "layers = 0", "model.layers"),
            ("[8, 12]", "[12, 8]", "data.lengths"),
            ("sums = 1.0", "sums = -1.0", "data.mixture"),
            ("steps = 20", "step = 20", "step"),
            ("\"diffusion\"", "\"masked\"", "masked"),
            ("peak = 1e-2", "peak = 0", "stage 1: rate.peak"),
            ("steps = 40", "steps = 40\n        prompt = 0.5", "stage 2: prompt"),
            ("steps = 20", "steps = 20\n        prompt = 2.0", "stage 1: prompt"),
            ("batch_tokens = 160", "batch_tokens = 160\ntight = 0.0", "data.tight"),
            ("[data]", "[muon]\nmomentum = 1.0\n[data]", "muon.momentum"),
        ];
        for (from, to, named) in cases {
            let problem = Config::parse(&SMALL.replace(from, to)).unwrap_err();
            assert!(problem.contains(named), "{to}: {problem}");
        }
    }
}
