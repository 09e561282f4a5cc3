//! Fast-dLLM v2's rule: the first token of a block is decided alone, from the last row of the finished block before it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use demask_decode::observer::Recorder;
use demask_decode::{Canvas, Context, Decoder, EosPolicy, Job, Options, StepRecord, Suppression};
use demask_model::checkpoint::Dtype;
use demask_model::config::Shift;
use demask_model::{Backbone as _, Grid, Precision, Query, Spec, Transformer, synthetic};
use serde_json::json;

const BLOCK: usize = 8;

fn model() -> Transformer {
    let config = json!({
        "architectures": ["Fast_dLLM_QwenForCausalLM"], "vocab_size": 151, "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6, "rope_theta": 1e4, "tie_word_embeddings": false, "bd_size": BLOCK, "mask_token_id": 150,
        "eos_token_id": 149
    });
    let spec = Spec::from_json(&config.to_string(), Path::new("made-up/config.json")).unwrap();
    assert_eq!((spec.shift, spec.block), (Shift::Block, Some(BLOCK)));
    synthetic::transformer(spec, Precision::Float(Dtype::F32), 5).unwrap()
}

/// Decodes with a strategy that takes every mask it is shown, and returns what each step did.
fn decode(model: &Transformer, prompt: &[u32], length: usize, cache: &str) -> Vec<StepRecord> {
    let spec = model.spec();
    let canvas = Canvas::in_blocks(prompt, length, None, spec, &spec.ids).unwrap();
    let recorder = Arc::new(Mutex::new(Recorder::default()));
    let options = Options {
        eos: EosPolicy::None,
        cache: cache.parse().unwrap(),
        suppression: Suppression { ids: vec![spec.ids.mask], ..Suppression::default() },
        ..Options::default()
    };
    let strategy = "entropy:k=100".parse().unwrap();
    let observer = Box::new(recorder.clone());
    let mut jobs = [Job::new(canvas, &strategy, &Context::default(), options, observer).unwrap()];
    Decoder::new(model).run(&mut jobs).unwrap();
    recorder.lock().unwrap().records.clone()
}

/// The most probable token behind these: the model's answer in their last row, the mask apart.
fn behind(model: &Transformer, tokens: &[u32]) -> u32 {
    let mut canvas = tokens.to_vec();
    canvas.resize(tokens.len() + BLOCK, model.spec().ids.mask);
    let query = Query {
        tokens: &canvas,
        predict: &[tokens.len()],
        blocks: Some(Grid::new(0, BLOCK)),
        ..Query::default()
    };
    let pass = model.forward(&mut [query]).unwrap().remove(0);
    let mut logits = Vec::new();
    model.logits(&pass.predicting, &mut |_, rows| logits.extend_from_slice(rows)).unwrap();
    logits[model.spec().ids.mask as usize] = f32::NEG_INFINITY;
    let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a)));
    best.unwrap() as u32
}

#[test]
fn the_first_token_of_a_block_is_decided_alone_from_the_row_before() {
    let model = model();
    // A prompt within a block, one that ends with a block, one that reaches into its second block.
    for prompt in [3, BLOCK, 13] {
        let prompt: Vec<u32> = (0..prompt as u32).map(|i| i * 37 % 149).collect();
        for cache in ["none", "blocks"] {
            let what = format!("a prompt of {} with cache {cache}", prompt.len());
            let (mut tokens, mut firsts) = (prompt.clone(), 0);
            for step in decode(&model, &prompt, 21, cache) {
                let mut commits: Vec<_> = step.commits.iter().map(|c| (c.position, c.token)).collect();
                commits.sort_unstable();
                let start = tokens.len();
                let positions: Vec<usize> = commits.iter().map(|c| c.0).collect();
                if start.is_multiple_of(BLOCK) {
                    assert_eq!(positions, [start], "{what}");
                    assert_eq!(commits[0].1, behind(&model, &tokens), "{what}: position {start}");
                    firsts += 1;
                } else {
                    let end = start.next_multiple_of(BLOCK);
                    assert_eq!(
                        positions,
                        (start..end).collect::<Vec<_>>(),
                        "{what}: the rest of the block at once"
                    );
                }
                tokens.extend(commits.iter().map(|c| c.1));
            }
            let last = (prompt.len() + 21).next_multiple_of(BLOCK);
            assert_eq!(tokens.len(), last, "{what}: whole blocks");
            assert_eq!(firsts, last / BLOCK - prompt.len().div_ceil(BLOCK), "{what}");
        }
    }
}
