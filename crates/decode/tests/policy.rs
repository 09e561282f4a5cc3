//! Learned policies: whole decodings of the published code, with its draws, and the strategy on the engine.

mod support;

use demask_decode::trained::Policy;
use demask_decode::trained::policy::{fire, plackett_luce, surest};
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

/// What a mode unmasks in a pass, with the fixtures' draws; `calls` counts them.
fn unmasked(trace: &Value, logits: &[f32], own: &[usize], calls: &mut u64) -> Vec<usize> {
    let seed = trace["seed"].as_u64().unwrap();
    let temperature = trace["policy_temperature"].as_f64().unwrap() as f32;
    let call = *calls;
    if trace["mode"] == "dpls" {
        *calls += 2;
        let gumbel = |cell: Option<usize>| -(-uniform(seed, call + 1, cell.unwrap_or(40) as u64).ln()).ln();
        return plackett_luce(logits, own, 0.0, uniform(seed, call, 0), gumbel);
    }
    *calls += 1;
    let fired = fire(logits, own, temperature, 1.0, |c| uniform(seed, call, c as u64));
    match trace["mode"] == "bernoulli-argmax" && fired.is_empty() {
        true => surest(logits, own).into_iter().collect(),
        false => fired,
    }
}

#[test]
fn every_mode_follows_the_published_traces() {
    let folder = support::folder().join("../policy-toy");
    let policy = Policy::load(&folder.join("policy.safetensors")).unwrap();
    let expected: Value =
        serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let (backbone, prompts) = (support::backbone(), support::expected()["prompts"].clone());
    let mut count = 0;
    for trace in expected["traces"].as_array().unwrap() {
        let name = format!("{} prompt {} block {}", trace["mode"], trace["prompt"], trace["block_length"]);
        let mut tokens = support::ids(&prompts[trace["prompt"].as_u64().unwrap() as usize]);
        let start = tokens.len();
        tokens.resize(start + 40, MASK);
        let length = trace["block_length"].as_u64().unwrap() as usize;
        let (mut block, mut in_block, mut calls) = (0, 0, 0);
        let all = trace["unmasked"].as_array().unwrap();
        for (pass, want) in all.iter().enumerate() {
            let seen = opinions(&backbone, &tokens, start);
            let masked: Vec<bool> = tokens[start..].iter().map(|&t| t == MASK).collect();
            // A block has at most as many passes as cells, and what it leaves behind stays masked.
            while in_block == length || !masked[block * length..(block + 1) * length].contains(&true) {
                (block, in_block) = (block + 1, 0);
            }
            in_block += 1;
            let confidence: Vec<f32> = seen.iter().map(|s| s.0).collect();
            let logits = policy.logits(&masked, &confidence, pass as f32 / 40.0);
            let own: Vec<usize> = (block * length..(block + 1) * length).filter(|&c| masked[c]).collect();
            let mut fired = unmasked(trace, &logits, &own, &mut calls);
            fired.sort_unstable();
            let mut want: Vec<usize> = support::ids(want).iter().map(|&o| o as usize).collect();
            want.sort_unstable();
            assert_eq!(fired, want, "{name} pass {pass}");
            fired.iter().for_each(|&c| tokens[start + c] = seen[c].1);
        }
        assert_eq!(all.len() as u64, trace["steps_taken"].as_u64().unwrap(), "{name}");
        assert_eq!(tokens[start..], support::ids(&trace["response"]), "{name}");
        count += 1;
    }
    assert_eq!(count, 16);
}
