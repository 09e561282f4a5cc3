//! ADJUST against its review code: the layer fed its own output, and whole decodings.

mod support;

use std::sync::{Arc, Mutex};

use demask_decode::observer::Recorder;
use demask_decode::trained::Adjust;
use demask_decode::{Canvas, Decoder, EosPolicy, Job, Options, Suppression};
use demask_model::{Backbone, Rows};
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
    for depth in 1..=3 {
        let ids = arrays.ids(&format!("forward.ids.{depth}"));
        hidden = layer.forward(&backbone.embed(&ids).unwrap(), &hidden);
        let want = arrays.f32(&format!("forward.hidden.{depth}"));
        let worst = hidden.data.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 5e-4, "depth {depth}: {worst}");
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
        // Without the layer it is the order by entropy with Dream's schedule, which its own traces pin.
        if trace["drafter"] != true || trace["smallest_gap"].as_f64().unwrap() < 1e-4 {
            continue;
        }
        let prompt = support::ids(&prompts[trace["prompt"].as_u64().unwrap() as usize]);
        let canvas = Canvas::generate(&prompt, 40, &backbone.spec().ids).unwrap();
        let suppression = Suppression { ids: vec![backbone.spec().ids.mask], ..Suppression::default() };
        let options = Options { eos: EosPolicy::None, suppression, ..Options::default() };
        let recorder = Arc::new(Mutex::new(Recorder::default()));
        let strategy = format!("adjust:steps={}", trace["steps"]).parse().unwrap();
        let mut jobs = [Job::new(canvas, &strategy, &context, options, Box::new(recorder.clone())).unwrap()];
        Decoder::new(&backbone).run(&mut jobs).unwrap();
        let records = &recorder.lock().unwrap().records;
        let name = format!("prompt {} steps {}", trace["prompt"], trace["steps"]);
        for (record, want) in records.iter().zip(trace["committed"].as_array().unwrap()) {
            let mut got: Vec<u32> =
                record.commits.iter().map(|c| (c.position - prompt.len()) as u32).collect();
            let mut want = support::ids(want);
            got.sort_unstable();
            want.sort_unstable();
            assert_eq!(got, want, "{name} pass {}", record.step);
            assert_eq!(record.inner_calls, record.commits.len().saturating_sub(1));
        }
        assert_eq!(jobs[0].canvas().tokens()[prompt.len()..], support::ids(&trace["response"]), "{name}");
        count += 1;
    }
    assert!(count > 5, "{count} traces");
}
