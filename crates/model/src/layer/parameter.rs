//! What a layer says about its own parameters: name, shape, GGUF name, whether it may be quantised, whether every row
//! meets it. Loading, the memory estimate, quantising, GGUF and the layout of training all ask this.
//!
//! Invariant: a layer lists its parameters in one function and is made from that same list, so no tensor is named twice.

use std::fmt;

use candle_core::Tensor;

use crate::error::{Error, Result};
use crate::layer::{Embedding, Linear};

/// What a tensor is for, spelled as GGUF names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Role(pub &'static str);

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Tensor names of one family, without suffix.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    /// Prefix of a block's tensors; `{}` is the number of the layer.
    pub layer: &'static str,
    /// Name of each role, relative to the prefix inside a block; `{}` is the number of the expert.
    pub tensors: &'static [(Role, &'static str)],
}

/// How a parameter is used, and so how it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Rows are looked up; where the head is tied to it, it is multiplied by as well.
    Table {
        /// Whether the head is tied to it.
        tied: bool,
    },
    /// Multiplied by, `[out, in]`; may be quantised.
    Map {
        /// Whether a bias `[out]` belongs to it.
        bias: bool,
    },
    /// Multiplied by, but kept as stored: it decides, and a rounded decision is another one.
    Exact,
    /// A vector: the scale of a norm.
    Scale,
    /// A vector: the bias of a norm.
    Bias,
    /// A vector that is added, stored under its bare name.
    Added,
}

/// One parameter of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// What it is for.
    pub role: Role,
    /// Its block; `None` outside of blocks.
    pub layer: Option<usize>,
    /// Its name in a checkpoint, without suffix.
    pub name: String,
    /// Its shape, outermost first.
    pub shape: Vec<usize>,
    /// How it is used.
    pub kind: Use,
    /// Number of the expert it belongs to, and how many there are.
    pub expert: Option<(usize, usize)>,
}

impl Parameter {
    /// Name of its tensor in a checkpoint.
    pub fn tensor(&self) -> String {
        match self.kind {
            Use::Added => self.name.clone(),
            Use::Bias => format!("{}.bias", self.name),
            _ => format!("{}.weight", self.name),
        }
    }

    /// Name of its bias in a checkpoint, where it has one.
    pub fn bias(&self) -> Option<String> {
        (self.kind == Use::Map { bias: true }).then(|| format!("{}.bias", self.name))
    }

    /// Every tensor a checkpoint holds for it, with its shape.
    pub fn tensors(&self) -> impl Iterator<Item = (String, Vec<usize>)> {
        let bias = self.bias().map(|name| (name, self.shape[..1].to_vec()));
        std::iter::once((self.tensor(), self.shape.clone())).chain(bias)
    }

    /// Its name in a GGUF file, without suffix; experts of one layer share a tensor there.
    pub fn gguf(&self) -> String {
        match self.layer {
            Some(layer) => format!("blk.{layer}.{}", self.role.0),
            None => self.role.0.to_owned(),
        }
    }

    /// Name of its tensor in a GGUF file.
    pub fn gguf_tensor(&self) -> String {
        format!(
            "{}.{}",
            self.gguf(),
            if matches!(self.kind, Use::Added | Use::Bias) { "bias" } else { "weight" }
        )
    }

    /// Whether it is multiplied by and may be stored as bytes.
    pub fn quantises(&self) -> bool {
        matches!(self.kind, Use::Map { .. } | Use::Table { tied: true })
    }

    /// Whether it is stored in floating point even where maps are bytes.
    pub fn stays(&self) -> bool {
        !matches!(self.kind, Use::Map { .. })
    }

    /// Its shape as a matrix.
    ///
    /// # Panics
    /// If it is a vector.
    pub fn matrix(&self) -> [usize; 2] {
        [self.shape[0], self.shape[1]]
    }

    /// Elements, its bias included.
    pub fn elements(&self) -> usize {
        self.tensors().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }
}

/// A place in a family's checkpoint: inside a block, or outside of all.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The family's names.
    pub names: Names,
    /// The block.
    pub layer: Option<usize>,
}

impl Place {
    /// A linear map `[out, in]`.
    pub fn map(&self, role: Role, shape: [usize; 2], bias: bool) -> Result<Parameter> {
        self.parameter(role, &shape, Use::Map { bias }, None)
    }

    /// A linear map of one expert of `count`.
    pub fn expert(&self, role: Role, shape: [usize; 2], index: usize, count: usize) -> Result<Parameter> {
        self.parameter(role, &shape, Use::Map { bias: false }, Some((index, count)))
    }

    /// The scale of a norm.
    pub fn scale(&self, role: Role, len: usize) -> Result<Parameter> {
        self.parameter(role, &[len], Use::Scale, None)
    }

    /// Any parameter.
    pub fn parameter(
        &self,
        role: Role,
        shape: &[usize],
        kind: Use,
        expert: Option<(usize, usize)>,
    ) -> Result<Parameter> {
        let named = self.names.tensors.iter().find(|(known, _)| *known == role);
        let (_, name) = named
            .ok_or_else(|| Error::Query(format!("the model's family has no name for its tensor {role:?}")))?;
        let prefix = match self.layer {
            Some(layer) => self.names.layer.replace("{}", &layer.to_string()),
            None => String::new(),
        };
        let name = match expert {
            Some((index, _)) => name.replace("{}", &index.to_string()),
            None => (*name).to_owned(),
        };
        let (name, shape) = (format!("{prefix}{name}"), shape.to_vec());
        Ok(Parameter { role, layer: self.layer, name, shape, kind, expert })
    }
}

/// Where a Transformer takes its parameters from: a mapped checkpoint, or tensors to train.
pub trait Parameters {
    /// A table `[rows, width]` to look up.
    fn embedding(&mut self, which: &Parameter) -> Result<Embedding>;
    /// A linear map with its bias.
    fn linear(&mut self, which: &Parameter) -> Result<Linear>;
    /// A vector, as f32 on the compute device.
    fn vector(&mut self, which: &Parameter) -> Result<Tensor>;
    /// Whether layers are to be composed of candle's own operations although the kernels could run them.
    fn composed(&self) -> bool {
        false
    }
}
