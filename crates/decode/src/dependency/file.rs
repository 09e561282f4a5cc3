//! A predictor's file: safetensors with metadata that says how to read it.
//!
//! Our own layout, version 1: `w_q` and `w_k`, or `w` when merged (with several heads
//! `head.N.w_q` …), `projection.first` and `projection.second`, `mix`; every matrix `[in, out]`.
//! Metadata: `demask_predictor`, `d`, `layout`, `hidden_row` (`i` or `i-1`), `final_norm` (`after` or
//! `before`), `merged`, `heads`, `mix`, `activation`, `scale`, `trained_on`, `validation_mse`,
//! `backbone`.
//!
//! Files of other programs are read by their names and shapes, and [`Understanding`] says what was
//! made of them. Invariant: nothing is guessed silently; what cannot be told is refused.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use demask_model::checkpoint::{Dtype, Mapped, Store, write};
use demask_model::{HiddenRow, Rows, Spec};

use crate::dependency::names::{self, Role};
use crate::dependency::predictor::{
    Activation, FinalNorm, Head, Metadata, Mix, Parts, Predictor, Projection, transpose,
};
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
    /// What the file does not say and was taken for granted.
    pub assumed: Vec<String>,
    /// Tensors that are not part of the predictor.
    pub ignored: usize,
}

impl Predictor {
    /// Reads a predictor's file, or the predictor in a checkpoint folder.
    pub fn load(path: &Path) -> Result<(Self, Understanding)> {
        let (parts, understanding) = Parts::load(path)?;
        Ok((Self::new(parts)?, understanding))
    }

    /// Refuses a backbone this predictor was not made for.
    pub fn check_fit(&self, spec: &Spec, fingerprint: &str) -> Result<()> {
        let refuse = |why: String| Err(Error::Predictor(why));
        if self.width() != spec.hidden {
            return refuse(format!(
                "the predictor reads hidden rows of width {} but the backbone's are {} wide; it belongs to another \
                 model",
                self.width(),
                spec.hidden
            ));
        }
        if self.metadata().final_norm == FinalNorm::Before {
            return refuse(
                "the predictor was trained on hidden rows before the final norm, but a backbone gives them after it; \
                 train one on those (demask train predictor)"
                    .into(),
            );
        }
        match &self.metadata().backbone {
            Some(trained) if trained != fingerprint => refuse(format!(
                "the predictor was trained on backbone {trained} but this one is {fingerprint}; train one for it \
                 (demask train predictor)"
            )),
            _ => Ok(()),
        }
    }
}

impl Parts {
    /// Reads a predictor's file, or the predictor in a checkpoint folder: `predictor.safetensors`, or
    /// tensors among the backbone's own.
    pub fn load(path: &Path) -> Result<(Self, Understanding)> {
        let store = match path.join(FILE_NAME) {
            file if file.exists() => Store::open_file(file)?,
            _ if path.is_dir() => Store::open(path)?,
            _ => Store::open_file(path)?,
        };
        Self::from_store(&store)
    }

    /// Reads a predictor from tensors that are open.
    pub fn from_store(store: &Store) -> Result<(Self, Understanding)> {
        Reading { store, about: store.metadata(), assumed: Vec::new(), dtypes: Vec::new() }.parts()
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
        write::file(path, &tensors, &self.about())?;
        Ok(())
    }

    fn about(&self) -> BTreeMap<String, String> {
        let merged = self.heads.iter().all(|h| matches!(h, Head::Merged(_)));
        let Metadata { hidden_row, final_norm, backbone, trained_on, validation_mse } = &self.metadata;
        let activation = self.projection.as_ref().map(|p| match p.activation {
            Activation::Relu => "relu",
            Activation::Silu => "silu",
        });
        let mix = if self.mix == Mix::Mean { "mean" } else { "weighted" };
        let fields = [
            ("demask_predictor", Some("1".to_owned())),
            ("d", Some(self.width().to_string())),
            ("layout", Some("in,out".into())),
            ("hidden_row", Some(row_name(*hidden_row).into())),
            ("final_norm", Some(if *final_norm == FinalNorm::After { "after" } else { "before" }.into())),
            ("merged", Some(merged.to_string())),
            ("heads", Some(self.heads.len().to_string())),
            ("mix", Some(mix.into())),
            ("activation", activation.map(Into::into)),
            ("scale", self.scale.map(|s| s.to_string())),
            ("backbone", backbone.clone()),
            ("trained_on", trained_on.clone()),
            ("validation_mse", validation_mse.map(|v| v.to_string())),
        ];
        fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }
}

/// A file being made sense of.
struct Reading<'a> {
    store: &'a Store,
    about: &'a BTreeMap<String, String>,
    assumed: Vec<String>,
    dtypes: Vec<Dtype>,
}

impl Reading<'_> {
    fn parts(mut self) -> Result<(Parts, Understanding)> {
        let found = self.roles()?;
        let layout = self.layout(&found)?;
        let mut by_role: BTreeMap<(Role, usize), Vec<Rows>> = BTreeMap::new();
        for (role, name) in &found {
            let matrices = if role.0 == Role::Mix { self.vector(name)? } else { self.matrices(name, layout)? };
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
        let parts = Parts {
            projection,
            mix: mix.map_or(Mix::Mean, |m| Mix::Weighted(m.data)),
            scale: self.number("scale")?.map(|s| s as f32),
            metadata: self.metadata()?,
            heads,
        };
        parts.check().map_err(|error| self.bad(&error.to_string()))?;
        if let Some(d) = self.number("d")?.filter(|&d| d != parts.width() as f64) {
            return Err(self.bad(&format!("its metadata says d = {d} but its matrices read {}", parts.width())));
        }
        let merged = parts.heads.iter().all(|h| matches!(h, Head::Merged(_)));
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
            ignored: self.store.names().len() - found.len(),
        };
        Ok((parts, understanding))
    }

    /// Which tensor plays which part.
    fn roles(&self) -> Result<BTreeMap<(Role, usize), String>> {
        let candidates = names::candidates(self.store.names());
        let mut found = BTreeMap::new();
        for &name in &candidates {
            let Some(part) = names::parse(name) else { continue };
            if part.bias {
                let zero = self.store.tensor(name)?.to_f32().iter().all(|&b| b == 0.0);
                if zero {
                    continue;
                }
                return Err(self.bad(&format!("`{name}` is a bias, which the predictor of the paper does not have")));
            }
            if let Some(other) = found.insert((part.role, part.index), name.to_owned()) {
                return Err(self.bad(&format!("`{other}` and `{name}` both look like its {}", part.role)));
            }
        }
        if found.is_empty() {
            // A lone square matrix of any name can only be W.
            let square = |name: &&str| self.store.shape(name).is_ok_and(|s| s.len() == 2 && s[0] == s[1]);
            let mut squares = candidates.iter().copied().filter(square);
            if let (Some(name), None) = (squares.next(), squares.next()) {
                found.insert((Role::Merged, 0), name.to_owned());
            }
        }
        if !found.keys().any(|(role, _)| matches!(role, Role::Query | Role::Key | Role::Merged)) {
            return Err(self.bad("it holds no tensors named like W_Q and W_K (w_q, q_proj, query …) or a merged W"));
        }
        Ok(found)
    }

    fn layout(&mut self, found: &BTreeMap<(Role, usize), String>) -> Result<Layout> {
        if let Some(text) = self.about.get("layout") {
            let plain: String = text.chars().filter(|c| c.is_alphabetic() || *c == ',').collect();
            return match plain.to_lowercase().as_str() {
                "in,out" => Ok(Layout::InOut),
                "out,in" => Ok(Layout::OutIn),
                _ => Err(self.bad(&format!("its metadata says layout = {text:?}, which must be in,out or out,in"))),
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
            _ => return Err(self.bad(&format!("`{name}` has shape {:?}, which is no matrix", tensor.shape()))),
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
            if query.width % said != 0 || key.width != query.width {
                return Err(self.bad(&format!("its {} columns do not divide into {said} heads", query.width)));
            }
            self.assumed.push(format!("one pair of matrices holds {said} heads side by side"));
            columns(query, said).into_iter().zip(columns(key, said)).map(pair).collect()
        } else {
            query.into_iter().zip(key).map(pair).collect()
        };
        if self.about.contains_key("heads") && heads.len() != said {
            return Err(self.bad(&format!("its metadata says heads = {said} but it holds {}", heads.len())));
        }
        Ok(heads)
    }

    fn projection(&mut self, layers: Vec<Rows>) -> Result<Option<Projection>> {
        let [first, second] = match <[Rows; 2]>::try_from(layers) {
            Ok(two) => two,
            Err(layers) if layers.is_empty() => return Ok(None),
            Err(layers) => return Err(self.bad(&format!("its projection has {} layers, it must be two", layers.len()))),
        };
        let activation = match self.about.get("activation").map(|a| a.to_lowercase()) {
            None => {
                self.assumed.push("the projection's activation is relu".into());
                Activation::Relu
            }
            Some(a) if a == "relu" => Activation::Relu,
            Some(a) if a == "silu" || a == "swish" => Activation::Silu,
            Some(a) => return Err(self.bad(&format!("its metadata says activation = {a:?}, known are relu and silu"))),
        };
        Ok(Some(Projection { first, second, activation }))
    }

    fn metadata(&mut self) -> Result<Metadata> {
        let hidden_row = match self.about.get("hidden_row").map(String::as_str) {
            Some("i") => HiddenRow::I,
            Some("i-1" | "i_minus_1" | "i - 1") => HiddenRow::IMinusOne,
            Some(other) => {
                return Err(self.bad(&format!("its metadata says hidden_row = {other:?}, which must be i or i-1")));
            }
            None => {
                self.assumed.push("hidden row i stands for position i".into());
                HiddenRow::I
            }
        };
        let final_norm = match self.about.get("final_norm").map(String::as_str) {
            Some("after" | "post") => FinalNorm::After,
            Some("before" | "pre") => FinalNorm::Before,
            Some(other) => {
                return Err(self.bad(&format!("its metadata says final_norm = {other:?}, which must be after or before")));
            }
            None => {
                self.assumed.push("hidden rows are taken after the final norm".into());
                FinalNorm::After
            }
        };
        Ok(Metadata {
            hidden_row,
            final_norm,
            backbone: self.about.get("backbone").cloned(),
            trained_on: self.about.get("trained_on").cloned(),
            validation_mse: self.number("validation_mse")?,
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

fn row_name(row: HiddenRow) -> &'static str {
    match row {
        HiddenRow::I => "i",
        HiddenRow::IMinusOne => "i-1",
    }
}

impl fmt::Display for Understanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Metadata { hidden_row, final_norm, backbone, trained_on, validation_mse } = &self.metadata;
        let dtypes: Vec<String> = self.dtypes.iter().map(ToString::to_string).collect();
        write!(
            f,
            "{}: {} of width {}, {} as {}, {}; reads hidden row {} {} the final norm",
            self.path.display(),
            if self.heads == 1 { "one head".to_owned() } else { format!("{} heads", self.heads) },
            self.width,
            if self.merged { "merged W" } else { "W_Q and W_K" },
            if self.layout == Layout::InOut { "[in, out]" } else { "[out, in]" },
            dtypes.join(" and "),
            row_name(*hidden_row),
            if *final_norm == FinalNorm::After { "after" } else { "before" },
        )?;
        if let Some((inner, activation)) = self.projection {
            write!(f, "; projection through {inner} with {activation:?}")?;
        }
        if let Some(trained_on) = trained_on {
            write!(f, "; trained on {trained_on}")?;
        }
        if let Some(mse) = validation_mse {
            write!(f, "; validation MSE {mse}")?;
        }
        if let Some(backbone) = backbone {
            write!(f, "; backbone {backbone}")?;
        }
        if !self.assumed.is_empty() {
            write!(f, "; assumed: {}", self.assumed.join(", "))?;
        }
        if self.ignored > 0 {
            write!(f, "; {} other tensors ignored", self.ignored)?;
        }
        Ok(())
    }
}
