//! What the tests share: the golden fixture, a toy backbone, responses of its own vocabulary.

#![allow(unreachable_pub, reason = "shared between the tests of this crate")]
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use demask_engine::Shard;
use demask_model::checkpoint::Store;
use demask_model::{LoadOptions, Transformer};
use demask_train::tv_cache::{
    Claim, Generated, Generator, Outcome, Response, ResponseSource, TvCacheSettings,
};
use serde_json::Value;

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy")
}

pub fn backbone() -> Transformer {
    Transformer::load(&folder(), &LoadOptions::default()).unwrap()
}

pub fn expected() -> Value {
    serde_json::from_slice(&std::fs::read(folder().join("expected.json")).unwrap()).unwrap()
}

/// An array of the fixture, any dtype as f64.
pub fn array(name: &str) -> Vec<f64> {
    let store = Store::open_file(folder().join("expected.safetensors")).unwrap();
    let (dtype, _, bytes) = store.bytes(name).unwrap();
    let words = |n: usize| bytes.chunks_exact(n);
    match dtype {
        safetensors::Dtype::F32 => {
            words(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect()
        }
        safetensors::Dtype::F64 => words(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
        safetensors::Dtype::I64 => {
            words(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f64).collect()
        }
        other => panic!("{name}: {other:?}"),
    }
}

pub fn ids(name: &str) -> Vec<u32> {
    array(name).into_iter().map(|v| v as u32).collect()
}

/// Problems of the fixture with their answers, over and over under new ids; some rows are bad.
pub fn responses(count: usize) -> impl ResponseSource {
    let expected = expected();
    let list = |value: &Value| -> Vec<u32> {
        value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
    };
    let lists =
        |name: &str| -> Vec<Vec<u32>> { expected[name].as_array().unwrap().iter().map(list).collect() };
    let (prompts, answers) = (lists("prompts"), lists("answers"));
    let make = move |index: usize| {
        if index % 11 == 5 {
            return Err("is bad on purpose".to_owned());
        }
        let (prompt, mut response) =
            (prompts[index % prompts.len()].clone(), answers[index % answers.len()].clone());
        // The end of the answer is the cache's to add.
        response.pop();
        Ok(Response { id: format!("toy-{index}"), prompt, response })
    };
    Generated { identity: format!("toy:{count}"), len: count, make }
}

pub fn settings() -> TvCacheSettings {
    TvCacheSettings {
        seed: 7,
        masks_per_response: 2,
        repeat_share: 0.3,
        responses_per_file: 4,
        ..TvCacheSettings::default()
    }
}

pub fn generate(
    source: &dyn ResponseSource,
    settings: &TvCacheSettings,
    folder: &Path,
    token_budget: usize,
    shard: Shard,
) -> Outcome {
    let backbone = backbone();
    let (context, claim) = (None, Claim::Lock);
    let generator =
        Generator { backbone: &backbone, source, settings, folder, token_budget, shard, context, claim };
    generator.run(&mut ()).unwrap()
}

/// Every file of a folder with its bytes, hidden ones too.
pub fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            files
                .extend(contents(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            files.insert(name, std::fs::read(&path).unwrap());
        }
    }
    files
}

/// Asserts that two folders hold the same bytes.
pub fn assert_same(a: &Path, b: &Path) {
    let (a, b) = (contents(a), contents(b));
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (name, bytes) in &a {
        assert!(*bytes == b[name], "{name} differs: {} and {} bytes", bytes.len(), b[name].len());
    }
}
