//! Families as data: each file maps one family's `config.json` fields to a [`Spec`] and names its tensors. The layers
//! themselves are written once, in `layer`, and put together in `transformer.rs`.

use crate::config::{Fields, NormPlace, Origin, Shift, Spec, Visibility};
use crate::error::{Error, Result};
use crate::layer::{Block, Head, Input, Names, Norm, Parameter, Place, role};

mod a2d;
mod albert;
mod bert;
mod dream;
mod fast_dllm;
mod hub;
mod known;
mod llada;
mod llada2;
mod llada_moe;
mod qwen2;
mod refuse;
mod rnd1;
mod sdar;
pub(crate) mod wrapper;

pub(crate) use refuse::OWN_QUANTISATION;

/// One family of checkpoints.
pub struct Architecture {
    /// Short name, also `Spec::architecture` and GGUF's `general.architecture`.
    pub name: &'static str,
    /// Values of `architectures[0]` that choose it.
    classes: &'static [&'static str],
    /// Values of `model_type` that choose it, where `architectures` does not.
    model_types: &'static [&'static str],
    /// Tensor names.
    pub names: Names,
    /// What its files do not say.
    pub facts: Facts,
    spec: fn(&Fields<'_>) -> Result<Spec>,
}

/// What every model of a family has in common and no file says.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Which row predicts a position.
    pub shift: Shift,
    /// Who sees whom.
    pub attention: Visibility,
    /// The usual block length of block-causal attention.
    pub block: Option<usize>,
    /// Where blocks are counted from.
    pub origin: Origin,
    /// Query and key heads are normalised.
    pub qk_norm: bool,
    /// Queries, keys and values are one tensor.
    pub fused_qkv: bool,
    /// Queries, keys and values have biases.
    pub qkv_bias: bool,
    /// The mask, where no file names it.
    pub mask: Option<u32>,
    /// Its GGUF files store the rows of queries and keys for a rotation of neighbouring pairs.
    pub gguf_pairs: bool,
    /// Whether it has a GGUF form: its own or that of another program.
    pub gguf: bool,
    /// Parts of the names of tensors that its checkpoints hold and nothing here reads.
    pub unread: &'static [&'static str],
    /// Fields of its config that every other family refuses and its own file judges.
    pub judges: &'static [&'static str],
    /// Fields of its config that its published code does not read, or only where another field says so.
    pub ignores: &'static [&'static str],
}

impl Facts {
    /// Full attention, no shift, three plain projections.
    const PLAIN: Self = Self {
        shift: Shift::None,
        attention: Visibility::Full,
        block: None,
        origin: Origin::Response,
        qk_norm: false,
        fused_qkv: false,
        qkv_bias: false,
        mask: None,
        gguf_pairs: false,
        gguf: true,
        unread: &[],
        judges: &[],
        ignores: &[],
    };
}

impl Architecture {
    /// The `Spec` that a `config.json` of this family describes.
    pub fn spec(&self, fields: &Fields<'_>) -> Result<Spec> {
        refuse::common(fields, self.facts.judges)?;
        (self.spec)(fields)
    }

    /// Fields of a config, once its `Spec` was made, that nothing here understands; an error if the name of one says that
    /// it changes the numbers.
    pub(crate) fn unknown<'a>(&self, fields: &Fields<'a>) -> Result<Vec<&'a str>> {
        let Facts { judges, ignores, .. } = self.facts;
        let understood =
            |name: &str| known::is_harmless(name) || judges.contains(&name) || ignores.contains(&name);
        let mut unknown = fields.unasked();
        unknown.retain(|name| !understood(name));
        unknown.iter().try_for_each(|name| refuse::if_telling(fields, name))?;
        Ok(unknown)
    }
}

const ALL: &[Architecture] = &[
    dream::DREAM,
    llada::LLADA,
    llada_moe::LLADA_MOE,
    llada2::LLADA2,
    sdar::SDAR,
    sdar::SDAR_MOE,
    a2d::QWEN3,
    a2d::QWEN2,
    a2d::LLAMA,
    fast_dllm::FAST_DLLM,
    rnd1::RND1,
    qwen2::QWEN2,
    bert::BERT,
    albert::ALBERT,
];

/// Chooses the family by the first entry of `architectures`, else by `model_type`: LLaDA-MoE has the `model_type` of
/// LLaDA-8B.
pub fn by_config(fields: &Fields<'_>) -> Result<&'static Architecture> {
    let (class, model_type) = (fields.first_text("architectures"), fields.text("model_type"));
    let by_class = class.and_then(|class| ALL.iter().find(|a| a.classes.contains(&class)));
    let by_type =
        || model_type.and_then(|model_type| ALL.iter().find(|a| a.model_types.contains(&model_type)));
    by_class.or_else(by_type).ok_or_else(|| {
        let Some(named) = model_type.or(class) else {
            return fields.bad("model_type", "is missing".into());
        };
        let known: Vec<_> = ALL.iter().filter_map(|a| a.model_types.first()).copied().collect();
        fields
            .bad("model_type", format!("{named:?} is not one this engine runs (known: {})", known.join(", ")))
    })
}

/// The family a `Spec` came from.
pub fn by_name(name: &str) -> Option<&'static Architecture> {
    ALL.iter().find(|a| a.name == name)
}

/// The names of all families.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|a| a.name)
}

/// Whether models of this family can lie in a GGUF file.
pub fn has_gguf(name: &str) -> bool {
    by_name(name).is_some_and(|family| family.facts.gguf)
}

/// The family of a `Spec`, which must be one of a checkpoint.
pub fn of(spec: &Spec) -> Result<&'static Architecture> {
    by_name(spec.architecture)
        .ok_or_else(|| Error::Query(format!("{} is not a family of checkpoints", spec.architecture)))
}

/// Every parameter of a model, in the order of its checkpoint, as the layers tell them.
pub fn parameters(spec: &Spec) -> Result<Vec<Parameter>> {
    let names = of(spec)?.names;
    let outside = Place { names, layer: None };
    let mut all = Input::parameters(spec, &outside)?;
    for layer in 0..spec.stored_layers() {
        all.extend(Block::parameters(spec, layer, &Place { names, layer: Some(layer) })?);
    }
    if spec.norm_place == NormPlace::Before {
        all.extend(Norm::parameters(spec, role::NORM, spec.hidden, &outside)?);
    }
    all.extend(Head::parameters(spec, &outside)?);
    Ok(all)
}

/// Every tensor a checkpoint of this `Spec` must hold, with its shape.
pub fn tensors(spec: &Spec) -> Result<Vec<(String, Vec<usize>)>> {
    Ok(parameters(spec)?.iter().flat_map(Parameter::tensors).collect())
}
