//! Decoders with a second model or a trained layer where the right answer is known without one: chains that are the model's
//! own, joints small enough to be written down, a layer that moves nothing, tokens that are barred and never wanted.

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use demask_decode::observer::Recorder;
use demask_decode::trained::Adjust;
use demask_decode::{
    Assistant, Canvas, Context, Decoder, EosPolicy, Job, Options, Sampling, StepRecord, Suppression,
};
use demask_model::checkpoint::{Mapped, Store, write};
use demask_model::config::Shift;
use demask_model::{Backbone, Pass, Query, Rows, Spec, Tabular, Transformer};

fn canvas(backbone: &Transformer, prompt: usize, length: usize) -> Canvas {
    let prompt = support::ids(&support::expected()["prompts"][prompt]);
    Canvas::generate(&prompt, length, &backbone.spec().ids).unwrap()
}

fn run(
    backbone: &Transformer,
    context: &Context,
    canvas: Canvas,
    strategy: &str,
    options: Options,
) -> (Vec<u32>, Vec<StepRecord>) {
    let recorder = Arc::new(Mutex::new(Recorder::default()));
    let strategy = strategy.parse().unwrap();
    let mut jobs = [Job::new(canvas, &strategy, context, options, Box::new(recorder.clone())).unwrap()];
    Decoder::new(backbone).run(&mut jobs).unwrap();
    let records = std::mem::take(&mut recorder.lock().unwrap().records);
    (jobs[0].canvas().tokens().to_vec(), records)
}

fn plain() -> Options {
    Options { eos: EosPolicy::None, ..Options::default() }
}

/// A causal model that expects this text, whatever it reads, and the mask even more.
struct Expects {
    spec: Spec,
    text: Vec<u32>,
}

impl Expects {
    /// A context with this model in it.
    fn beside(backbone: &Transformer, text: &[u32]) -> Context {
        let expects = Self { spec: backbone.spec().clone(), text: text.to_vec() };
        let assistant = Assistant::new(Arc::new(expects), backbone.spec()).unwrap();
        Context { assistant: Some(Arc::new(assistant)), ..Context::default() }
    }
}

impl Backbone for Expects {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn forward(&self, batch: &mut [Query<'_>]) -> demask_model::Result<Vec<Pass>> {
        let row = |&position: &usize| {
            let mut row = vec![0.0; self.spec.vocab];
            row[self.text[position] as usize] = 1.0;
            row[self.spec.ids.mask as usize] = 2.0;
            row
        };
        let rows = |query: &Query<'_>| query.predict.iter().flat_map(row).collect();
        let pass = |query: &mut Query<'_>| Pass {
            predicting: Rows { data: rows(query), width: self.spec.vocab },
            ..Pass::default()
        };
        Ok(batch.iter_mut().map(pass).collect())
    }

    fn logits(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &mut [f32])) -> demask_model::Result<()> {
        visit(0, &mut rows.data.clone());
        Ok(())
    }

    fn fingerprint(&self) -> String {
        "expects".into()
    }
}

/// With r = 0 only the assistant is asked. Where it expects what the model writes one token at a time, that is written, in
/// fewer passes; where it expects the draft, the draft is kept whole. It never says the mask.
#[test]
fn an_assistant_that_knows_the_models_own_chain_only_saves_passes() {
    let backbone = support::backbone();
    for prompt in 0..4 {
        let none = Context::default();
        let (chain, slow) = run(&backbone, &none, canvas(&backbone, prompt, 24), "token-order:k=1", plain());
        let knows = Expects::beside(&backbone, &chain);
        let (text, passes) = run(&backbone, &knows, canvas(&backbone, prompt, 24), "apd:r=0", plain());
        assert_eq!(text, chain, "prompt {prompt}");
        assert!(slow.len() == 24 && passes.len() < 24, "prompt {prompt}: {} passes", passes.len());
        let (draft, _) = run(&backbone, &none, canvas(&backbone, prompt, 24), "token-order:k=24", plain());
        let agrees = Expects::beside(&backbone, &draft);
        let (text, passes) = run(&backbone, &agrees, canvas(&backbone, prompt, 24), "apd:r=0", plain());
        assert_eq!((text, passes.len()), (draft, 1), "prompt {prompt}");
    }
}

/// Token 0 is padding, which neither model wants: barring it is felt nowhere. Its logit is −∞ then, and weights of 0 meet it.
#[test]
fn barring_what_nobody_writes_changes_nothing() {
    let (backbone, context) = (support::backbone(), support::context());
    for strategy in
        ["apd:r=0", "apd:r=1", "apd:r=0.5", "apd:r=0,rule=coupled", "apd:r=1,rule=coupled", "copula"]
    {
        for temperature in [0.0, 0.8] {
            let barring = |ids: Vec<u32>| {
                let sampling = Sampling { temperature, ..Sampling::default() };
                let suppression = Suppression { ids, ..Suppression::default() };
                let options = Options { sampling, suppression, ..Options::default() };
                let (text, records) = run(&backbone, &context, canvas(&backbone, 1, 24), strategy, options);
                (text, records.len())
            };
            assert_eq!(barring(Vec::new()), barring(vec![0]), "{strategy} at {temperature}");
        }
    }
}

/// A joint that is written down, seen from both sides or causally: then each position from what stands before it.
struct Joint {
    table: Tabular,
    spec: Spec,
}

impl Joint {
    fn new(shift: Shift) -> Self {
        let table = Tabular::new(3, 2, vec![8.0, 1.0, 1.0, 2.0, 1.0, 3.0, 4.0, 8.0]).unwrap();
        let spec = Spec { shift, ..table.spec().clone() };
        Self { table, spec }
    }

    fn row(&self, tokens: &[u32], position: usize, causal: bool) -> Vec<f32> {
        let mut canvas = if causal { tokens[..position].to_vec() } else { tokens.to_vec() };
        canvas.resize(self.table.positions(), self.spec.ids.mask);
        let known = self.table.conditional(&canvas, &[position]);
        known.iter().map(|p| p.ln() as f32).chain([f32::NEG_INFINITY; 2]).collect()
    }
}

impl Backbone for Joint {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn forward(&self, batch: &mut [Query<'_>]) -> demask_model::Result<Vec<Pass>> {
        let pass = |query: &mut Query<'_>| {
            let row = |&position: &usize| self.row(query.tokens, position, query.blocks.is_some());
            let data = query.predict.iter().flat_map(row).collect();
            let (predicting, computed_rows) = (Rows { data, width: self.spec.vocab }, query.tokens.len());
            Pass { predicting, computed_rows, ..Pass::default() }
        };
        Ok(batch.iter_mut().map(pass).collect())
    }

    fn logits(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &mut [f32])) -> demask_model::Result<()> {
        visit(0, &mut rows.data.clone());
        Ok(())
    }

    fn fingerprint(&self) -> String {
        self.table.fingerprint()
    }
}

/// Texts that are drawn from a joint's canvas, and how many deviations the worst of them is off.
fn deviation(strategy: &str, tokens: &[u32]) -> f64 {
    const DRAWS: usize = 4000;
    let (joint, causal) = (Joint::new(Shift::None), Joint::new(Shift::Global));
    let assistant = Some(Arc::new(Assistant::new(Arc::new(causal), joint.spec()).unwrap()));
    let (context, spec) = (Context { assistant, ..Context::default() }, strategy.parse().unwrap());
    let job = |stream: usize| {
        let canvas = Canvas::infill(tokens, &joint.spec.ids).unwrap();
        let sampling = Sampling { temperature: 1.0, ..Sampling::default() };
        let options = Options { sampling, stream: stream as u64, ..plain() };
        Job::new(canvas, &spec, &context, options, Box::new(())).unwrap()
    };
    let mut jobs: Vec<Job> = (0..DRAWS).map(job).collect();
    Decoder::new(&joint).run(&mut jobs).unwrap();
    let masked: Vec<usize> = (0..tokens.len()).filter(|&p| tokens[p] == joint.spec.ids.mask).collect();
    let expected = joint.table.conditional(tokens, &masked);
    let mut counts = vec![0_usize; expected.len()];
    for job in &jobs {
        let text = job.canvas().tokens();
        counts[masked.iter().fold(0, |slot, &p| slot * 2 + text[p] as usize)] += 1;
    }
    let off = |(&count, &p): (&usize, &f64)| {
        let spread = (p * (1.0 - p) / DRAWS as f64).sqrt();
        (count as f64 / DRAWS as f64 - p).abs() / spread
    };
    counts.iter().zip(&expected).map(off).fold(0.0, f64::max)
}

/// Where the assistant is the joint itself and both marginals are exact, a copula draws from the joint: all of it in one
/// chunk, and token by token where something is known to the right, which the assistant cannot see.
#[test]
fn a_copula_of_the_joint_draws_from_the_joint() {
    let mask = 2;
    for reference in ["causal", "suffix"] {
        let whole = deviation(&format!("copula:chunk=3,reference={reference}"), &[mask; 3]);
        assert!(whole < 4.5, "{reference}: {whole:.1} deviations");
        let between = deviation(&format!("copula:chunk=1,reference={reference}"), &[mask, mask, 1]);
        assert!(between < 4.5, "{reference}: {between:.1} deviations");
        // Without its second term it does not know what stands to the right.
        let blind = deviation(&format!("copula:chunk=1,alpha=0,reference={reference}"), &[mask, mask, 1]);
        assert!(blind > 9.0, "{reference}: {blind:.1} deviations");
    }
}

/// With the last norm at zero ADJUST's layer is the identity, and its decoding that of the marginals: the order by entropy.
#[test]
fn a_layer_that_moves_nothing_decodes_as_the_base() {
    let backbone = support::backbone();
    let trained = Store::open_file(support::folder().join("../adjust-toy/drafter.safetensors")).unwrap();
    let tensor = |name: &str| {
        let stored = trained.tensor(name).unwrap();
        let data: Vec<f32> = stored.to_f32().to_vec();
        let data = if name == "norm_postattn.0.weight" { vec![0.0; data.len()] } else { data };
        (name.to_owned(), Mapped::from_f32(stored.shape(), data))
    };
    let tensors: Vec<(String, Mapped)> = trained.names().map(tensor).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("still.safetensors");
    write::file(&path, &tensors, &BTreeMap::new()).unwrap();
    let still = Adjust::load(&path, backbone.spec()).unwrap();
    let context = Context { sampler: Some(Arc::new(still)), ..Context::default() };
    for (prompt, steps) in [(0, 20), (1, 10), (2, 5), (3, 3)] {
        let decoded = |name: &str| {
            let suppression = Suppression { ids: vec![backbone.spec().ids.mask], ..Suppression::default() };
            let (canvas, options) = (canvas(&backbone, prompt, 40), Options { suppression, ..plain() });
            let (text, records) = run(&backbone, &context, canvas, &format!("{name}:steps={steps}"), options);
            let committed = |record: &StepRecord| {
                let mut positions: Vec<usize> = record.commits.iter().map(|c| c.position).collect();
                positions.sort_unstable();
                positions
            };
            let order: Vec<Vec<usize>> = records.iter().map(committed).collect();
            (text, order, records.iter().map(|r| r.inner_calls).sum::<usize>())
        };
        let ((text, order, inner), (base, by_entropy, _)) = (decoded("adjust"), decoded("entropy"));
        assert_eq!((text, order), (base, by_entropy), "prompt {prompt}, {steps} steps");
        assert!(inner >= 40 - steps, "{inner} calls of the layer");
    }
}
