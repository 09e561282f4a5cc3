//! From a name to a model: folder, GGUF file, Hub, or the bytes inside this library.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use demask_decode::Context;
use demask_decode::dependency::Parts;
use demask_model::checkpoint::Store;
use demask_model::checkpoint::source::{self, HubOptions, Progress};
use demask_model::{Backbone, LoadOptions, Precision, Replicas, Spec, Transformer, gguf};

use crate::beside::Beside;
use crate::defaults::Defaults;
#[cfg(feature = "embedded")]
use crate::embedded;
use crate::error::Result;
use crate::hub::hub_options;
use crate::model::Model;
use crate::predictor::Search;
use crate::text::Text;

/// Choices about loading a model.
pub struct Loader<'a> {
    source: Origin,
    options: LoadOptions,
    /// Where further copies of the model compute.
    others: Vec<LoadOptions>,
    predictor: Option<PathBuf>,
    beside: Beside,
    hub: Option<HubOptions>,
    progress: Option<&'a mut dyn Progress>,
    by_ids: bool,
}

/// What is loaded.
enum Origin {
    /// A folder, a GGUF file or a Hub name.
    Named(String),
    /// The model inside this library.
    #[cfg(feature = "embedded")]
    Embedded,
}

impl Loader<'_> {
    /// Of a folder, a GGUF file or a Hub name.
    pub fn new(model: &str) -> Self {
        Self::of(Origin::Named(model.to_owned()))
    }

    /// Of the model inside this library.
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Self {
        Self::of(Origin::Embedded)
    }

    fn of(source: Origin) -> Self {
        Self {
            source,
            options: LoadOptions::default(),
            others: Vec::new(),
            predictor: None,
            beside: Beside::default(),
            hub: None,
            progress: None,
            by_ids: false,
        }
    }

    /// Where it computes.
    pub fn device(mut self, device: candle_core::Device) -> Self {
        self.options.device = device;
        self
    }

    /// Precision of the weights; as stored if not chosen.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.options.dtype = Some(precision);
        self
    }

    /// Device and precision at once.
    pub fn options(self, options: LoadOptions) -> Self {
        Self { options, ..self }
    }

    /// A further copy of the model that shares every batch, computed with these options.
    pub fn replica(mut self, options: LoadOptions) -> Self {
        self.others.push(options);
        self
    }

    /// A dependency predictor other than the checkpoint's own: a file, a folder or a Hub name.
    pub fn predictor(mut self, named: impl Into<PathBuf>) -> Self {
        self.predictor = Some(named.into());
        self
    }

    /// A checkpoint without a tokenizer will do: it is run by ids, which are written as numbers.
    pub fn by_ids(self) -> Self {
        Self { by_ids: true, ..self }
    }

    /// Second models and trained parts beside the model; what is not named is looked for in the checkpoint's folder.
    pub fn beside(mut self, beside: Beside) -> Self {
        self.beside = beside;
        self
    }

    /// How to reach the Hub; [`hub_options`] if not chosen.
    pub fn hub(mut self, options: HubOptions) -> Self {
        self.hub = Some(options);
        self
    }

    /// Who watches downloads, and is told what a config leaves open or says that nothing here understands.
    pub fn progress<'b>(self, progress: &'b mut dyn Progress) -> Loader<'b> {
        let Self { source, options, others, predictor, beside, hub, by_ids, .. } = self;
        Loader { source, options, others, predictor, beside, hub, progress: Some(progress), by_ids }
    }

    /// How the model reads and writes, without its weights, which are not even downloaded.
    pub fn text(self) -> Result<Text> {
        match &self.source {
            #[cfg(feature = "embedded")]
            Origin::Embedded => embedded::text(),
            Origin::Named(model) => {
                let hub = self.hub.unwrap_or_else(hub_options);
                Text::open(&source::resolve_description(model, &hub, self.progress.unwrap_or(&mut ()))?)
            }
        }
    }

    /// The network and what strategies may use of it, without tokenizer and template: for work on ids alone.
    pub fn network(mut self) -> Result<(Transformer, Context)> {
        // Work on ids alone is one device's.
        self.others.clear();
        let place = self.place()?;
        let (mut copies, search) = self.weights(&place)?;
        let backbone = copies.swap_remove(0);
        let (predictor, stability) =
            search.found.map_or((None, None), |found| (found.predictor, found.stability));
        let (predictor, stability) = (predictor.map(Arc::new), stability.map(Arc::new));
        let mut context = Context { predictor, stability, ..Context::default() };
        self.beside.open(place.as_deref(), &backbone, None, &self.options, &mut context)?;
        self.remark(&context);
        Ok((backbone, context))
    }

    /// The model.
    pub fn load(mut self) -> Result<Model> {
        let place = self.place()?;
        let (mut copies, predictor) = self.weights(&place)?;
        let (text, defaults, name) = match (&self.source, &place) {
            (Origin::Named(name), Some(folder)) => {
                let text = if self.by_ids { Text::open_by_ids(folder)? } else { Text::open(folder)? };
                (text, Defaults::open(folder)?, short_name(name, folder))
            }
            #[cfg(feature = "embedded")]
            _ => (embedded::text()?, embedded::defaults()?, embedded::NAME.to_owned()),
            #[cfg(not(feature = "embedded"))]
            _ => unreachable!("there is no other source"),
        };
        let mut context = Context::default();
        // Before the chat template's ends are added: an assistant's are compared with those of the config.
        self.beside.open(place.as_deref(), &copies[0], Some(&text), &self.options, &mut context)?;
        self.remark(&context);
        copies.iter_mut().for_each(|copy| copy.add_eos(&text.ids().eos));
        let backbone: Arc<dyn Backbone> = match copies.len() {
            1 => Arc::new(copies.remove(0)),
            _ => Arc::new(Replicas::new(copies)?),
        };
        let model = Model::new(backbone, text).with_defaults(defaults).named(name);
        Ok(model.with_context(context).with_search(predictor))
    }

    /// Tells what a user should know of what was opened beside the model.
    fn remark(&mut self, context: &Context) {
        if let (Some(progress), Some(remark)) = (self.progress.as_mut(), self.beside.remark(context)) {
            progress.warn(&remark);
        }
    }

    /// The folder or file, downloaded first where that is needed; `None` of the model inside.
    fn place(&mut self) -> Result<Option<PathBuf>> {
        match &self.source {
            #[cfg(feature = "embedded")]
            Origin::Embedded => Ok(None),
            Origin::Named(model) => {
                let hub = self.hub.clone().unwrap_or_else(hub_options);
                Ok(Some(match self.progress.as_mut() {
                    Some(progress) => source::resolve(model, &hub, *progress)?,
                    None => source::resolve(model, &hub, &mut ())?,
                }))
            }
        }
    }

    /// The network, once per device, and the predictor that was chosen or belongs to it, which fits.
    fn weights(&mut self, place: &Option<PathBuf>) -> Result<(Vec<Transformer>, Search)> {
        let chosen = self.chosen_predictor()?;
        let each: Vec<&LoadOptions> = std::iter::once(&self.options).chain(&self.others).collect();
        match place {
            Some(file) if gguf::is_gguf(file) => {
                let copies = each.iter().map(|options| Ok(Transformer::load(file, options)?));
                let copies = copies.collect::<Result<Vec<_>>>()?;
                let search = Search::beside_file(chosen, file, &copies[0])?;
                Ok((copies, search))
            }
            Some(folder) => {
                let (spec, notes) = Spec::from_folder_with_notes(folder)?;
                if let Some(progress) = self.progress.as_mut() {
                    notes.iter().for_each(|note| progress.warn(note));
                }
                let store = Store::of_model(folder, &spec, self.options.mapped)?;
                let inside = Parts::inside(&store, &store.unclaimed(&spec)?)?;
                let others = inside.as_ref().map(|(_, _, names)| names.as_slice()).unwrap_or_default();
                let copy =
                    |options: &&LoadOptions| Ok(Transformer::beside(spec.clone(), &store, others, options)?);
                let copies = each.iter().map(copy).collect::<Result<Vec<_>>>()?;
                let search = Search::in_folder(chosen, folder, inside, &copies[0])?;
                Ok((copies, search))
            }
            #[cfg(feature = "embedded")]
            None => {
                let (spec, store) = embedded::weights()?;
                let copy =
                    |options: &&LoadOptions| Ok(Transformer::from_store(spec.clone(), &store, options)?);
                let copies = each.iter().map(copy).collect::<Result<Vec<_>>>()?;
                let search = match chosen {
                    Some(path) => Search::chosen(&path, &copies[0])?,
                    None => Search::found(embedded::predictor()?, &copies[0])?,
                };
                Ok((copies, search))
            }
            #[cfg(not(feature = "embedded"))]
            None => unreachable!("there is no other source"),
        }
    }

    /// The file or folder of the predictor that was chosen, downloaded first where that is needed.
    fn chosen_predictor(&mut self) -> Result<Option<PathBuf>> {
        let Some(named) = &self.predictor else { return Ok(None) };
        let hub = self.hub.clone().unwrap_or_else(hub_options);
        Ok(Some(match self.progress.as_mut() {
            Some(progress) => source::resolve_predictor(named, &hub, *progress)?,
            None => source::resolve_predictor(named, &hub, &mut ())?,
        }))
    }
}

/// A name without a path: the Hub's, or the last part of the folder's.
fn short_name(given: &str, folder: &Path) -> String {
    if !Path::new(given).exists() {
        return given.split('@').next().unwrap_or(given).to_owned();
    }
    let whole = folder.canonicalize().ok();
    let last = || whole?.file_name()?.to_str().map(str::to_owned);
    last().unwrap_or_else(|| "model".to_owned())
}
