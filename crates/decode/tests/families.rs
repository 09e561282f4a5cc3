//! Pass by pass: our decoding is what the published loops of LLaDA2.0, LLaDA2.1, SDAR and LLaDA-MoE did on the toys, with
//! and without the cache of finished blocks.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use demask_decode::audit::Audit;
use demask_decode::observer::Recorder;
use demask_decode::{
    Canvas, Context, Decoder, Editing, EosPolicy, Job, Observers, Options, StepRecord, Suppression,
};
use demask_model::{Backbone as _, LoadOptions, Transformer};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn load(name: &str) -> (Transformer, Value) {
    let text = std::fs::read_to_string(fixture(name).join("expected.json")).unwrap();
    let model = Transformer::load(&fixture(name), &LoadOptions::default()).unwrap();
    (model, serde_json::from_str(&text).unwrap())
}

fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

fn size(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

/// How a trace is decoded.
struct Setting {
    strategy: String,
    block: usize,
    length: usize,
    eos: EosPolicy,
    editing: Option<Editing>,
}

/// A finished canvas, what every step did, and how many rows were computed.
fn decode(
    model: &Transformer,
    prompt: &[u32],
    setting: &Setting,
    cache: &str,
) -> (Canvas, Vec<StepRecord>, usize) {
    let spec = model.spec();
    let canvas = Canvas::in_blocks(prompt, setting.length, Some(setting.block), spec, &spec.ids).unwrap();
    let recorder = Arc::new(Mutex::new(Recorder::default()));
    let audit = Arc::new(Mutex::new(Audit::new(&canvas, spec)));
    let observers = Observers(vec![Box::new(recorder.clone()), Box::new(audit.clone())]);
    let options = Options {
        eos: setting.eos,
        block_length: Some(setting.block),
        editing: setting.editing,
        cache: cache.parse().unwrap(),
        suppression: Suppression { ids: vec![spec.ids.mask], ..Suppression::default() },
        ..Options::default()
    };
    let strategy = setting.strategy.parse().unwrap();
    let job = Job::new(canvas, &strategy, &Context::default(), options, Box::new(observers)).unwrap();
    let mut jobs = [job];
    Decoder::new(model).run(&mut jobs).unwrap();
    let audit = audit.lock().unwrap();
    assert_eq!(audit.wrong(), None, "{} {cache}", setting.strategy);
    let records = recorder.lock().unwrap().records.clone();
    (jobs[0].canvas().clone(), records, audit.rows())
}

/// What one pass changed: block (counted from the first token), positions and tokens unmasked, positions and tokens edited.
type Change = (Option<usize>, Vec<(usize, u32)>, Vec<(usize, u32)>);

fn published(step: &Value) -> Change {
    let pairs = |positions: &str, tokens: &str| {
        let Some(positions) = step.get(positions) else { return Vec::new() };
        numbers(positions).into_iter().map(|p| p as usize).zip(numbers(&step[tokens])).collect()
    };
    let block = step.get("block").map(size);
    (block, pairs("positions", "tokens"), pairs("edited", "edited_tokens"))
}

fn ours(record: &StepRecord, first_block: Option<usize>) -> Change {
    let mut commits: Vec<_> = record.commits.iter().map(|c| (c.position, c.token)).collect();
    commits.sort_unstable();
    let edits = record.edits.iter().map(|e| (e.position, e.token)).collect();
    (first_block.map(|first| first + record.block), commits, edits)
}

/// Holds one trace against the published one; returns how many passes it took.
fn same(model: &Transformer, trace: &Value, setting: &Setting, in_blocks: bool, what: &str) -> usize {
    let prompt = numbers(&trace["prompt"]);
    let first = in_blocks.then(|| prompt.len() / setting.block);
    let caches: &[&str] = if in_blocks { &["none", "blocks"] } else { &["none"] };
    let (mut passes, mut rows) = (0, Vec::new());
    for cache in caches {
        let (canvas, records, computed) = decode(model, &prompt, setting, cache);
        let changed = records.iter().map(|r| ours(r, first)).filter(|c| !c.1.is_empty() || !c.2.is_empty());
        let expected = trace["steps_taken"].as_array().unwrap().iter().map(published);
        for (step, (ours, theirs)) in changed.clone().zip(expected.clone()).enumerate() {
            assert_eq!(ours, theirs, "{what} with cache {cache}: step {step}");
        }
        assert_eq!(changed.count(), expected.count(), "{what} with cache {cache}");
        // The canvas's tail past what was asked for, and past an end, is no part of the answer.
        let theirs = numbers(&trace["final"]);
        let ours = canvas.answer();
        assert_eq!(ours, &theirs[..ours.len()], "{what} with cache {cache}");
        passes = records.len();
        rows.push(computed);
    }
    if let [all, fresh] = rows[..] {
        assert!(fresh <= all, "{what}: {fresh} rows with the cache, {all} without");
    }
    passes
}

#[test]
fn llada2_loop() {
    let (model, expected) = load("llada2-toy");
    let traces = expected["generate"].as_array().unwrap();
    assert_eq!(traces.len(), 21);
    for (number, trace) in traces.iter().enumerate() {
        let setting = Setting {
            strategy: format!(
                "llada2:threshold={},steps={},minimal={}",
                trace["threshold"], trace["steps"], trace["minimal_topk"]
            ),
            block: size(&trace["block_length"]),
            length: size(&trace["gen_length"]),
            // The loop stops after a block with an end, or as soon as nothing before it is masked.
            eos: if trace["eos_early_stop"] == true { EosPolicy::Stop } else { EosPolicy::BlockFill },
            editing: None,
        };
        let passes = same(&model, trace, &setting, true, &format!("generate {number}"));
        assert_eq!(passes, size(&trace["forward_passes"]), "generate {number}");
    }
}

#[test]
fn llada2_editing_loop() {
    let (model, expected) = load("llada2-toy");
    let traces = expected["generate_editing"].as_array().unwrap();
    assert_eq!(traces.len(), 21);
    for (number, trace) in traces.iter().enumerate() {
        let setting = Setting {
            strategy: format!(
                "llada2:threshold={},transfer={}",
                trace["threshold"], trace["num_to_transfer"]
            ),
            block: size(&trace["block_length"]),
            length: size(&trace["gen_length"]),
            eos: if trace["eos_early_stop"] == true { EosPolicy::BlockFill } else { EosPolicy::None },
            editing: Some(Editing {
                threshold: trace["editing_threshold"].as_f64().unwrap() as f32,
                post_steps: size(&trace["max_post_steps"]),
            }),
        };
        let passes = same(&model, trace, &setting, true, &format!("generate_editing {number}"));
        assert_eq!(passes, size(&trace["forward_passes"]), "generate_editing {number}");
    }
}

#[test]
fn sdar_loops() {
    let (model, expected) = load("sdar-toy");
    let traces = expected["generate"].as_array().unwrap();
    assert_eq!(traces.len(), 21);
    for (number, trace) in traces.iter().enumerate() {
        let mode = match (trace["order"].as_str().unwrap(), trace["threshold"].as_f64()) {
            ("sequential", _) => "mode=sequential".to_owned(),
            (_, None) => "mode=static".to_owned(),
            (_, Some(threshold)) => format!("mode=dynamic,threshold={threshold}"),
        };
        let setting = Setting {
            strategy: format!("sdar:{mode},steps={}", trace["denoising_steps"]),
            block: size(&trace["block_length"]),
            length: size(&trace["gen_length"]),
            eos: EosPolicy::BlockFill,
            editing: None,
        };
        let passes = same(&model, trace, &setting, true, &format!("generate {number}, {mode}"));
        assert_eq!(passes, size(&trace["denoising_passes"]), "generate {number}");
    }
}

#[test]
fn llada_moe_loop() {
    let (model, expected) = load("lladamoe-toy");
    let traces = expected["generate"].as_array().unwrap();
    assert_eq!(traces.len(), 12);
    for (number, trace) in traces.iter().enumerate() {
        let setting = Setting {
            strategy: format!("low-confidence:steps={}", trace["steps"]),
            block: size(&trace["block_length"]),
            length: size(&trace["gen_length"]),
            eos: EosPolicy::None,
            editing: None,
        };
        same(&model, trace, &setting, false, &format!("generate {number}"));
    }
}

/// A stream of numbers that are the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

#[test]
fn the_cache_of_finished_blocks_changes_no_token() {
    for name in ["llada2-toy", "sdar-toy"] {
        let (model, _) = load(name);
        let mut dice = Dice(7);
        for number in 0..50 {
            let prompt: Vec<u32> = (0..1 + dice.below(30)).map(|_| dice.below(149) as u32).collect();
            let strategies = [
                "entropy:k=2",
                "threshold:threshold=0.3",
                "eb",
                "klass:conf=0.4,kl=0.5",
                "low-confidence:steps=12",
                "llada2:threshold=0.4,steps=3",
                "sdar:mode=sequential,steps=2",
                "demask:dependency=oracle,tau=0.5,gamma=0.1",
                "wino",
                "saber",
            ];
            let editing = Editing { threshold: dice.below(10) as f32 / 10.0, post_steps: dice.below(4) };
            let setting = Setting {
                strategy: strategies[dice.below(strategies.len())].to_owned(),
                block: 1 + dice.below(12),
                length: 1 + dice.below(24),
                eos: [EosPolicy::BlockFill, EosPolicy::Stop, EosPolicy::None, EosPolicy::FillAfter]
                    [dice.below(4)],
                editing: (dice.below(3) == 0).then_some(editing),
            };
            let what = format!("{name} {number}: {} in blocks of {}", setting.strategy, setting.block);
            let (exact, steps, rows) = decode(&model, &prompt, &setting, "none");
            let (kept, cached_steps, fresh) = decode(&model, &prompt, &setting, "blocks");
            assert_eq!(exact.tokens(), kept.tokens(), "{what}");
            assert_eq!(steps.len(), cached_steps.len(), "{what}");
            assert!(fresh <= rows, "{what}");
        }
    }
}
