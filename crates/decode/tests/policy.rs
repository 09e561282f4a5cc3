//! Learned policies: whole decodings of the published code, with its draws, and the strategy on the engine.

mod support;

use demask_decode::trained::Policy;
use demask_decode::trained::policy::fire;
use demask_model::{Backbone, Query, Transformer};
use serde_json::Value;

const MASK: u32 = 1;

/// The uniforms of the fixtures.
fn uniform(seed: u64, call: u64, k: u64) -> f64 {
    let mut x = (seed << 48).wrapping_add(call << 32).wrapping_add(k).wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (((x ^ (x >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// Top-1 probability and token at every cell of the response.
fn opinions(backbone: &Transformer, tokens: &[u32], start: usize) -> Vec<(f32, u32)> {
    let predict: Vec<usize> = (start..tokens.len()).collect();
    let mut batch = [Query { tokens, predict: &predict, ..Query::default() }];
    let passes = backbone.forward(&mut batch).unwrap();
    let (vocab, mut out) = (backbone.spec().vocab, Vec::new());
    backbone
        .logits(&passes[0].predicting, &mut |_, logits| {
            for row in logits.chunks_exact(vocab) {
                let (best, max) =
                    row.iter().enumerate().fold((0, f32::MIN), |a, (i, &z)| if z > a.1 { (i, z) } else { a });
                let sum: f32 = row.iter().map(|z| (z - max).exp()).sum();
                out.push((1.0 / sum, best as u32));
            }
        })
        .unwrap();
    out
}

#[test]
fn bernoulli_argmax_follows_the_published_traces() {
    let folder = support::folder().join("../policy-toy");
    let policy = Policy::load(&folder.join("policy.safetensors")).unwrap();
    let expected: Value =
        serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let (backbone, prompts) = (support::backbone(), support::expected()["prompts"].clone());
    let mut count = 0;
    for trace in expected["traces"].as_array().unwrap().iter().filter(|t| t["mode"] == "bernoulli-argmax") {
        let mut tokens = support::ids(&prompts[trace["prompt"].as_u64().unwrap() as usize]);
        let start = tokens.len();
        tokens.resize(start + 40, MASK);
        let number = |key: &str| trace[key].as_u64().unwrap();
        let (block, seed) = (number("block_length") as usize, number("seed"));
        let temperature = trace["policy_temperature"].as_f64().unwrap() as f32;
        for (pass, want) in trace["unmasked"].as_array().unwrap().iter().enumerate() {
            let seen = opinions(&backbone, &tokens, start);
            let masked: Vec<bool> = tokens[start..].iter().map(|&t| t == MASK).collect();
            let confidence: Vec<f32> = seen.iter().map(|s| s.0).collect();
            let logits = policy.logits(&masked, &confidence, pass as f32 / 40.0);
            let first = masked.iter().position(|m| *m).unwrap();
            let own: Vec<usize> =
                (first / block * block..(first / block + 1) * block).filter(|&c| masked[c]).collect();
            let mut fired = fire(&logits, &own, temperature, 1.0, |c| uniform(seed, pass as u64, c as u64));
            fired.sort_unstable();
            let mut want: Vec<usize> = support::ids(want).iter().map(|&o| o as usize).collect();
            want.sort_unstable();
            assert_eq!(fired, want, "prompt {} pass {pass}", trace["prompt"]);
            fired.iter().for_each(|&c| tokens[start + c] = seen[c].1);
        }
        assert_eq!(tokens[start..], support::ids(&trace["response"]));
        count += 1;
    }
    assert!(count > 4, "{count} traces");
}
