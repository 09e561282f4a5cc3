//! A predictor's file: safetensors with metadata that says how to read it.
//!
//! Our own layout, version 1: `w_q` and `w_k`, or `w` when merged (with several heads
//! `head.N.w_q` …), `projection.first` and `projection.second`, `mix`; every matrix `[in, out]`.
//! Metadata: `demask_predictor`, `d`, `layout`, `hidden_row` (`i` or `i-1`), `final_norm` (`after` or
//! `before`), `merged`, `heads`, `mix`, `activation`, `scale`, `trained_on`, `validation_mse`,
//! `backbone`, `features` (what is read after the hidden row), `measure` (`tv` or `kl`), and of what all trained parts say
//! `demask_part`, `validation_loss` (the same as `validation_mse`) and `baseline_loss` (that of the best constant). The
//! stability head lies in the same file, see [`stability_file`]; a file may hold either head or both.
//!
//! Files of other programs are read by their names and shapes, and [`Understanding`] says what was
//! made of them. Invariant: nothing is guessed silently; what cannot be told is refused.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use demask_model::checkpoint::{Dtype, Mapped, Store, write};
use demask_model::{Backbone, Rows, names_predictor};

use crate::dependency::Measure;
use crate::dependency::beside::{Calibrated, Candidates, Choice, PassedOver, file_names};
use crate::dependency::feature::Feature;
use crate::dependency::parts::{Activation, FinalNorm, Head, Metadata, Mix, Parts};
use crate::dependency::predictor::Predictor;
use crate::dependency::reading::{ROW_ASSUMED, Reading};
use crate::dependency::stability::StabilityAbout;
use crate::dependency::stability_file;
use crate::error::{Error, Result};

/// The predictor of a checkpoint folder.
pub const FILE_NAME: &str = "predictor.safetensors";

/// Order of a matrix's dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A row per input: `q = h·W`.
    InOut,
    /// A row per output, as PyTorch's `Linear` stores it: `q = h·Wᵀ`.
    OutIn,
}

/// What a loader made of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Understanding {
    /// The file.
    pub path: PathBuf,
    /// Width of the hidden rows it reads.
    pub width: usize,
    /// Number of heads.
    pub heads: usize,
    /// `W` instead of `W_Q` and `W_K`.
    pub merged: bool,
    /// How its matrices are stored.
    pub layout: Layout,
    /// Number formats of its matrices.
    pub dtypes: Vec<Dtype>,
    /// Inner width and activation of the projection, if there is one.
    pub projection: Option<(usize, Activation)>,
    /// What it says of itself.
    pub metadata: Metadata,
    /// Width between the layers of the stability head and what is known of it, if there is one.
    pub stability: Option<(usize, StabilityAbout)>,
    /// What the file does not say and was taken for granted.
    pub assumed: Vec<String>,
    /// Tensors that are not part of the predictor.
    pub ignored: usize,
    /// The file beside it that says what it does not say itself; see [`Calibrated`].
    pub beside: Option<PathBuf>,
}

impl Understanding {
    /// Whether the file itself says which hidden row stands for a position, so that it is neither assumed nor read from
    /// beside it.
    pub fn says_hidden_row(&self) -> bool {
        self.beside.is_none() && !self.assumed.iter().any(|what| what == ROW_ASSUMED)
    }

    /// What was made of it, without where it is: the same on every machine, for records.
    pub fn summary(&self) -> String {
        Summary(self).to_string()
    }
}

impl Predictor {
    /// Reads a predictor's file, or the predictor in a checkpoint folder.
    pub fn load(path: &Path) -> Result<(Self, Understanding)> {
        let (parts, understanding) = Parts::load(path)?;
        Ok((Self::new(parts)?, understanding))
    }

    /// Refuses a backbone this predictor was not made for.
    pub fn check_fit(&self, backbone: &dyn Backbone) -> Result<()> {
        check_fit(self.width(), self.metadata(), backbone)
    }
}

fn check_fit(width: usize, about: &Metadata, backbone: &dyn Backbone) -> Result<()> {
    let spec = backbone.spec();
    let refuse = |why: String| Err(Error::Predictor(why));
    if width != spec.hidden {
        return refuse(format!(
            "the predictor reads hidden rows of width {width} but the backbone's are {} wide; it belongs to another \
             model",
            spec.hidden
        ));
    }
    if about.final_norm == FinalNorm::Before {
        return refuse(
            "the predictor was trained on hidden rows before the final norm, but a backbone gives them after it; \
             train one on those"
                .into(),
        );
    }
    match &about.backbone {
        Some(trained) if !backbone.answers_to(trained) => refuse(format!(
            "the predictor was trained on backbone {trained} but this one is {}; train one for it",
            backbone.fingerprint()
        )),
        _ => Ok(()),
    }
}

impl Parts {
    /// Refuses a backbone these parts were not made for.
    pub fn check_fit(&self, backbone: &dyn Backbone) -> Result<()> {
        check_fit(self.width(), &self.metadata, backbone)
    }

    /// Reads a predictor's file, or the predictor in a folder: a file of any name, or tensors among a model's own.
    pub fn load(path: &Path) -> Result<(Self, Understanding)> {
        if !path.is_dir() {
            return Self::from_file(path);
        }
        let (choice, passed_over) = Candidates::of(path).choose(false);
        match (choice, PassedOver::list(&passed_over)) {
            (Choice::File(file), _) => Self::from_file(&file),
            (Choice::Several(several), _) => Err(Error::Predictor(format!(
                "{} holds several predictors ({}); name the file",
                path.display(),
                file_names(&several)
            ))),
            (_, None) => Self::from_store(&Store::open(path)?),
            (_, Some(others)) => {
                Store::open(path).map_err(Error::from).and_then(|s| Self::from_store(&s)).map_err(|cause| {
                    Error::Predictor(format!(
                        "{} holds no usable predictor: {cause}; {others}",
                        path.display()
                    ))
                })
            }
        }
    }

    /// Reads a predictor's file, with what was found out about it.
    fn from_file(path: &Path) -> Result<(Self, Understanding)> {
        Reading::new(&Store::open_file(path)?).with(Calibrated::facts(path)?).parts()
    }

    /// Reads a predictor from tensors that are open.
    pub fn from_store(store: &Store) -> Result<(Self, Understanding)> {
        Reading::new(store).with(Calibrated::facts(store.path())?).parts()
    }

    /// Reads a predictor from the tensors that a model does not claim, and says which those are. `None` where they do
    /// not look like one; tensors that are named like one and cannot be read are an error.
    pub fn inside(store: &Store, unclaimed: &[&str]) -> Result<Option<(Self, Understanding, Vec<String>)>> {
        let place = store.path();
        let folder = place.parent().filter(|_| place.is_file()).unwrap_or(place);
        let reading = Reading::inside(store, unclaimed);
        let tensors = reading.tensors();
        if tensors.is_empty() && !unclaimed.iter().any(|name| names_predictor(name)) {
            return Ok(None);
        }
        let (parts, understanding) = reading.with(Calibrated::facts(folder)?).parts()?;
        Ok(Some((parts, Understanding { path: folder.to_path_buf(), ..understanding }, tensors)))
    }

    /// Writes our layout, through a temporary neighbour.
    pub fn save(&self, path: &Path, dtype: Dtype) -> Result<()> {
        self.check()?;
        let several = self.heads.len() > 1;
        let mut tensors = Vec::new();
        let mut add = |name: String, m: &Rows| {
            let matrix = Mapped::from_f32(&[m.len(), m.width], m.data.clone());
            tensors.push((name, matrix.to_dtype(dtype)));
        };
        for (index, head) in self.heads.iter().enumerate() {
            let name = |w: &str| if several { format!("head.{index}.{w}") } else { w.to_owned() };
            match head {
                Head::Pair { query, key } => {
                    add(name("w_q"), query);
                    add(name("w_k"), key);
                }
                Head::Merged(w) => add(name("w"), w),
            }
        }
        if let Some(projection) = &self.projection {
            add("projection.first".into(), &projection.first);
            add("projection.second".into(), &projection.second);
        }
        if let Mix::Weighted(weights) = &self.mix {
            tensors.push(("mix".into(), Mapped::from_f32(&[weights.len()], weights.clone())));
        }
        tensors.extend(self.stability.iter().flat_map(stability_file::tensors));
        write::file(path, &tensors, &self.about())?;
        Ok(())
    }

    fn about(&self) -> BTreeMap<String, String> {
        let merged = self.heads.iter().all(|h| matches!(h, Head::Merged(_)));
        let Metadata { hidden_row, final_norm, backbone, trained_on, features, measure, .. } = &self.metadata;
        let Metadata { validation_mse, baseline_mse, .. } = self.metadata;
        let activation = self.projection.as_ref().map(|p| match p.activation {
            Activation::Relu => "relu",
            Activation::Silu => "silu",
        });
        let mix = if self.mix == Mix::Mean { "mean" } else { "weighted" };
        let fields = [
            ("demask_predictor", Some("1".to_owned())),
            ("d", Some(self.width().to_string())),
            ("layout", Some("in,out".into())),
            ("hidden_row", Some(hidden_row.to_string())),
            ("final_norm", Some(if *final_norm == FinalNorm::After { "after" } else { "before" }.into())),
            ("merged", Some(merged.to_string())),
            ("heads", Some(self.heads.len().to_string())),
            ("mix", Some(mix.into())),
            ("activation", activation.map(Into::into)),
            ("scale", self.scale.map(|s| s.to_string())),
            ("backbone", backbone.clone()),
            ("trained_on", trained_on.clone()),
            ("validation_mse", validation_mse.map(|v| v.to_string())),
            ("validation_loss", validation_mse.map(|v| v.to_string())),
            ("baseline_loss", baseline_mse.map(|v| v.to_string())),
            ("features", (!features.is_empty()).then(|| Feature::list(features))),
            ("measure", Some(measure.name().into())),
            ("demask_part", Some("predictor".into())),
        ];
        let fields = fields.into_iter().chain(self.stability.iter().flat_map(stability_file::metadata));
        fields.filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }
}

impl fmt::Display for Understanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), Summary(self))?;
        match &self.beside {
            Some(path) => write!(f, "; completed by {}", path.display()),
            None => Ok(()),
        }
    }
}

struct Summary<'a>(&'a Understanding);

impl Deref for Summary<'_> {
    type Target = Understanding;

    fn deref(&self) -> &Understanding {
        self.0
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Metadata { hidden_row, final_norm, backbone, trained_on, features, measure, .. } = &self.metadata;
        let Metadata { validation_mse, baseline_mse, .. } = self.metadata;
        let dtypes: Vec<String> = self.dtypes.iter().map(ToString::to_string).collect();
        match self.heads {
            0 => write!(f, "no head of dependency")?,
            1 => write!(f, "one head")?,
            several => write!(f, "{several} heads")?,
        }
        write!(f, " of width {}", self.width)?;
        if self.heads > 0 {
            write!(
                f,
                ", {} as {}, {}",
                if self.merged { "merged W" } else { "W_Q and W_K" },
                if self.layout == Layout::InOut { "[in, out]" } else { "[out, in]" },
                dtypes.join(" and "),
            )?;
        }
        let side = if *final_norm == FinalNorm::After { "after" } else { "before" };
        write!(f, "; reads hidden row {hidden_row} {side} the final norm")?;
        if !features.is_empty() {
            write!(f, " and {}", Feature::list(features).replace(',', ", "))?;
        }
        if let Some((inner, activation)) = self.projection {
            write!(f, "; projection through {inner} with {activation:?}")?;
        }
        if let Some(trained_on) = trained_on {
            write!(f, "; trained on {trained_on}")?;
        }
        if *measure == Measure::Divergence {
            write!(f, "; predicts mutual information")?;
        }
        if let Some(mse) = validation_mse {
            write!(f, "; validation MSE {mse:.6}")?;
            if let Some(mse) = baseline_mse {
                write!(f, " (best constant {mse})")?;
            }
        }
        if let Some(backbone) = backbone {
            write!(f, "; backbone {backbone}")?;
        }
        if let Some((inner, about)) = &self.stability {
            write!(f, "; a stability head through {inner}")?;
            if let Some(gamma) = about.gamma {
                write!(f, " for what is sure above {gamma}")?;
            }
            if let Some((loss, baseline)) = about.loss {
                write!(f, ", log-loss {loss:.4} (constant rate {baseline:.4})")?;
            }
        }
        if !self.assumed.is_empty() {
            write!(f, "; assumed: {}", self.assumed.join(", "))?;
        }
        if self.ignored > 0 {
            write!(f, "; other tensors ignored: {}", self.ignored)?;
        }
        Ok(())
    }
}
