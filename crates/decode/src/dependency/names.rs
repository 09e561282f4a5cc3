//! Which part of a predictor a tensor is, by its name: conventions differ, the parts do not.

use std::fmt;

use demask_model::names_predictor;

/// Part of a predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// `W_Q`.
    Query,
    /// `W_K`.
    Key,
    /// `W = W_Q W_Kᵀ`.
    Merged,
    /// A layer of the projection before the heads.
    Projection,
    /// Weights of the heads.
    Mix,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Query => "W_Q",
            Self::Key => "W_K",
            Self::Merged => "merged W",
            Self::Projection => "projection",
            Self::Mix => "mix of heads",
        })
    }
}

/// What a name says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    /// The part.
    pub(super) role: Role,
    /// Number of the head, or of the layer.
    pub(super) index: usize,
    /// It is a layer's bias.
    pub(super) bias: bool,
}

/// Tensors that can belong to a predictor: in a backbone's own checkpoint only those marked as such.
pub(super) fn candidates<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let names: Vec<&str> = names.collect();
    let marked = |name: &&str| names_predictor(name);
    if names.iter().any(marked) {
        return names.into_iter().filter(marked).collect();
    }
    let backbone =
        |name: &str| ["layers.", "blocks.", "self_attn", "lm_head", "embed"].iter().any(|b| name.contains(b));
    names.into_iter().filter(|name| !backbone(name)).collect()
}

/// Reads a name like `predictor.heads.0.q_proj.weight`, `W_Q` or `projection.first`.
pub(super) fn parse(name: &str) -> Option<Meaning> {
    let mut path: Vec<&str> = name.split('.').collect();
    let bias = path.last() == Some(&"bias");
    if bias || path.last() == Some(&"weight") {
        path.pop();
    }
    let last = path.pop()?.to_lowercase();
    if let Some(index) = layer(&path, &last) {
        return Some(Meaning { role: Role::Projection, index, bias });
    }
    let digits = last.len() - last.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (word, number) = last.split_at(last.len() - digits);
    let number = number.parse().ok().or_else(|| path.iter().rev().find_map(|part| part.parse().ok()));
    Some(Meaning { role: role(word)?, index: number.unwrap_or(0), bias })
}

fn role(word: &str) -> Option<Role> {
    let plain = word.replace(['_', '-'], "");
    let bare = ["projection", "proj", "linear", "layer", "matrix", "weight"]
        .iter()
        .fold(plain.clone(), |word, affix| word.replace(affix, ""));
    known(&plain).or_else(|| known(&bare))
}

fn known(word: &str) -> Option<Role> {
    match word {
        "q" | "query" | "queries" | "wq" | "wquery" | "toq" => Some(Role::Query),
        "k" | "key" | "keys" | "wk" | "wkey" | "tok" => Some(Role::Key),
        "w" | "qk" | "wqk" | "merged" | "wmerged" | "mergedw" | "bilinear" => Some(Role::Merged),
        "mix" | "headmix" | "headweights" => Some(Role::Mix),
        _ => None,
    }
}

/// Number of a projection's layer: `projection.first`, `proj.0`, `mlp.2`.
fn layer(path: &[&str], last: &str) -> Option<usize> {
    let parent = path
        .last()
        .is_some_and(|p| ["projection", "proj", "mlp", "encoder"].contains(&p.to_lowercase().as_str()));
    match last {
        _ if !parent => None,
        "first" => Some(0),
        "second" => Some(1),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_many_habits() {
        let cases = [
            ("w_q", Role::Query, 0),
            ("w_k", Role::Key, 0),
            ("W_Q", Role::Query, 0),
            ("predictor.q_proj.weight", Role::Query, 0),
            ("demask.query.weight", Role::Query, 0),
            ("dependency_head.key_projection.weight", Role::Key, 0),
            ("heads.3.w_k", Role::Key, 3),
            ("head.2.w", Role::Merged, 2),
            ("wq1", Role::Query, 1),
            ("predictor.W_qk", Role::Merged, 0),
            ("predictor.bilinear.weight", Role::Merged, 0),
            ("projection.first", Role::Projection, 0),
            ("predictor.mlp.2.weight", Role::Projection, 2),
            ("mix", Role::Mix, 0),
        ];
        for (name, role, index) in cases {
            assert_eq!(parse(name), Some(Meaning { role, index, bias: false }), "{name}");
        }
        assert!(parse("predictor.q_proj.bias").unwrap().bias);
        assert_eq!(parse("predictor.norm.weight"), None);
    }

    #[test]
    fn a_backbone_is_no_predictor() {
        let backbone = ["lm_head.weight", "model.layers.0.self_attn.q_proj.weight"];
        assert!(candidates(backbone.into_iter()).is_empty());
        let with = [backbone[1], "demask_predictor.q_proj.weight"];
        assert_eq!(candidates(with.into_iter()), ["demask_predictor.q_proj.weight"]);
        assert_eq!(candidates(["w_q", "w_k"].into_iter()), ["w_q", "w_k"]);
    }
}
