//! Pass by pass: our decoding is what the published loops of LLaDA2.0, LLaDA2.1, SDAR and LLaDA-MoE did on the toys, with
//! and without the cache of finished blocks.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use demask_decode::audit::Audit;
use demask_decode::observer::Recorder;
use demask_decode::{
    Canvas, Context, Decoder, Editing, EosPolicy, Job, Observers, Options, Prefixes, StepRecord, Suppression,
};
use demask_model::checkpoint::Dtype;
use demask_model::config::Visibility;
use demask_model::{Backbone as _, LoadOptions, Precision, Spec, Transformer, synthetic};
use serde_json::{Value, json};

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
type Decoded = (Canvas, Vec<StepRecord>, usize);

fn decode(model: &Transformer, prompt: &[u32], setting: &Setting, cache: &str) -> Decoded {
    decode_after(model, prompt, setting, cache, &mut Prefixes::new(0))
}

/// The same after other canvases, whose finished blocks may be shared.
fn decode_after(
    model: &Transformer,
    prompt: &[u32],
    setting: &Setting,
    cache: &str,
    before: &mut Prefixes,
) -> Decoded {
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
    let mut job = Job::new(canvas, &strategy, &Context::default(), options, Box::new(observers)).unwrap();
    before.lend(&mut job, spec);
    let mut jobs = [job];
    Decoder::new(model).run(&mut jobs).unwrap();
    before.keep(&jobs[0], spec);
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
        let asked = &theirs[..theirs.len().min(size(&trace["gen_length"]))];
        let end = asked.iter().position(|id| model.spec().ids.eos.contains(id));
        assert_eq!(
            canvas.answer(),
            &asked[..end.map_or(asked.len(), |end| end + 1)],
            "{what} with cache {cache}"
        );
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
            // Without `transfer` the loop that edits takes one at least, whatever the steps.
            strategy: match size(&trace["num_to_transfer"]) {
                1 => format!("llada2:threshold={},steps=2", trace["threshold"]),
                count => format!("llada2:threshold={},transfer={count}", trace["threshold"]),
            },
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

/// A small model of a block-causal family with random weights.
fn made_up(architecture: &str, more: &Value) -> Transformer {
    let mut config = json!({
        "architectures": [architecture], "vocab_size": 151, "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "tie_word_embeddings": false,
        "mask_token_id": 150, "eos_token_id": [149, 0], "pad_token_id": 149
    });
    for (field, value) in more.as_object().unwrap() {
        config[field] = value.clone();
    }
    let spec = Spec::from_json(&config.to_string(), Path::new("made-up/config.json")).unwrap();
    assert_eq!(spec.attention, Visibility::BlockCausal, "{architecture}");
    synthetic::transformer(spec, Precision::Float(Dtype::F32), 5).unwrap()
}

/// A model of every block-causal family.
fn block_causal() -> Vec<(&'static str, Transformer)> {
    let blocks = json!({ "block_size": 8 });
    let experts = json!({
        "block_size": 8, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "norm_topk_prob": true
    });
    vec![
        ("llada2", load("llada2-toy").0),
        ("sdar", load("sdar-toy").0),
        ("sdar-moe", made_up("SDARMoeForCausalLM", &experts)),
        ("a2d-qwen3 bd3lm", made_up("A2DQwen3LMHeadModel", &blocks)),
        ("a2d-qwen2 bd3lm", made_up("A2DQwen2LMHeadModel", &blocks)),
        ("a2d-llama bd3lm", made_up("A2DLlamaLMHeadModel", &blocks)),
        ("fast-dllm-v2", made_up("Fast_dLLM_QwenForCausalLM", &json!({ "bd_size": 8 }))),
    ]
}

fn thrown(dice: &mut Dice) -> Setting {
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
    Setting {
        strategy: strategies[dice.below(strategies.len())].to_owned(),
        block: 1 + dice.below(12),
        length: 1 + dice.below(24),
        eos: [EosPolicy::BlockFill, EosPolicy::Stop, EosPolicy::None, EosPolicy::FillAfter][dice.below(4)],
        editing: (dice.below(3) == 0).then_some(editing),
    }
}

#[test]
fn the_cache_of_finished_blocks_changes_no_token() {
    for (name, model) in block_causal() {
        let mut dice = Dice(7);
        let mut fewer = 0;
        for number in 0..50 {
            let prompt: Vec<u32> = (0..1 + dice.below(30)).map(|_| dice.below(149) as u32).collect();
            let setting = thrown(&mut dice);
            let what = format!("{name} {number}: {} in blocks of {}", setting.strategy, setting.block);
            let (exact, steps, rows) = decode(&model, &prompt, &setting, "none");
            let (kept, cached_steps, fresh) = decode(&model, &prompt, &setting, "blocks");
            assert_eq!(exact.tokens(), kept.tokens(), "{what}");
            assert_eq!(steps.len(), cached_steps.len(), "{what}");
            assert!(fresh <= rows, "{what}");
            fewer += usize::from(fresh < rows);
        }
        assert!(fewer > 25, "{name}: {fewer} of 50 computed fewer rows");
    }
}

/// Passes until a rule that looks at each pass (did it commit an end? is nothing masked before the first end?) is content.
fn until(
    records: &[StepRecord],
    prompt: &[u32],
    eos: &[u32],
    content: impl Fn(bool, bool) -> bool,
) -> Option<usize> {
    let mut tokens: std::collections::BTreeMap<usize, u32> = std::collections::BTreeMap::new();
    let stops = |record: &StepRecord| {
        tokens.extend(record.commits.iter().map(|c| (c.position, c.token)));
        let first = tokens.iter().find(|(_, token)| eos.contains(token)).map(|(&position, _)| position);
        let decided = first.is_some_and(|first| (prompt.len()..first).all(|p| tokens.contains_key(&p)));
        content(record.commits.iter().any(|c| eos.contains(&c.token)), decided)
    };
    records.iter().position(stops).map(|pass| pass + 1)
}

#[test]
fn an_early_stop_is_asked_for_when_an_end_is_committed_and_when_a_block_is_over() {
    let (model, _) = load("llada2-toy");
    let (mut dice, mut stopped, mut later) = (Dice(3), 0, 0);
    for number in 0..120 {
        let prompt: Vec<u32> = (0..1 + dice.below(20)).map(|_| dice.below(149) as u32).collect();
        let setting = |eos| Setting {
            strategy: "llada2:threshold=0.6,steps=16".into(),
            block: 16,
            length: 32,
            eos,
            editing: None,
        };
        let (_, whole, _) = decode(&model, &prompt, &setting(EosPolicy::BlockFill), "blocks");
        let (_, early, _) = decode(&model, &prompt, &setting(EosPolicy::Stop), "blocks");
        let eos = &model.spec().ids.eos;
        let asked = until(&whole, &prompt, eos, |committed, decided| committed && decided);
        let eager = until(&whole, &prompt, eos, |_, decided| decided);
        assert_eq!(early.len(), asked.unwrap_or(whole.len()), "{number}: {prompt:?}");
        stopped += usize::from(early.len() < whole.len());
        later += usize::from(eager.is_some_and(|eager| eager < early.len()));
    }
    assert!(stopped > 3 && later > 0, "{stopped} stopped early, {later} later than they could have");
}

#[test]
fn blocks_of_earlier_canvases_change_no_token() {
    for (name, model) in block_causal() {
        let (mut dice, mut shared) = (Dice(11), Prefixes::new(1 << 20));
        // One of a few beginnings, each continued in many ways and cut into few kinds of blocks.
        let beginnings: Vec<Vec<u32>> =
            (0..3).map(|_| (0..20 + dice.below(20)).map(|_| dice.below(149) as u32).collect()).collect();
        for number in 0..50 {
            let mut prompt = beginnings[dice.below(beginnings.len())].clone();
            prompt.truncate(1 + dice.below(40));
            prompt.extend((0..dice.below(3) * 8).map(|_| dice.below(149) as u32));
            let setting = Setting { block: [4, 8][dice.below(2)], ..thrown(&mut dice) };
            let what = format!("{name} {number}: {} in blocks of {}", setting.strategy, setting.block);
            let (alone, steps, rows) = decode(&model, &prompt, &setting, "blocks");
            let lent = shared.lent();
            let (after, later_steps, fresh) = decode_after(&model, &prompt, &setting, "blocks", &mut shared);
            assert_eq!(alone.tokens(), after.tokens(), "{what}");
            assert_eq!(steps.len(), later_steps.len(), "{what}");
            // What is lent is not computed, but for a row that predicts from behind a finished block.
            let lent = (shared.lent() - lent) as usize;
            assert!(fresh <= rows && rows - fresh <= lent, "{what}: {rows} rows, {fresh} with {lent} lent");
        }
        assert!(shared.lent() > 300, "{name}: {} rows lent", shared.lent());
        assert!(shared.size_in_bytes() <= 1 << 20, "{name}");
    }
}

#[test]
fn a_prefix_is_lent_only_where_it_is_the_same() {
    let model = made_up("SDARForCausalLM", &json!({ "block_size": 8 }));
    let setting = |block| Setting {
        strategy: "entropy:k=2".into(),
        block,
        length: 8,
        eos: EosPolicy::None,
        editing: None,
    };
    let prompt: Vec<u32> = (10..30).collect();
    let lent = |prompt: &[u32], block: usize, limit: usize| {
        let mut shared = Prefixes::new(limit);
        decode_after(&model, &(10..30).collect::<Vec<_>>(), &setting(8), "blocks", &mut shared);
        let before = shared.lent();
        decode_after(&model, prompt, &setting(block), "blocks", &mut shared);
        shared.lent() - before
    };
    assert_eq!(lent(&prompt, 8, 1 << 20), 16, "the prompt's whole blocks");
    assert_eq!(lent(&prompt[..15], 8, 1 << 20), 8, "whole blocks of a shorter prompt");
    assert_eq!(lent(&[&[9], &prompt[1..]].concat(), 8, 1 << 20), 0, "another first token");
    assert_eq!(lent(&[&prompt[..12], &[9], &prompt[13..]].concat(), 8, 1 << 20), 8, "another second block");
    assert_eq!(lent(&prompt, 4, 1 << 20), 0, "blocks of another length");
    assert_eq!(lent(&prompt, 8, 1 << 10), 0, "no memory to keep it in");
}
