//! Step by step, token for token: decoding equals what Dream's and KLASS's own code did on the toy.

mod support;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use demask_decode::registry::Context;
use demask_decode::{Canvas, Decoder, EosPolicy, Job, Observer, Options, StepRecord, StrategySpec};
use demask_model::{Backbone, Transformer};
use serde_json::Value;

/// Keeps the response after every step.
#[derive(Clone, Default)]
struct Responses(Arc<Mutex<Vec<Vec<u32>>>>);

impl Observer for Responses {
    fn on_step(&mut self, _: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        self.0.lock().unwrap().push(canvas.tokens()[canvas.response()].to_vec());
        ControlFlow::Continue(())
    }
}

fn decode(
    backbone: &Transformer,
    prompt: &[u32],
    length: usize,
    strategy: &str,
) -> (Vec<u32>, Vec<Vec<u32>>) {
    let responses = Responses::default();
    let canvas = Canvas::generate(prompt, length, &backbone.spec().ids).unwrap();
    let spec: StrategySpec = strategy.parse().unwrap();
    let options = Options { eos: EosPolicy::None, ..Options::default() };
    let job = Job::new(canvas, &spec, &Context::default(), options, Box::new(responses.clone())).unwrap();
    let mut jobs = [job];
    Decoder::new(backbone).run(&mut jobs).unwrap();
    let history = responses.0.lock().unwrap().clone();
    (jobs[0].canvas().tokens().to_vec(), history)
}

fn history(trace: &Value) -> Vec<Vec<u32>> {
    trace["history"].as_array().unwrap().iter().map(support::ids).collect()
}

/// The official loop keeps running after the last mask is gone; ours stops there.
fn assert_same(ours: &[Vec<u32>], official: &[Vec<u32>], what: &str) {
    assert!(ours.len() <= official.len(), "{what}: {} steps, official {}", ours.len(), official.len());
    for (step, (ours, official)) in ours.iter().zip(official).enumerate() {
        assert_eq!(ours, official, "{what}: step {step}");
    }
    assert!(official[ours.len()..].iter().all(|o| o == official.last().unwrap()), "{what}: stopped early");
}

#[test]
fn official_dream_traces() {
    let (backbone, expected) = (support::backbone(), support::expected());
    let length = expected["gen_length"].as_u64().unwrap() as usize;
    let traces = expected["official_dream"].as_array().unwrap();
    assert_eq!(traces.len(), 34);
    for trace in traces {
        let prompt = support::ids(&expected["prompts"][trace["prompt"].as_u64().unwrap() as usize]);
        let strategy = format!("{}:steps={},eps=0.001", trace["alg"].as_str().unwrap(), trace["steps"]);
        let (tokens, ours) = decode(&backbone, &prompt, length, &strategy);
        assert_same(&ours, &history(trace), &strategy);
        assert_eq!(tokens, support::ids(&trace["final"]), "{strategy}");
    }
}

#[test]
fn klass_traces() {
    let (backbone, expected) = (support::backbone(), support::expected());
    let length = expected["gen_length"].as_u64().unwrap() as usize;
    let traces = expected["klass"].as_array().unwrap();
    assert_eq!(traces.len(), 24);
    for trace in traces {
        let prompt = support::ids(&expected["prompts"][trace["prompt"].as_u64().unwrap() as usize]);
        let strategy = format!("klass:conf={},kl={},history=2", trace["conf"], trace["kl"]);
        let (tokens, ours) = decode(&backbone, &prompt, length, &strategy);
        assert_same(&ours, &history(trace), &strategy);
        assert_eq!(tokens, support::ids(&trace["final"]), "{strategy}");
    }
}
