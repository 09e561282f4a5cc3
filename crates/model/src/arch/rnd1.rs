//! RND1-Base (30B-A3B): Qwen3-30B-A3B made bidirectional. Row `i-1` predicts position `i`, as in its parent.

use super::{Architecture, Facts, hub, refuse};
use crate::config::{Shift, Spec};

const FACTS: Facts = Facts {
    shift: Shift::Global,
    qk_norm: true,
    mask: Some(151_669),
    // Its class sets it to false whatever the config says.
    ignores: &["is_causal"],
    ..Facts::PLAIN
};

pub(super) const RND1: Architecture = Architecture {
    name: "rnd1",
    classes: &["RND1LM"],
    model_types: &["rnd1"],
    names: hub::NAMES,
    facts: FACTS,
    spec: |fields| {
        refuse::unless_false(fields, &["attention_bias"])?;
        let spec = hub::spec(fields, "rnd1", &FACTS)?;
        let experts = hub::qwen3_experts(fields, spec.layers)?;
        Ok(Spec { experts: Some(experts), ..spec })
    },
};
