//! ADJUST against its review code: the layer fed its own output, and whole decodings.

mod support;

use std::sync::{Arc, Mutex};

use demask_decode::observer::Recorder;
use demask_decode::trained::Adjust;
use demask_decode::{Canvas, Decoder, EosPolicy, Job, Options, Suppression};
use demask_model::{Backbone, Query, Rows};
use serde_json::Value;

fn folder() -> std::path::PathBuf {
    support::folder().join("../adjust-toy")
}

#[test]
fn the_layer_is_that_of_the_review_code_over_three_depths() {
    let backbone = support::backbone();
    let layer = Adjust::load(&folder().join("drafter.safetensors"), backbone.spec()).unwrap();
    let arrays = support::Arrays::open_in(&folder(), "expected.safetensors");
    let width = backbone.spec().hidden;
    let mut hidden = Rows { data: arrays.f32("forward.base_hidden"), width };
    // What it begins with is what this engine's backbone says of the first canvas: for each position the row that predicts it.
    let tokens = arrays.ids("forward.ids.0");
    let all: Vec<usize> = (0..tokens.len()).collect();
    let mut batch = [Query { tokens: &tokens, hidden: Some((&all, layer.hidden_row)), ..Query::default() }];
    let own = backbone.forward(&mut batch).unwrap().remove(0).hidden.unwrap();
    let worst = own.data.iter().zip(&hidden.data).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(own.len() == hidden.len() && worst < 1e-4, "{worst}");
    for depth in 1..=3 {
        let ids = arrays.ids(&format!("forward.ids.{depth}"));
        hidden = layer.forward(&backbone.embed(&ids).unwrap(), &hidden);
        let want = arrays.f32(&format!("forward.hidden.{depth}"));
        let worst = hidden.data.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 5e-4, "depth {depth}: {worst}");
        let masked: Vec<usize> = (0..ids.len()).filter(|&p| ids[p] == backbone.spec().ids.mask).collect();
        let rows = Rows { data: masked.iter().flat_map(|&p| hidden.row(p)).copied().collect(), width };
        let (vocab, want) = (backbone.spec().vocab, arrays.f32(&format!("forward.logprobs.{depth}")));
        let mut worst = 0.0_f32;
        let mut compare = |first: usize, chunk: &mut [f32]| {
            for (row, logits) in chunk.chunks_exact(vocab).enumerate() {
                let lse = demask_kernels::softmax_stats(logits).logsumexp;
                let want = &want[(first + row) * vocab..(first + row + 1) * vocab];
                // The published code bars the mask in the backbone's logits only, so all tokens are here.
                logits.iter().zip(want).for_each(|(z, want)| worst = worst.max((z - lse - want).abs()));
            }
        };
        backbone.logits(&rows, &mut compare).unwrap();
        assert_eq!(want.len(), masked.len() * vocab);
        assert!(worst < 1e-3, "depth {depth}: {worst}");
    }
}

#[test]
fn decodings_are_those_of_the_review_code() {
    let (backbone, context) = (support::backbone(), support::context());
    let expected: Value =
        serde_json::from_slice(&std::fs::read(folder().join("expected.json")).unwrap()).unwrap();
    let prompts = support::expected()["prompts"].clone();
    let mut count = 0;
    for trace in expected["traces"].as_array().unwrap() {
        // Without the layer the same loop is the order by entropy on plain marginals.
        let layer = trace["drafter"] == true;
        let prompt = support::ids(&prompts[trace["prompt"].as_u64().unwrap() as usize]);
        let canvas = Canvas::generate(&prompt, 40, &backbone.spec().ids).unwrap();
        let suppression = Suppression { ids: vec![backbone.spec().ids.mask], ..Suppression::default() };
        let options = Options { eos: EosPolicy::None, suppression, ..Options::default() };
        let recorder = Arc::new(Mutex::new(Recorder::default()));
        let name = if layer { "adjust" } else { "entropy" };
        let strategy = format!("{name}:steps={}", trace["steps"]).parse().unwrap();
        let mut jobs = [Job::new(canvas, &strategy, &context, options, Box::new(recorder.clone())).unwrap()];
        Decoder::new(&backbone).run(&mut jobs).unwrap();
        let records = &recorder.lock().unwrap().records;
        let name = format!("{name}, prompt {} steps {}", trace["prompt"], trace["steps"]);
        for (record, want) in records.iter().zip(trace["committed"].as_array().unwrap()) {
            let mut got: Vec<u32> =
                record.commits.iter().map(|c| (c.position - prompt.len()) as u32).collect();
            let mut want = support::ids(want);
            got.sort_unstable();
            want.sort_unstable();
            assert_eq!(got, want, "{name} pass {}", record.step);
            let inner = if layer { record.commits.len().saturating_sub(1) } else { 0 };
            assert_eq!(record.inner_calls, inner);
        }
        assert_eq!(jobs[0].canvas().tokens()[prompt.len()..], support::ids(&trace["response"]), "{name}");
        count += 1;
    }
    assert_eq!(count, 39);
}
