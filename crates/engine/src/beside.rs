//! What stands beside a model for strategies that ask for it: a causal assistant, a trained policy, a prior of text, a
//! predictor of information. Each is named, or lies in the checkpoint's folder under its usual name.
//!
//! Invariant: nothing here is used that was made for another model; a part that does not fit is refused, not ignored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use demask_decode::dependency::{Measure, Predictor};
use demask_decode::trained::{Adjust, Policy, Prior};
use demask_decode::{Assistant, Context, Error as Decode};
use demask_model::text::Tokenizer;
use demask_model::{Backbone, LoadOptions, Spec, Transformer};

#[cfg(feature = "embedded")]
use crate::embedded;
use crate::error::{Error, Result};
use crate::text::Text;

/// Files and folders beside a model.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// Folder of a causal model with the same tokenizer [usual: `assistant`].
    pub assistant: Option<PathBuf>,
    /// A trained unmasking policy [usual: `policy.safetensors`].
    pub policy: Option<PathBuf>,
    /// A trained layer that draws tokens together [usual: `sampler.safetensors`].
    pub sampler: Option<PathBuf>,
    /// A trained prior of text [usual: `prior.safetensors`].
    pub prior: Option<PathBuf>,
    /// A predictor of mutual information [usual: `information.safetensors`].
    pub information: Option<PathBuf>,
}

impl Beside {
    /// Opens everything that is named or lies in `folder`; where `text` is known, an assistant must have its tokenizer.
    pub(crate) fn open(
        &self,
        folder: Option<&Path>,
        backbone: &Transformer,
        text: Option<&Text>,
        options: &LoadOptions,
        context: &mut Context,
    ) -> Result<()> {
        let usual = |name: &str| folder.map(|folder| folder.join(name)).filter(|path| path.exists());
        let find = |named: &Option<PathBuf>, name: &str| named.clone().or_else(|| usual(name));
        let fits = |path: &Path, fit: std::result::Result<(), Decode>| {
            fit.map_err(|cause| Error::Predictor { path: path.to_owned(), problem: cause.to_string() })
        };
        if let Some(path) = find(&self.assistant, "assistant") {
            context.assistant = Some(Arc::new(assistant(&path, backbone.spec(), text, options)?));
        }
        #[cfg(feature = "embedded")]
        if let (None, None, Some((spec, store))) = (folder, &self.assistant, embedded::assistant()?) {
            let causal = Transformer::from_store(spec, &store, options)?;
            let path = Path::new(embedded::NAME).join("assistant");
            let assistant = assisting(&path, causal, backbone.spec())?;
            context.assistant = Some(Arc::new(assistant));
        }
        if let Some(path) = find(&self.policy, "policy.safetensors") {
            let policy = Policy::load(&path)?;
            fits(&path, policy.header().check_fit(backbone))?;
            context.policy = Some(Arc::new(policy));
        }
        if let Some(path) = find(&self.sampler, "sampler.safetensors") {
            let sampler = Adjust::load(&path, backbone.spec())?;
            fits(&path, sampler.header().check_fit(backbone))?;
            context.sampler = Some(Arc::new(sampler));
        }
        if let Some(path) = find(&self.prior, "prior.safetensors") {
            let prior = Prior::load(&path)?;
            fits(&path, prior.header().check_fit(backbone))?;
            context.prior = Some(Arc::new(prior));
        }
        if let Some(path) = find(&self.information, "information.safetensors") {
            let (predictor, _) = Predictor::load(&path)?;
            fits(&path, predictor.check_fit(backbone))?;
            fits(&path, measures(&predictor, Measure::Divergence))?;
            context.information = Some(Arc::new(predictor));
        }
        Ok(())
    }
}

impl Beside {
    /// What a user should know of an assistant that was named: its config may be that of a diffusion model. One that lies in
    /// the checkpoint's folder was put there to assist.
    pub(crate) fn remark(&self, context: &Context) -> Option<String> {
        let path = self.assistant.as_ref()?;
        context.assistant.as_ref().filter(|assistant| assistant.is_described_as_diffusion())?;
        Some(format!(
            "{} is described as a diffusion model; as an assistant it is run causally, which is right for the folder causal \
             of a pre-training and wrong for a model that was trained on masks alone",
            path.display()
        ))
    }
}

/// Refuses a predictor of something else.
pub(crate) fn measures(predictor: &Predictor, measure: Measure) -> std::result::Result<(), Decode> {
    let what = |measure| match measure {
        Measure::TotalVariation => "total variation",
        Measure::Divergence => "mutual information",
    };
    if predictor.metadata().measure == measure {
        return Ok(());
    }
    let (own, wanted) = (what(predictor.metadata().measure), what(measure));
    Err(Decode::Part(format!("it predicts {own} where {wanted} is needed")))
}

/// The assistant of a folder. One without a tokenizer is taken to have the model's, if it has as many tokens.
fn assistant(path: &Path, assisted: &Spec, text: Option<&Text>, options: &LoadOptions) -> Result<Assistant> {
    let backbone = Transformer::load(path, options)?;
    let refuse = |why: String| {
        let problem = Decode::Assistant(why).to_string();
        Error::Predictor { path: path.to_owned(), problem }
    };
    let vocab = backbone.spec().vocab;
    match text.filter(|_| path.join("tokenizer.json").exists()) {
        Some(text) => {
            let own = Tokenizer::open(path, vocab)?;
            let word = |tokenizer: &Tokenizer, id: u32| tokenizer.decode_verbatim(&[id]).unwrap_or_default();
            let differs = |id: &u32| {
                let both = own.known(*id) && text.tokenizer().known(*id);
                both && word(&own, *id) != word(text.tokenizer(), *id)
            };
            if let Some(id) = (0..vocab.min(assisted.vocab) as u32).find(differs) {
                let (a, b) = (word(&own, id), word(text.tokenizer(), id));
                return Err(refuse(format!("its token {id} is {a:?} and the model's is {b:?}")));
            }
        }
        None => return assisting(path, backbone, assisted),
    }
    let fit = Assistant::new(Arc::new(backbone), assisted);
    fit.map_err(|cause| Error::Predictor { path: path.to_owned(), problem: cause.to_string() })
}

/// An assistant without a tokenizer of its own. That it has the model's is taken from its config, which must name as many
/// tokens and the same special ones as far as both name them.
fn assisting(path: &Path, backbone: Transformer, assisted: &Spec) -> Result<Assistant> {
    let (vocab, own, ids) = (backbone.spec().vocab, &backbone.spec().ids, &assisted.ids);
    let special = [("padding", own.pad, ids.pad), ("beginning of sequence", own.bos, ids.bos)];
    let differs =
        special.iter().find_map(|(what, a, b)| Some((what, (*a)?, (*b)?)).filter(|(_, a, b)| a != b));
    let refuse = |why: String| Err(Decode::Assistant(why));
    let fit = match differs {
        _ if vocab != assisted.vocab => {
            refuse(format!("it has {vocab} tokens and the model {}", assisted.vocab))
        }
        Some((what, a, b)) => refuse(format!("its {what} is {a} and the model's is {b}")),
        None => Assistant::new(Arc::new(backbone), assisted),
    };
    fit.map_err(|cause| Error::Predictor { path: path.to_owned(), problem: cause.to_string() })
}
