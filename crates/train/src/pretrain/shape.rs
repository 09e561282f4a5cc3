//! The shape of a backbone between a config and a [`Spec`]: Dream's layout, vocabulary and special ids of a tokenizer.

use demask_model::config::Shift;
use demask_model::text::Tokenizer;
use demask_model::{Spec, SpecialIds};

use super::config::Model;
use crate::error::{Error, Result};

impl Model {
    /// The shape of an existing backbone.
    pub fn of(spec: &Spec) -> Self {
        Self {
            hidden: spec.hidden,
            layers: spec.layers,
            heads: spec.heads,
            kv_heads: spec.kv_heads,
            ffn: spec.ffn,
            tied: spec.tied,
            rope_theta: spec.rope_theta,
            max_positions: spec.max_positions,
        }
    }

    /// A backbone of this shape with the tokenizer's vocabulary and ids; a tokenizer without a mask or an end is refused.
    pub fn spec(&self, tokenizer: &Tokenizer) -> Result<Spec> {
        let special = |role: &str| tokenizer.special(role);
        let needed = |role: &str| {
            special(role).ok_or_else(|| Error::Config {
                path: tokenizer.settings().path().to_owned(),
                problem: format!("it names no {role}"),
            })
        };
        let ids = SpecialIds {
            mask: needed("mask_token")?,
            eos: vec![needed("eos_token")?],
            pad: special("pad_token"),
            bos: special("bos_token"),
        };
        Ok(Spec {
            vocab: tokenizer.size(),
            hidden: self.hidden,
            layers: self.layers,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.hidden / self.heads,
            ffn: self.ffn,
            rope_theta: self.rope_theta,
            rotary: self.hidden / self.heads,
            max_positions: self.max_positions,
            tied: self.tied,
            qkv_bias: true,
            shift: Shift::Global,
            ..Spec::plain("dream", ids)
        })
    }
}

#[cfg(test)]
mod tests {
    use demask_model::text::TokenizerSettings;

    use super::*;

    fn tokenizer(settings: &str) -> Tokenizer {
        let json = br#"{"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "<m>": 2, "<e>": 3}, "unk_token": "a"}}"#;
        let settings = TokenizerSettings::from_bytes("tokenizer_config.json", settings.as_bytes()).unwrap();
        Tokenizer::from_bytes("tokenizer.json", json, settings, 4).unwrap()
    }

    #[test]
    fn a_shape_survives_its_spec_and_needs_a_mask_and_an_end() {
        let shape = Model {
            hidden: 8,
            layers: 2,
            heads: 2,
            kv_heads: 1,
            ffn: 16,
            tied: true,
            rope_theta: 10_000.0,
            max_positions: 32,
        };
        let spec = shape.spec(&tokenizer(r#"{"mask_token": "<m>", "eos_token": "<e>"}"#)).unwrap();
        assert_eq!((spec.vocab, spec.head_dim, spec.ids.mask, spec.ids.eos.as_slice()), (4, 4, 2, &[3][..]));
        assert_eq!(Model::of(&spec), shape);
        let error = shape.spec(&tokenizer(r#"{"eos_token": "<e>"}"#)).unwrap_err().to_string();
        assert!(error.contains("tokenizer_config.json") && error.contains("mask_token"), "{error}");
    }
}
