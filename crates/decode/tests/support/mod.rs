//! The golden fixture: a toy Dream checkpoint and what the official code computed on it.

#![allow(unreachable_pub, reason = "shared between the tests of this crate")]
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::PathBuf;
use std::sync::Arc;

use demask_decode::dependency::Predictor;
use demask_decode::trained::{Adjust, PartHeader, Policy, Prior};
use demask_decode::{Assistant, Context};
use demask_model::checkpoint::Store;
use demask_model::{Backbone as _, LoadOptions, Rows, Transformer};
use serde_json::Value;

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy")
}

pub fn backbone() -> Transformer {
    Transformer::load(&folder(), &LoadOptions::default()).unwrap()
}

/// A predictor of the fixture, and the causal model of the APD fixture as assistant.
pub fn context() -> Context {
    let predictor = Predictor::load(&folder().join("predictor_row_i_minus_1.safetensors")).unwrap().0;
    Context {
        predictor: Some(Arc::new(predictor)),
        assistant: Some(assistant(&backbone())),
        policy: Some(Arc::new(Policy::load(&folder().join("../policy-toy/policy.safetensors")).unwrap())),
        sampler: Some(Arc::new(
            Adjust::load(&folder().join("../adjust-toy/drafter.safetensors"), backbone().spec()).unwrap(),
        )),
        prior: Some(Arc::new(prior(backbone().spec().vocab))),
        ..Context::default()
    }
}

/// A prior of three states with lively numbers.
pub fn prior(vocab: usize) -> Prior {
    let distribution = |count: usize, seed: usize| {
        let weights: Vec<f32> = (0..count).map(|i| 1.0 + ((i * 7 + seed * 13) % 11) as f32).collect();
        let sum: f32 = weights.iter().sum();
        weights.into_iter().map(move |w| w / sum).collect::<Vec<f32>>()
    };
    let rows = |width: usize, seed: usize| Rows {
        data: (0..3).flat_map(|row| distribution(width, seed + row)).collect(),
        width,
    };
    Prior::new(PartHeader::default(), distribution(3, 0), rows(3, 1), rows(vocab, 5)).unwrap()
}

pub fn verifier() -> Transformer {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/apd-toy/verifier");
    Transformer::load(&folder, &LoadOptions::default()).unwrap()
}

pub fn assistant(backbone: &Transformer) -> Arc<Assistant> {
    Arc::new(Assistant::new(Arc::new(verifier()), backbone.spec()).unwrap())
}

/// The spelling of a strategy that can run on the fixture.
pub fn spelled(name: &str) -> String {
    if name == "mi" { "mi:information=oracle".into() } else { name.into() }
}

pub fn expected() -> Value {
    serde_json::from_slice(&std::fs::read(folder().join("expected.json")).unwrap()).unwrap()
}

/// A safetensors file read plainly, any dtype as f64.
pub struct Arrays(Store);

impl Arrays {
    pub fn open(name: &str) -> Self {
        Self::open_in(&folder(), name)
    }

    pub fn open_in(folder: &std::path::Path, name: &str) -> Self {
        Self(Store::open_file(folder.join(name)).unwrap())
    }

    pub fn get(&self, name: &str) -> Vec<f64> {
        let (dtype, _, bytes) = self.0.bytes(name).unwrap();
        let words = |n: usize| bytes.chunks_exact(n);
        match dtype {
            safetensors::Dtype::F32 => {
                words(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect()
            }
            safetensors::Dtype::F64 => words(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
            safetensors::Dtype::I64 => {
                words(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f64).collect()
            }
            safetensors::Dtype::I32 => {
                words(4).map(|b| f64::from(i32::from_le_bytes(b.try_into().unwrap()))).collect()
            }
            safetensors::Dtype::U8 | safetensors::Dtype::BOOL => {
                bytes.iter().map(|&b| f64::from(b)).collect()
            }
            other => panic!("{name}: {other:?}"),
        }
    }

    pub fn ids(&self, name: &str) -> Vec<u32> {
        self.get(name).into_iter().map(|v| v as u32).collect()
    }

    pub fn f32(&self, name: &str) -> Vec<f32> {
        self.get(name).into_iter().map(|v| v as f32).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

pub fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}
