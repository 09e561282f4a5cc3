//! Making sense of a predictor's file, ours or another program's, tensor by tensor.

use std::collections::BTreeMap;
use std::path::PathBuf;

use demask_model::checkpoint::{Dtype, Store};
use demask_model::{HiddenRow, Rows, names_predictor};

use crate::dependency::Measure;
use crate::dependency::beside::Facts;
use crate::dependency::feature::Feature;
use crate::dependency::file::{Layout, Understanding};
use crate::dependency::names::{self, Role};
use crate::dependency::parts::{Activation, FinalNorm, Head, Metadata, Mix, Parts, Projection};
use crate::dependency::predictor::transpose;
use crate::dependency::stability_file;
use crate::error::{Error, Result};

/// Said where a file does not tell its hidden row.
pub(super) const ROW_ASSUMED: &str = "hidden row i stands for position i";

/// A file being made sense of.
pub(super) struct Reading<'a> {
    store: &'a Store,
    /// Tensors that may be the predictor's.
    names: Vec<&'a str>,
    /// They lie among a model's own tensors, so one without a telling name is not taken.
    among_others: bool,
    about: BTreeMap<String, String>,
    beside: Option<PathBuf>,
    assumed: Vec<String>,
    dtypes: Vec<Dtype>,
}

impl<'a> Reading<'a> {
    /// Of a file of its own.
    pub(super) fn new(store: &'a Store) -> Self {
        Self {
            store,
            names: store.names().collect(),
            among_others: false,
            about: store.metadata().clone(),
            beside: None,
            assumed: Vec::new(),
            dtypes: Vec::new(),
        }
    }

    /// Of the tensors that a model leaves over.
    pub(super) fn inside(store: &'a Store, unclaimed: &[&'a str]) -> Self {
        Self { names: unclaimed.to_vec(), among_others: true, ..Self::new(store) }
    }

    /// With what was found out about it and written beside it; what the file says itself wins.
    pub(super) fn with(mut self, beside: Facts) -> Self {
        let Some((path, facts)) = beside else { return self };
        let before = self.about.len();
        for (key, value) in facts {
            self.about.entry(key).or_insert(value);
        }
        self.beside = (self.about.len() > before).then_some(path);
        self
    }

    /// The tensors that are the predictor's; none where they do not look like one.
    pub(super) fn tensors(&self) -> Vec<String> {
        let stable =
            self.names.iter().filter(|name| stability_file::is_part(name)).map(|&name| name.to_owned());
        self.roles().map_or_else(|_| Vec::new(), |found| found.into_values().chain(stable).collect())
    }

    /// Whether the tensors are a predictor's. An error where they, or whoever `promised` it, say so and it cannot be told
    /// which is which.
    pub(super) fn is_predictor(&self, promised: bool) -> Result<bool> {
        let is_head = |name: &str| {
            names::parse(name).is_some_and(|part| matches!(part.role, Role::Query | Role::Key | Role::Merged))
        };
        match self.roles() {
            Ok(_) => Ok(!self.tensors().is_empty()),
            Err(cause) if promised => Err(cause),
            Err(cause) => {
                let named = names::candidates(self.names.iter().copied()).into_iter().any(is_head);
                if named { Err(cause) } else { Ok(false) }
            }
        }
    }

    /// The parts, and what was made of the file.
    pub(super) fn parts(mut self) -> Result<(Parts, Understanding)> {
        let found = self.roles()?;
        let layout = self.layout(&found)?;
        let mut by_role: BTreeMap<(Role, usize), Vec<Rows>> = BTreeMap::new();
        for (role, name) in &found {
            let matrices =
                if role.0 == Role::Mix { self.vector(name)? } else { self.matrices(name, layout)? };
            by_role.insert(*role, matrices);
        }
        let mut all = |wanted: Role| -> Vec<Rows> {
            let keys: Vec<_> = by_role.keys().filter(|(role, _)| *role == wanted).copied().collect();
            keys.iter().filter_map(|key| by_role.remove(key)).flatten().collect()
        };
        let (query, key, merged) = (all(Role::Query), all(Role::Key), all(Role::Merged));
        let (layers, mix) = (all(Role::Projection), all(Role::Mix).pop());
        let projection = self.projection(layers)?;
        let heads = self.heads(query, key, merged)?;
        let mut parts = Parts {
            projection,
            mix: mix.map_or(Mix::Mean, |m| Mix::Weighted(m.data)),
            scale: self.number("scale")?.map(|s| s as f32),
            metadata: self.metadata()?,
            heads,
            stability: None,
        };
        let row = parts.metadata.hidden_row;
        parts.stability = stability_file::read(self.store, &self.names, &self.about, row)?;
        parts.check().map_err(|error| self.bad(&error.to_string()))?;
        if let Some(d) = self.number("d")?.filter(|&d| d != parts.width() as f64) {
            return Err(
                self.bad(&format!("its metadata says d = {d} but its matrices read {}", parts.width()))
            );
        }
        let merged = !parts.heads.is_empty() && parts.heads.iter().all(|h| matches!(h, Head::Merged(_)));
        let understanding = Understanding {
            path: self.store.path().to_path_buf(),
            width: parts.width(),
            heads: parts.heads.len(),
            merged,
            layout,
            dtypes: self.dtypes,
            projection: parts.projection.as_ref().map(|p| (p.first.width, p.activation)),
            metadata: parts.metadata.clone(),
            assumed: self.assumed,
            ignored: self.names.iter().filter(|name| !stability_file::is_part(name)).count() - found.len(),
            stability: parts.stability.as_ref().map(|head| (head.inner(), head.about().clone())),
            beside: self.beside,
        };
        Ok((parts, understanding))
    }

    /// Which tensor plays which part.
    fn roles(&self) -> Result<BTreeMap<(Role, usize), String>> {
        let others = self.names.iter().copied().filter(|name| !stability_file::is_part(name));
        let alone = others.clone().count() < self.names.len();
        let candidates = names::candidates(others);
        let mut found = BTreeMap::new();
        for &name in &candidates {
            let Some(part) = names::parse(name) else { continue };
            if part.bias {
                let zero = self.store.tensor(name)?.to_f32().iter().all(|&b| b == 0.0);
                if zero {
                    continue;
                }
                return Err(
                    self.bad(&format!("`{name}` is a bias, which the predictor of the paper does not have"))
                );
            }
            if let Some(other) = found.insert((part.role, part.index), name.to_owned()) {
                return Err(self.bad(&format!("`{other}` and `{name}` both look like its {}", part.role)));
            }
        }
        if found.is_empty()
            && !alone
            && (!self.among_others || candidates.iter().any(|name| names_predictor(name)))
        {
            // A lone square matrix of any name can only be W.
            let square = |name: &&str| self.store.shape(name).is_ok_and(|s| s.len() == 2 && s[0] == s[1]);
            let mut squares = candidates.iter().copied().filter(square);
            if let (Some(name), None) = (squares.next(), squares.next()) {
                found.insert((Role::Merged, 0), name.to_owned());
            }
        }
        if alone && found.is_empty() {
            return Ok(found);
        }
        if !found.keys().any(|(role, _)| matches!(role, Role::Query | Role::Key | Role::Merged)) {
            return Err(
                self.bad("it holds no tensors named like W_Q and W_K (w_q, q_proj, query …) or a merged W")
            );
        }
        Ok(found)
    }

    fn layout(&mut self, found: &BTreeMap<(Role, usize), String>) -> Result<Layout> {
        if let Some(text) = self.about.get("layout") {
            let plain: String = text.chars().filter(|c| c.is_alphabetic() || *c == ',').collect();
            return match plain.to_lowercase().as_str() {
                "in,out" => Ok(Layout::InOut),
                "out,in" => Ok(Layout::OutIn),
                _ => {
                    Err(self
                        .bad(&format!("its metadata says layout = {text:?}, which must be in,out or out,in")))
                }
            };
        }
        let mut matrices = found.iter().filter(|(role, _)| role.0 != Role::Mix).map(|(_, name)| name);
        let linear = matrices.clone().filter(|name| name.ends_with(".weight")).count();
        if linear > 0 && matrices.any(|name| !name.ends_with(".weight")) {
            return Err(self.bad(
                "some of its matrices are named like PyTorch layers (.weight, [out, in]) and some are not; add the \
                 metadata layout = in,out or out,in",
            ));
        }
        let (layout, why) = if linear > 0 {
            (Layout::OutIn, "[out, in] because names end in .weight")
        } else {
            (Layout::InOut, "[in, out]")
        };
        self.assumed.push(format!("matrices are {why}"));
        Ok(layout)
    }

    /// A tensor as matrices `[in, out]`: one, or one per head if it has three dimensions.
    fn matrices(&mut self, name: &str, layout: Layout) -> Result<Vec<Rows>> {
        let tensor = self.store.tensor(name)?;
        if !self.dtypes.contains(&tensor.dtype()) {
            self.dtypes.push(tensor.dtype());
        }
        let (count, rows, width) = match *tensor.shape() {
            [rows, width] => (1, rows, width),
            [count, rows, width] => (count, rows, width),
            _ => {
                return Err(self.bad(&format!("`{name}` has shape {:?}, which is no matrix", tensor.shape())));
            }
        };
        if count * rows * width == 0 {
            return Err(self.bad(&format!("`{name}` is empty")));
        }
        let data = tensor.to_f32();
        let matrix = |part: &[f32]| {
            let matrix = Rows { data: part.to_vec(), width };
            if layout == Layout::OutIn { transpose(&matrix) } else { matrix }
        };
        Ok(data.chunks_exact(rows * width).map(matrix).collect())
    }

    fn vector(&self, name: &str) -> Result<Vec<Rows>> {
        let data = self.store.tensor(name)?.to_f32();
        Ok(vec![Rows { width: data.len(), data }])
    }

    fn heads(&mut self, query: Vec<Rows>, key: Vec<Rows>, merged: Vec<Rows>) -> Result<Vec<Head>> {
        if query.len() != key.len() || (!merged.is_empty() && !query.is_empty()) {
            return Err(self.bad(&format!(
                "it holds {} W_Q, {} W_K and {} merged W; each head has a W_Q and a W_K, or a W",
                query.len(),
                key.len(),
                merged.len()
            )));
        }
        let said = self.number("heads")?.map_or(1, |h| h as usize).max(1);
        let pair = |(query, key)| Head::Pair { query, key };
        let heads: Vec<Head> = if !merged.is_empty() {
            merged.into_iter().map(Head::Merged).collect()
        } else if query.len() == 1 && said > 1 {
            let (query, key) = (&query[0], &key[0]);
            if !query.width.is_multiple_of(said) || key.width != query.width {
                return Err(self.bad(&format!("its {} columns do not divide into {said} heads", query.width)));
            }
            self.assumed.push(format!("one pair of matrices holds {said} heads side by side"));
            columns(query, said).into_iter().zip(columns(key, said)).map(pair).collect()
        } else {
            query.into_iter().zip(key).map(pair).collect()
        };
        if self.about.get("heads").is_some_and(|_| heads.len() != said) && !heads.is_empty() {
            return Err(self.bad(&format!("its metadata says heads = {said} but it holds {}", heads.len())));
        }
        Ok(heads)
    }

    fn projection(&mut self, layers: Vec<Rows>) -> Result<Option<Projection>> {
        let [first, second] = match <[Rows; 2]>::try_from(layers) {
            Ok(two) => two,
            Err(layers) if layers.is_empty() => return Ok(None),
            Err(layers) => {
                return Err(self.bad(&format!("its projection has {} layers, it must be two", layers.len())));
            }
        };
        let activation = match self.about.get("activation").map(|a| a.to_lowercase()) {
            None => {
                self.assumed.push("the projection's activation is relu".into());
                Activation::Relu
            }
            Some(a) if a == "relu" => Activation::Relu,
            Some(a) if a == "silu" || a == "swish" => Activation::Silu,
            Some(a) => {
                return Err(
                    self.bad(&format!("its metadata says activation = {a:?}, known are relu and silu"))
                );
            }
        };
        Ok(Some(Projection { first, second, activation }))
    }

    fn metadata(&mut self) -> Result<Metadata> {
        let hidden_row = match self.about.get("hidden_row") {
            Some(name) => HiddenRow::named(name).ok_or_else(|| {
                self.bad(&format!("its metadata says hidden_row = {name:?}, which must be i or i-1"))
            })?,
            None => {
                self.assumed.push(ROW_ASSUMED.into());
                HiddenRow::I
            }
        };
        let final_norm = match self.about.get("final_norm").map(String::as_str) {
            Some("after" | "post") => FinalNorm::After,
            Some("before" | "pre") => FinalNorm::Before,
            Some(other) => {
                return Err(self.bad(&format!(
                    "its metadata says final_norm = {other:?}, which must be after or before"
                )));
            }
            None => {
                self.assumed.push("hidden rows are taken after the final norm".into());
                FinalNorm::After
            }
        };
        let measure = match self.about.get("measure") {
            None => Measure::TotalVariation,
            Some(name) => Measure::named(name).ok_or_else(|| {
                self.bad(&format!("its metadata says measure = {name:?}, which must be tv or kl"))
            })?,
        };
        let features = Feature::listed(self.about.get("features").map_or("", String::as_str));
        let features = features
            .map_err(|name| self.bad(&format!("it reads {name:?} of a position, which is unknown")))?;
        Ok(Metadata {
            features,
            measure,
            hidden_row,
            final_norm,
            backbone: self.about.get("backbone").cloned(),
            trained_on: self.about.get("trained_on").cloned(),
            validation_mse: self.number("validation_mse")?,
            baseline_mse: self.number("baseline_loss")?,
        })
    }

    fn number(&self, key: &str) -> Result<Option<f64>> {
        let Some(text) = self.about.get(key) else { return Ok(None) };
        let bad = |_| self.bad(&format!("its metadata says {key} = {text:?}, which is not a number"));
        text.trim().parse().map(Some).map_err(bad)
    }

    fn bad(&self, problem: &str) -> Error {
        Error::Predictor(format!("{} is not a usable predictor: {problem}", self.store.path().display()))
    }
}

/// Cuts a matrix into `count` equal groups of columns.
fn columns(matrix: &Rows, count: usize) -> Vec<Rows> {
    let width = matrix.width / count;
    let part = |index: usize| {
        let data = matrix.iter().flat_map(|row| &row[index * width..(index + 1) * width]).copied().collect();
        Rows { data, width }
    };
    (0..count).map(part).collect()
}
