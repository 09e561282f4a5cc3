//! Every strategy ends under every cache, whatever the distribution, the parameters, the blocks, the
//! sampler and the end-of-sequence policy, with no mask left; the trace alone rebuilds the canvas.

mod support;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use demask_decode::audit::Audit;
use demask_decode::cache::{self, Caches};
use demask_decode::registry::{Context, Kind, Strategies};
use demask_decode::rng::{Purpose, Rng};
use demask_decode::spelling::{Family, Listed, Spelled};
use demask_decode::strategy::ALL;
use demask_decode::trained::Policy;
use demask_decode::{Assistant, Canvas, Decoder, EosPolicy, Job, Observer, Options, Sampling, StepRecord};
use demask_model::config::Shift;
use demask_model::{Backbone, Pass, Query, Rows, Spec, Tabular};
use proptest::prelude::*;

/// A joint whose symbol 0 ends the sequence, with made-up attention that depends on the canvas.
struct Attentive {
    table: Tabular,
    spec: Spec,
}

impl Attentive {
    fn new(positions: usize, symbols: usize, rng: Rng) -> Self {
        // A quarter of the assignments are impossible.
        let weight =
            |i: usize| (rng.uniform(Purpose::Mask, 0, i as u64) * 4.0 / 3.0 - 1.0 / 3.0).max(0.0).powi(4);
        let mut weights: Vec<f64> = (0..symbols.pow(positions as u32)).map(weight).collect();
        weights[0] += 1e-3;
        let table = Tabular::new(positions, symbols, weights).unwrap();
        let mut spec = table.spec().clone();
        spec.ids.eos = vec![0];
        Self { table, spec }
    }
}

impl Backbone for Attentive {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn forward(&self, batch: &mut [Query<'_>]) -> demask_model::Result<Vec<Pass>> {
        let mut passes = self.table.forward(batch)?;
        for (pass, query) in passes.iter_mut().zip(batch.iter()) {
            let (length, rng) = (query.tokens.len(), Rng::new(3, 0));
            let look = |at: usize| {
                rng.uniform(Purpose::Mask, u64::from(query.tokens[at % length]), at as u64) as f32
            };
            let fresh: Vec<usize> = match &query.cache {
                Some(reuse) => reuse.rows.to_vec(),
                None => (0..length).collect(),
            };
            let cells = fresh.iter().flat_map(|row| (0..length).map(move |key| row * length + key));
            let data = cells.map(|at| look(at) / length as f32).collect();
            pass.attention = (query.attention_layers > 0).then_some(Rows { data, width: length });
        }
        Ok(passes)
    }

    fn logits(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &mut [f32])) -> demask_model::Result<()> {
        // One row at a time, so that chunks are met.
        let width = rows.width;
        rows.data.chunks(width).enumerate().for_each(|(index, row)| visit(index, &mut row.to_vec()));
        Ok(())
    }

    fn fingerprint(&self) -> String {
        self.table.fingerprint()
    }
}

/// A causal model that says something of every text.
struct Speaker(Spec);

impl Backbone for Speaker {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn forward(&self, batch: &mut [Query<'_>]) -> demask_model::Result<Vec<Pass>> {
        let row = |query: &Query<'_>, position: usize| {
            let read = |seed: u64, &token: &u32| seed.wrapping_mul(31).wrapping_add(u64::from(token) + 1);
            let rng = Rng::new(query.tokens[..position].iter().fold(7, read), 0);
            (0..self.0.vocab as u64)
                .map(move |t| rng.uniform(Purpose::Noise, 0, t) as f32 * 4.0)
                .collect::<Vec<_>>()
        };
        let pass = |query: &Query<'_>| Pass {
            predicting: Rows {
                data: query.predict.iter().flat_map(|&p| row(query, p)).collect(),
                width: self.0.vocab,
            },
            ..Pass::default()
        };
        Ok(batch.iter().map(pass).collect())
    }

    fn logits(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &mut [f32])) -> demask_model::Result<()> {
        visit(0, &mut rows.data.clone());
        Ok(())
    }

    fn fingerprint(&self) -> String {
        "speaker".into()
    }
}

/// The name with random parameters; not those that cut the canvas, which a joint does not allow.
fn spelled<F: Family>(entry: &F::Entry, rng: Rng) -> Spelled<F> {
    let mut spec: Spelled<F> = entry.name().parse().unwrap();
    for (index, param) in entry.params().iter().enumerate() {
        let draw = |purpose| rng.uniform(purpose, 1, index as u64);
        let conflict =
            param.key == "steps" && spec.given().iter().any(|g| ["k", "chunk"].contains(&g.0.as_str()));
        let cuts = ["lookahead", "window"].contains(&param.key)
            && entry.params().iter().any(|param| param.key == "lookahead");
        if conflict || cuts || draw(Purpose::Mask) < 0.5 {
            continue;
        }
        let u = draw(Purpose::Position);
        let value = match param.kind {
            Kind::Count => (1.0 + u * 5.0).floor().to_string(),
            Kind::Whole => (u * 5.0).floor().to_string(),
            Kind::Number(low, high) => (low + u * (high.min(1.0) - low)).to_string(),
            Kind::Choice(words) | Kind::Open(words) => words[(u * words.len() as f64) as usize].to_owned(),
        };
        spec = spec.with(param.key, value).unwrap();
    }
    spec
}

/// Audits the trace; only a strategy that says so may mask again.
struct Watch {
    audit: Arc<Mutex<Audit>>,
    revises: bool,
}

impl Observer for Watch {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        assert!(self.revises || record.remasked.is_empty(), "masks again, and does not say so");
        self.audit.on_step(record, canvas)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_strategy_ends_without_masks_under_every_cache(
        positions in 1_usize..=6, symbols in 2_usize..=3, seed in any::<u64>(), block in 0_usize..=4,
        warm in any::<bool>(), policy in 0_usize..4,
    ) {
        let backbone = Attentive::new(positions, symbols, Rng::new(seed, 0));
        let speaker = Speaker(Spec { shift: Shift::Global, ..backbone.spec.clone() });
        let assistant = Arc::new(Assistant::new(Arc::new(speaker), &backbone.spec).unwrap());
        let prior = Some(Arc::new(support::prior(backbone.spec.vocab)));
        let learned = support::folder().join("../policy-toy/policy.safetensors");
        let learned = Some(Arc::new(Policy::load(&learned).unwrap()));
        let context = Context { assistant: Some(assistant), prior, policy: learned, ..Context::default() };
        for (number, (entry, cache)) in ALL.iter().flat_map(|e| cache::ALL.iter().map(move |c| (e, c))).enumerate() {
            let rng = Rng::new(seed, number as u64);
            let spec = spelled::<Strategies>(entry, rng);
            let spec = match entry.name {
                // A joint has no hidden rows for a stability head to read.
                "demask" if spec.given().iter().any(|(_, value)| value == "stable") => {
                    spec.with("dependency", "oracle").unwrap().with("start", "anchored").unwrap()
                }
                "demask" => spec.with("dependency", "oracle").unwrap(),
                "mi" => spec.with("information", "oracle").unwrap(),
                // There is no predictor to discount by.
                _ if entry.params.iter().any(|p| p.key == "discount_by") => spec.with("discount_by", "attention").unwrap(),
                // A joint has all its positions or none, so its canvas cannot be cut, nor its attention be causal.
                "copula" => spec.with("reference", "suffix").unwrap(),
                "apd" => "apd:r=0.5".parse().unwrap(),
                _ => spec,
            };
            let cache = spelled::<Caches>(cache, rng);
            let name = format!("{spec} with {cache}");
            let options = Options {
                sampling: Sampling { temperature: if warm { 0.8 } else { 0.0 }, ..Sampling::default() },
                eos: [EosPolicy::FillAfter, EosPolicy::None, EosPolicy::BlockFill, EosPolicy::Stop][policy],
                block_length: (block > 0).then_some(block),
                seed,
                cache,
                ..Options::default()
            };
            let canvas = Canvas::generate(&[], positions, &backbone.spec.ids).unwrap();
            let audit = Arc::new(Mutex::new(Audit::new(&canvas, &backbone.spec)));
            // A joint has no embeddings for the layer to read.
            if entry.name == "adjust" {
                continue;
            }
            let strategy = spec.build(&context).unwrap();
            if let Err(refused) = strategy.check(&options) {
                prop_assert!(["apd", "copula"].contains(&entry.name) && block > 0, "{}", refused);
                continue;
            }
            let revises = strategy.revises();
            let watch = Watch { audit: audit.clone(), revises };
            let job = Job::new(canvas, &spec, &context, options, Box::new(watch)).unwrap();
            let mut jobs = [job];
            let ended = Decoder::new(&backbone).run(&mut jobs);
            prop_assert!(ended.is_ok(), "{name}: {}", ended.unwrap_err());
            prop_assert!(jobs[0].canvas().is_done(), "{name}");
            prop_assert!(!jobs[0].canvas().tokens().contains(&backbone.spec.ids.mask), "{name}");
            let audit = audit.lock().unwrap();
            prop_assert_eq!(audit.wrong(), None, "{}", name);
            prop_assert_eq!(audit.committed(), jobs[0].totals().committed, "{}", name);
        }
    }
}

/// What stands behind the first end of sequence after each step.
struct Behind(Arc<Mutex<(usize, bool)>>);

impl Observer for Behind {
    fn on_step(&mut self, _: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        if let Some(end) = canvas.tokens().iter().position(|&token| token == 0) {
            let mut seen = self.0.lock().unwrap();
            seen.0 += usize::from(end + 1 < canvas.tokens().len());
            seen.1 &= canvas.tokens()[end..].iter().all(|&token| token == 0);
        }
        ControlFlow::Continue(())
    }
}

/// Section 5.1: once an end of sequence is written, everything behind it is at once, for KLASS and every other method alike.
#[test]
fn filling_after_the_end_is_the_same_for_every_strategy() {
    for name in [
        "klass",
        "klass:tokens=sampled",
        "klass:follow=response",
        "demask:dependency=oracle",
        "entropy",
        "top1",
        "margin",
        "token-order",
        "threshold",
        "factor",
        "eb",
        "entropy-threshold",
        "localleap",
        "low-confidence",
    ] {
        let seen = Arc::new(Mutex::new((0, true)));
        for seed in 0..24 {
            let backbone = Attentive::new(6, 3, Rng::new(seed, 0));
            let canvas = Canvas::generate(&[], 6, &backbone.spec.ids).unwrap();
            let sampling = Sampling { temperature: 0.7, ..Sampling::default() };
            let options = Options { sampling, seed, eos: EosPolicy::FillAfter, ..Options::default() };
            let spec = name.parse().unwrap();
            let job = Job::new(canvas, &spec, &Context::default(), options, Box::new(Behind(seen.clone())));
            Decoder::new(&backbone).run(&mut [job.unwrap()]).unwrap();
        }
        let (ended, filled) = *seen.lock().unwrap();
        assert!(filled, "{name}: something stands behind an end of sequence");
        assert!(ended >= 10, "{name}: ended early {ended} times");
    }
}
