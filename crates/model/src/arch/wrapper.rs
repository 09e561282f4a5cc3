//! Repositories that wrap a known family: a class of their own (`model_type`, `architectures`, `auto_map`) around a
//! base model, usually with a dependency predictor beside it. What is wrapped is told by the base model's config inside
//! the wrapper's, or by the family's name within the wrapper's names, and always by the tensors, where they are there.
//!
//! Invariant: a family is never taken that the tensors contradict, and never one of two that both fit.

use std::path::Path;

use serde_json::Value;

use super::{ALL, Architecture, by_config, of, parameters};
use crate::checkpoint::Store;
use crate::checkpoint::quantized::packed_name;
use crate::config::{Fields, Spec};
use crate::error::{Error, Result};
use crate::layer::Parameter;
use crate::load::stored_names;

/// Ids that a wrapper may state for the model inside.
const IDS: &[&str] = &["mask_token_id", "eos_token_id", "pad_token_id", "bos_token_id"];
/// Fields in which a wrapper names its classes and its base.
const NAMING: &[&str] =
    &["model_type", "architectures", "auto_map", "_name_or_path", "base_model_name_or_path"];

/// The base model's config inside a wrapper's, completed with the ids that only the wrapper states; `None` where the
/// fields of the base model are the wrapper's own.
pub(crate) fn base_config(outer: &Value) -> Option<Value> {
    let known = |inner: &&Value| {
        let fields = Fields::bare(inner);
        inner.is_object() && by_config(&fields).is_ok()
    };
    let mut found = outer.as_object()?.values().filter(known);
    let mut inner = found.next().filter(|_| found.next().is_none())?.clone();
    for id in IDS {
        if inner[*id].is_null() && !outer[*id].is_null() {
            inner[*id] = outer[*id].clone();
        }
    }
    Some(inner)
}

/// The family of a wrapped model; `unknown` is what is said where there is none.
pub(crate) fn family(
    fields: &Fields<'_>,
    outer: &Value,
    folder: Option<&Path>,
    unknown: Error,
) -> Result<&'static Architecture> {
    let store = folder.and_then(|folder| Store::open(folder).ok());
    let fits = |family: &&Architecture| match (&store, family.spec(fields)) {
        (Some(store), Ok(spec)) => holds(store, &spec),
        (None, Ok(_)) => true,
        _ => false,
    };
    if let Ok(family) = by_config(fields) {
        return if fits(&family) { Ok(family) } else { Err(unknown) };
    }
    if let Some(family) = hinted(outer).filter(fits) {
        return Ok(family);
    }
    if store.is_none() {
        return Err(unknown);
    }
    let possible: Vec<&Architecture> = ALL.iter().filter(fits).collect();
    match possible[..] {
        [family] => Ok(family),
        [] => Err(unknown),
        _ => {
            let names: Vec<&str> = possible.iter().map(|family| family.name).collect();
            let named = fields.text("model_type").unwrap_or("(none)");
            let problem = format!(
                "{named:?} is not one this engine runs, and by its tensors it could be any of {}; write the one it is",
                names.join(", ")
            );
            Err(fields.bad("model_type", problem))
        }
    }
}

/// The family whose name is part of the wrapper's names; the longest such name.
fn hinted(outer: &Value) -> Option<&'static Architecture> {
    let said: Vec<String> = NAMING.iter().flat_map(|field| texts(&outer[*field])).collect();
    let names = |family: &'static Architecture| {
        let known = family.classes.iter().chain(family.model_types).chain([&family.name]);
        known.map(move |name| (name.to_lowercase(), family))
    };
    let all = ALL.iter().flat_map(names);
    let inside = all.filter(|(name, _)| said.iter().any(|text| text.contains(name.as_str())));
    inside.max_by_key(|(name, _)| name.len()).map(|(_, family)| family)
}

/// Every text in a value, in small letters.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.to_lowercase()],
        Value::Array(list) => list.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// Whether a checkpoint has every tensor of a model of this shape under one prefix, and no other inside its blocks.
fn holds(store: &Store, spec: &Spec) -> bool {
    let (Ok(parameters), Ok(prefix), Ok(family)) = (parameters(spec), store.prefix(spec), of(spec)) else {
        return false;
    };
    let prefix = prefix.unwrap_or_default();
    let shaped = |(name, shape): (String, Vec<usize>)| {
        store.shape(&format!("{prefix}{name}")).is_ok_and(|found| found == shape)
    };
    let there = |parameter: &Parameter| {
        store.contains(&format!("{prefix}{}", packed_name(&parameter.name)))
            || parameter.tensors().all(shaped)
    };
    let claimed: Vec<String> =
        parameters.iter().flat_map(stored_names).map(|name| format!("{prefix}{name}")).collect();
    let blocks = format!("{prefix}{}", family.names.layer.split("{}").next().unwrap_or_default());
    parameters.iter().all(there) && !store.left_over(&claimed).iter().any(|name| name.starts_with(&blocks))
}
