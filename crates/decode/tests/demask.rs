//! DEMASK decodes the toy as recorded: every step's set of positions, its accumulated dependency, and
//! the final tokens, for both hidden-row conventions and four (τ, γ).

mod support;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use demask_decode::dependency::Predictor;
use demask_decode::registry::Context;
use demask_decode::{Canvas, Decoder, EosPolicy, Job, Observer, Options, StepRecord, StrategySpec};
use demask_model::Backbone;
use serde_json::Value;

#[derive(Clone, Default)]
struct Steps(Arc<Mutex<Vec<StepRecord>>>);

impl Observer for Steps {
    fn on_step(&mut self, record: &StepRecord, _: &Canvas) -> ControlFlow<()> {
        self.0.lock().unwrap().push(record.clone());
        ControlFlow::Continue(())
    }
}

fn predictor(hidden_row: &str) -> Arc<Predictor> {
    let name = if hidden_row == "i" { "predictor_row_i" } else { "predictor_row_i_minus_1" };
    Arc::new(Predictor::load(&support::folder().join(format!("{name}.safetensors"))).unwrap().0)
}

/// Positions relative to the response, ascending, and what they cost.
fn recorded(step: &Value) -> (Vec<usize>, f64) {
    let mut selected: Vec<usize> = support::ids(&step["selected"]).into_iter().map(|p| p as usize).collect();
    selected.sort_unstable();
    (selected, step["accum"].as_f64().unwrap())
}

#[test]
fn recorded_decodings() {
    let (backbone, expected) = (support::backbone(), support::expected());
    let length = expected["gen_length"].as_u64().unwrap() as usize;
    let traces = expected["demask"].as_array().unwrap();
    assert_eq!(traces.len(), 48);
    for trace in traces {
        let row = trace["hidden_row"].as_str().unwrap();
        let prompt = support::ids(&expected["prompts"][trace["prompt"].as_u64().unwrap() as usize]);
        let strategy = format!("demask:tau={},gamma={}", trace["tau"], trace["gamma"]);
        let what = format!("{strategy}, row {row}, prompt {}", trace["prompt"]);
        let steps = Steps::default();
        let canvas = Canvas::generate(&prompt, length, &backbone.spec().ids).unwrap();
        let spec: StrategySpec = strategy.parse().unwrap();
        let context = Context { predictor: Some(predictor(row)), ..Context::default() };
        let options = Options { eos: EosPolicy::FillAfter, ..Options::default() };
        let mut jobs = [Job::new(canvas, &spec, &context, options, Box::new(steps.clone())).unwrap()];
        Decoder::new(&backbone).run(&mut jobs).unwrap();

        let ours = steps.0.lock().unwrap();
        let theirs = trace["steps"].as_array().unwrap();
        for (step, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            let (selected, accum) = recorded(theirs);
            assert_eq!(
                ours.commits[0].position - prompt.len(),
                selected[0],
                "{what}: the left-most opens step {step}"
            );
            let mut positions: Vec<usize> = ours.commits.iter().map(|c| c.position - prompt.len()).collect();
            positions.sort_unstable();
            assert_eq!(positions, selected, "{what}: step {step}");
            let budget = ours.budget.unwrap();
            assert!(
                (f64::from(budget.used) - accum).abs() < 1e-4,
                "{what}: step {step}: {} {accum}",
                budget.used
            );
            assert!(budget.used <= budget.limit, "{what}: step {step} exceeds τ");
        }
        assert_eq!(ours.len(), theirs.len(), "{what}");
        assert_eq!(jobs[0].canvas().tokens()[prompt.len()..], support::ids(&trace["final"]), "{what}");
    }
}

#[test]
fn without_a_predictor_the_way_out_is_named() {
    let spec: StrategySpec = "demask".parse().unwrap();
    let canvas = Canvas::generate(&[3], 2, &support::backbone().spec().ids).unwrap();
    let job = Job::new(canvas, &spec, &Context::default(), Options::default(), Box::new(()));
    let error = job.err().unwrap().to_string();
    assert!(error.contains("needs a dependency predictor") && error.contains("dependency=oracle"), "{error}");
}
