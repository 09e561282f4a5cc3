//! The stability head from end to end on the toy: labels against passes of their own, states against a decoding watched
//! from outside, caches and training that neither budget nor interruption changes, and a decoding with what was trained.

mod support;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use demask_decode::dependency::{Parts, Predictor};
use demask_decode::registry::Context;
use demask_decode::{Canvas, Decoder, Job, Options};
use demask_engine::Shard;
use demask_kernels::{SoftmaxStats, softmax_stats};
use demask_model::{Backbone, HiddenRow, Query, Transformer};
use demask_train::stability::{Rounds, StabilityFit, StabilitySettings};
use demask_train::tv_cache::{
    CHANGES, Cache, Claim, Columns, Example, Generator, HiddenRows, KEEPS, Labelling, States, Stored,
    TvCacheSettings, UNLABELLED, Visits, heads,
};
use support::{assert_same, contents, responses};

const GAMMA: f32 = 0.5;

fn predictor() -> Parts {
    Parts::load(&support::folder().join("predictor_row_i_minus_1.safetensors")).unwrap().0
}

fn context() -> Context {
    Context { predictor: Some(Arc::new(Predictor::new(predictor()).unwrap())), ..Context::default() }
}

fn visits(strategy: &str) -> Visits {
    Visits { strategy: strategy.into(), temperature: 0.0, top_p: None, heads: heads(&context()) }
}

fn settings(states: States, alone: bool) -> TvCacheSettings {
    TvCacheSettings {
        states,
        stability: Some(Labelling { gamma: GAMMA, alone }),
        repeat_share: if alone { 0.0 } else { 0.3 },
        hidden: HiddenRows::IMinusOne,
        hidden_dtype: Stored::F32,
        pad_to: vec![24],
        masks_per_response: 3,
        ..support::settings()
    }
}

fn generate(settings: &TvCacheSettings, folder: &Path, token_budget: usize, count: usize) -> Cache {
    let (backbone, context) = (support::backbone(), context());
    let source = responses(count);
    let generator = Generator {
        backbone: &backbone,
        source: &source,
        settings,
        folder,
        token_budget,
        shard: Shard::WHOLE,
        context: Some(&context),
        claim: Claim::Lock,
    };
    generator.run(&mut ()).unwrap();
    Cache::open(folder).unwrap()
}

fn all(cache: &Cache) -> Vec<Example> {
    (0..cache.manifest().files.len()).flat_map(|file| cache.read(file, Columns::ALL).unwrap()).collect()
}

/// What the model says at these positions, the mask itself left out.
fn ask(backbone: &Transformer, tokens: &[u32], positions: &[usize]) -> Vec<SoftmaxStats> {
    let pass =
        backbone.forward(&mut [Query { tokens, predict: positions, ..Query::default() }]).unwrap().remove(0);
    let mut said = Vec::new();
    backbone
        .logits(&pass.predicting, &mut |_, chunk| {
            for row in chunk.chunks_mut(backbone.spec().vocab) {
                row[backbone.spec().ids.mask as usize] = f32::NEG_INFINITY;
                said.push(softmax_stats(row));
            }
        })
        .unwrap();
    said
}

fn canvas(backbone: &Transformer, example: &Example) -> Vec<u32> {
    let mut tokens = example.tokens.clone();
    example.positions.iter().for_each(|&p| tokens[p] = backbone.spec().ids.mask);
    tokens
}

/// Labels once more, alone and in plain loops; returns how many of each kind there were.
fn check_labels(backbone: &Transformer, example: &Example) -> [usize; 3] {
    let mut tokens = canvas(backbone, example);
    let before = ask(backbone, &tokens, &example.positions);
    for (opinion, said) in example.opinions().iter().zip(&before) {
        assert_eq!((opinion.top1, opinion.top2, opinion.entropy), (said.top1, said.top2, said.entropy));
    }
    let mut sure = 0;
    for (said, &p) in before.iter().zip(&example.positions) {
        if said.top1 > GAMMA {
            tokens[p] = said.argmax as u32;
            sure += 1;
        }
    }
    let after = ask(backbone, &tokens, &example.positions);
    let mut counts = [0; 3];
    for (i, &label) in example.changes.iter().enumerate() {
        let expected = match before[i].top1 > GAMMA || sure == 0 {
            true => UNLABELLED,
            false if before[i].argmax == after[i].argmax => KEEPS,
            false => CHANGES,
        };
        assert_eq!(label, expected, "position {i} of {}", example.id);
        counts[label as usize] += 1;
    }
    counts
}

#[test]
fn labels_are_what_one_more_pass_says() {
    let backbone = support::backbone();
    let mut counts = [0; 3];
    for (states, alone) in [
        (States::Random, false),
        (States::Random, true),
        (States::Decoder(visits("demask:start=confident,tau=0.4,gamma=0.5")), true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let cache = generate(&settings(states, alone), folder.path(), 3000, 14);
        let mut labels = 0;
        for example in all(&cache) {
            let found = check_labels(&backbone, &example);
            labels += found[0] + found[1];
            counts.iter_mut().zip(found).for_each(|(sum, count)| *sum += count);
            assert_eq!(example.dependency.is_empty(), alone);
        }
        assert_eq!(cache.manifest().labels(), labels as u64);
    }
    assert!(counts.iter().all(|&count| count >= 10), "kinds of labels: {counts:?}");
}

/// The states of a cache, against a decoding that is watched step by step from outside.
#[test]
fn states_are_those_a_decoder_visits_with_the_step_before() {
    let (backbone, context) = (support::backbone(), context());
    let visits = visits("demask:start=confident,tau=0.3,gamma=0.5");
    let folder = tempfile::tempdir().unwrap();
    let settings = TvCacheSettings {
        masks_per_response: 100,
        responses_per_file: 64,
        ..settings(States::Decoder(visits.clone()), true)
    };
    let cache = generate(&settings, folder.path(), 900, 6);
    let examples = all(&cache);
    let (mut kept, mut first) = (0, 0);
    for own in examples.chunk_by(|a, b| a.id == b.id) {
        let ids = &backbone.spec().ids;
        let start =
            Canvas::generate(&own[0].tokens[..own[0].prompt], own[0].tokens.len() - own[0].prompt, ids)
                .unwrap();
        let mut options = Options::default();
        options.suppression.ids = vec![ids.mask];
        let spec = visits.strategy.parse().unwrap();
        let mut job = Job::new(start, &spec, &context, options, Box::new(())).unwrap();
        let (mut last, mut steps) = (None::<(Vec<usize>, Vec<SoftmaxStats>)>, own.iter());
        while !job.is_done() {
            let tokens = job.canvas().tokens().to_vec();
            let masked: Vec<usize> = (0..tokens.len()).filter(|&p| tokens[p] == ids.mask).collect();
            let said = ask(&backbone, &tokens, &masked);
            if masked.len() >= 2 {
                let example = steps.next().expect("every state is there");
                assert_eq!(example.positions, masked);
                assert_eq!(canvas(&backbone, example), tokens);
                for ((opinion, &p), now) in example.opinions().iter().zip(&masked).zip(&said) {
                    let then =
                        last.as_ref().and_then(|(at, said)| Some(&said[at.iter().position(|&a| a == p)?]));
                    assert_eq!(opinion.before.map(|b| b.top1), then.map(|t| t.top1));
                    assert_eq!(opinion.before.map(|b| b.kept), then.map(|t| t.argmax == now.argmax));
                    kept += usize::from(opinion.before.is_some_and(|b| b.kept));
                    first += usize::from(opinion.before.is_none());
                }
            }
            last = Some((masked, said));
            Decoder::new(&backbone).step(&mut [&mut job]).unwrap();
        }
        assert!(steps.next().is_none());
        assert_eq!(own[0].tokens, job.canvas().tokens(), "elsewhere stands what was finally written");
    }
    assert!(kept > 20 && first > 20, "{kept} {first}");
}

#[test]
fn neither_budget_nor_order_changes_a_cache_and_other_heads_are_refused() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let settings = settings(States::Decoder(visits("demask:start=confident,tau=0.4,gamma=0.5")), false);
    generate(&settings, a.path(), 400, 10);
    generate(&settings, b.path(), 50_000, 10);
    assert_same(a.path(), b.path());
    let other = States::Decoder(Visits { heads: "others".into(), ..visits("entropy") });
    let (backbone, source) = (support::backbone(), responses(4));
    let settings = TvCacheSettings { states: other, ..settings };
    let generator = Generator {
        backbone: &backbone,
        source: &source,
        settings: &settings,
        folder: a.path(),
        token_budget: 400,
        shard: Shard::WHOLE,
        context: None,
        claim: Claim::Lock,
    };
    assert!(generator.run(&mut ()).unwrap_err().to_string().contains("heads"));
}

/// A cache of the settings there were before says nothing of states and labels.
#[test]
fn plain_caches_are_written_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    support::generate(&responses(6), &support::settings(), folder.path(), 2000, Shard::WHOLE);
    let manifest = std::fs::read_to_string(folder.path().join("manifest.json")).unwrap();
    for word in ["states", "stability", "labels"] {
        assert!(!manifest.contains(word), "{word}");
    }
    let cache = Cache::open(folder.path()).unwrap();
    assert!(all(&cache).iter().all(|example| example.opinions.is_none() && example.changes.is_empty()));
    let settings = StabilitySettings::default();
    let fit = StabilityFit {
        caches: &[cache],
        parts: None,
        row: HiddenRow::I,
        settings: &settings,
        folder: &folder.path().join("run"),
    };
    let error = fit.run(&mut |_| ControlFlow::Continue(())).unwrap_err().to_string();
    assert!(error.contains("without stability labels"), "{error}");
}

fn quick() -> StabilitySettings {
    StabilitySettings {
        epochs: 6,
        batch: 32,
        inner: 16,
        rate: 3e-3,
        validation: 0.25,
        ..StabilitySettings::default()
    }
}

#[test]
fn training_beats_the_constant_and_ends_in_the_same_bytes_after_stops() {
    let folder = tempfile::tempdir().unwrap();
    let cache = generate(&settings(States::Random, true), &folder.path().join("cache"), 4000, 60);
    let (caches, parts, settings) = ([cache], predictor(), quick());
    let train = |name: &str, stops: &[u64]| {
        let run = folder.path().join(name);
        let fit = StabilityFit {
            caches: &caches,
            parts: Some(&parts),
            row: HiddenRow::I,
            settings: &settings,
            folder: &run,
        };
        for &stop in stops {
            let stopped = fit.run(&mut |p| {
                if p.step >= stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert!(stopped.unwrap().is_none());
        }
        fit.run(&mut |_| ControlFlow::Continue(())).unwrap().unwrap()
    };
    let whole = train("whole", &[]);
    let pieces = train("pieces", &[3, 11, 12]);
    assert_eq!(whole.parts, pieces.parts);
    assert_eq!(contents(&folder.path().join("whole")), contents(&folder.path().join("pieces")));
    let report = &whole.report;
    assert!(report.log_loss < 0.97 * report.constant, "{report}");
    assert!(!report.is_worse_than_a_constant());
    let head = whole.parts.stability.as_ref().unwrap();
    assert_eq!(
        (head.hidden_row(), head.inner(), head.about().gamma),
        (HiddenRow::IMinusOne, 16, Some(GAMMA))
    );
    assert_eq!(whole.parts.heads, parts.heads, "the dependency head is as it was");
}

#[test]
fn rounds_decode_with_what_the_round_before_trained() {
    let (backbone, context, parts) = (support::backbone(), context(), predictor());
    let cache = TvCacheSettings { limit: 20, ..settings(States::Random, true) };
    let (first, then) = (
        visits("demask:start=confident,tau=0.4,gamma=0.5"),
        visits("demask:start=stable,tau=0.4,gamma=0.5,kappa=0.3"),
    );
    let run = |folder: &Path, count: usize| {
        let (source, settings) = (responses(40), quick());
        let rounds = Rounds {
            backbone: &backbone,
            context: &context,
            parts: Some(&parts),
            row: HiddenRow::I,
            source: &source,
            cache: &cache,
            first: &first,
            then: &then,
            count,
            settings: &settings,
            folder,
            token_budget: 4000,
        };
        let mut heard = Vec::new();
        let last = rounds.run(&mut (), &mut |_| ControlFlow::Continue(()), &mut |round| {
            heard.push((round.strategy.clone(), round.labels));
        });
        (last.unwrap().unwrap(), heard)
    };
    let (whole, pieces) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (last, heard) = run(whole.path(), 2);
    assert!(heard[0].0.contains("confident") && heard[1].0.contains("stable"), "{heard:?}");
    assert!(heard[1].1 > heard[0].1, "the second round adds states");
    // Stopped between the rounds and continued.
    run(pieces.path(), 1);
    run(pieces.path(), 2);
    assert_same(whole.path(), pieces.path());
    // And the file decodes.
    let (read, _) = Parts::load(&last.path).unwrap();
    assert_eq!(read.stability, last.fitted.parts.stability);
    let context = Context { stability: read.stability.clone().map(Arc::new), ..context };
    let canvas = Canvas::generate(&[3, 4, 5], 16, &backbone.spec().ids).unwrap();
    let spec = then.strategy.parse().unwrap();
    let mut jobs = [Job::new(canvas, &spec, &context, Options::default(), Box::new(())).unwrap()];
    Decoder::new(&backbone).run(&mut jobs).unwrap();
    assert!(jobs[0].is_done());
}
