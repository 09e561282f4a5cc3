//! DEMASK with the learned start: the decoder's steps against the same rule in plain loops over passes of its own, and the
//! stability head in files, beside the dependency head and alone.

mod support;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use demask_decode::dependency::{
    Feature, Metadata, Opinion, Parts, Predictor, Stability, StabilityAbout, StabilityWeights,
};
use demask_decode::observer::Recorder;
use demask_decode::registry::Context;
use demask_decode::rng::{Purpose, Rng};
use demask_decode::rule::Before;
use demask_decode::{Canvas, Decoder, EosPolicy, Job, Options, StrategySpec};
use demask_kernels::softmax_stats;
use demask_model::checkpoint::{Dtype, Mapped, write};
use demask_model::{Backbone, HiddenRow, Query, Rows, Transformer};

fn file() -> std::path::PathBuf {
    support::folder().join("predictor_row_i_minus_1.safetensors")
}

/// A head with random weights.
fn head(seed: u64, features: Vec<Feature>, d: usize) -> Stability {
    let rng = Rng::new(seed, 0);
    let draw = |of: u64, count: usize, size: f64| -> Vec<f32> {
        (0..count).map(|i| ((rng.uniform(Purpose::Mask, of, i as u64) * 2.0 - 1.0) * size) as f32).collect()
    };
    let (inner, width) = (12, d + features.len());
    let weights = StabilityWeights {
        first: Rows { data: draw(0, width * inner, 0.4), width: inner },
        first_bias: draw(1, inner, 0.2),
        second: draw(2, inner, 0.8),
        second_bias: 0.1,
    };
    let about =
        StabilityAbout { gamma: Some(0.5), trained_on: Some("chance".into()), loss: Some((0.25, 0.5)) };
    Stability::new(HiddenRow::IMinusOne, features, &weights, about).unwrap()
}

/// How a step began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Began {
    NothingSure,
    Stable,
    Surest,
}

/// The positions of every step in the order of choice, decided by plain loops over the backbone's own passes.
fn plain(
    backbone: &Transformer,
    predictor: &Predictor,
    head: &Stability,
    mut tokens: Vec<u32>,
    (tau, gamma, kappa): (f32, f32, f32),
) -> (Vec<Vec<usize>>, Vec<u32>, Vec<Began>) {
    let mask = backbone.spec().ids.mask;
    let (mut steps, mut began) = (Vec::new(), Vec::new());
    let mut last: HashMap<usize, (usize, f32)> = HashMap::new();
    loop {
        let masked: Vec<usize> = (0..tokens.len()).filter(|&p| tokens[p] == mask).collect();
        if masked.is_empty() {
            return (steps, tokens, began);
        }
        let query = Query {
            tokens: &tokens,
            predict: &masked,
            hidden: Some((&masked, HiddenRow::IMinusOne)),
            ..Query::default()
        };
        let pass = backbone.forward(&mut [query]).unwrap().remove(0);
        let mut said = Vec::new();
        backbone
            .logits(&pass.predicting, &mut |_, chunk| {
                said.extend(chunk.chunks(backbone.spec().vocab).map(softmax_stats));
            })
            .unwrap();
        let hidden = pass.hidden.unwrap();
        let d = predictor.predict(&hidden, &[]).unwrap();
        let opinions: Vec<Opinion> = said
            .iter()
            .zip(&masked)
            .map(|(s, at)| Opinion {
                top1: s.top1,
                top2: s.top2,
                entropy: s.entropy,
                before: last.get(at).map(|&(token, top1)| Before { kept: token == s.argmax, top1 }),
            })
            .collect();
        let q = head.change(&hidden, &opinions, Some(&d), gamma).unwrap();
        last = masked.iter().zip(&said).map(|(&at, s)| (at, (s.argmax, s.top1))).collect();
        let sure: Vec<usize> = (0..masked.len()).filter(|&i| said[i].top1 > gamma).collect();
        let mut surest = 0;
        for i in 0..masked.len() {
            if said[i].top1 > said[surest].top1 {
                surest = i;
            }
        }
        let (mut start, mut how) = (surest, if sure.is_empty() { Began::NothingSure } else { Began::Surest });
        for f in (0..masked.len()).rev() {
            if !sure.is_empty() && said[f].top1 <= gamma && q[f] <= kappa {
                (start, how) = (f, Began::Stable);
            }
        }
        let (mut set, mut accumulated) = (vec![start], 0.0_f32);
        loop {
            let mut best: Option<(usize, f32)> = None;
            for &c in sure.iter().filter(|c| !set.contains(c)) {
                let cost = set.iter().map(|&s| d.on(c, s)).fold(0.0, |a, b| a + b);
                if best.is_none_or(|(_, least)| cost < least) {
                    best = Some((c, cost));
                }
            }
            match best {
                Some((c, cost)) if accumulated + cost <= tau => {
                    set.push(c);
                    accumulated += cost;
                }
                _ => break,
            }
        }
        for &i in &set {
            tokens[masked[i]] = said[i].argmax as u32;
        }
        steps.push(set.iter().map(|&i| masked[i]).collect());
        began.push(how);
    }
}

#[test]
fn every_step_is_that_of_the_plain_rule() {
    let (backbone, expected) = (support::backbone(), support::expected());
    let predictor = Arc::new(Predictor::load(&file()).unwrap().0);
    let mut seen: HashMap<Began, usize> = HashMap::new();
    for seed in 0..3 {
        let head = Arc::new(head(seed, Feature::ALL.to_vec(), predictor.width()));
        let context = Context {
            predictor: Some(predictor.clone()),
            stability: Some(head.clone()),
            ..Context::default()
        };
        for (tau, gamma, kappa) in [(0.3, 0.2, 0.45), (4.0, 0.35, 0.55), (1.0, 0.5, 0.3), (1.0, 0.99, 1.0)] {
            let spelling = format!("demask:start=stable,tau={tau},gamma={gamma},kappa={kappa}");
            let spec: StrategySpec = spelling.parse().unwrap();
            let prompt = support::ids(&expected["prompts"][seed as usize]);
            let canvas = Canvas::generate(&prompt, 24, &backbone.spec().ids).unwrap();
            let tokens = canvas.tokens().to_vec();
            let recorder = Arc::new(Mutex::new(Recorder::default()));
            let options = Options { eos: EosPolicy::None, ..Options::default() };
            let job = Job::new(canvas, &spec, &context, options, Box::new(recorder.clone()));
            let mut jobs = [job.unwrap()];
            Decoder::new(&backbone).run(&mut jobs).unwrap();
            let ours: Vec<Vec<usize>> = recorder
                .lock()
                .unwrap()
                .records
                .iter()
                .map(|r| r.commits.iter().map(|c| c.position).collect())
                .collect();
            let (theirs, text, began) = plain(&backbone, &predictor, &head, tokens, (tau, gamma, kappa));
            assert_eq!(ours, theirs, "{spelling}, head {seed}");
            assert_eq!(jobs[0].canvas().tokens(), text, "{spelling}, head {seed}");
            began.into_iter().for_each(|how| *seen.entry(how).or_default() += 1);
        }
    }
    for how in [Began::NothingSure, Began::Stable, Began::Surest] {
        assert!(seen.get(&how).is_some_and(|&count| count >= 5), "{how:?} was hardly tried: {seen:?}");
    }
}

#[test]
fn without_a_head_the_way_out_is_named_and_the_rest_decodes_as_before() {
    let spec: StrategySpec = "demask:start=stable".parse().unwrap();
    let built = |context: &Context| spec.build(context).map(|_| ()).map_err(|e| e.to_string());
    let predictor = Some(Arc::new(Predictor::load(&file()).unwrap().0));
    let plain = Context { predictor: predictor.clone(), ..Context::default() };
    let error = built(&plain).unwrap_err();
    assert!(error.contains("needs a stability head") && error.contains("train one"), "{error}");
    // A head that reads dependencies needs somebody who tells them.
    let reads = Arc::new(head(0, Feature::ALL.to_vec(), 64));
    let spec: StrategySpec = "demask:start=stable,dependency=oracle".parse().unwrap();
    let alone = Context { stability: Some(reads), ..Context::default() };
    let error = spec.build(&alone).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("needs a dependency predictor"), "{error}");
    // One that reads none works with the true dependency and no predictor at all.
    let own = Arc::new(head(0, Feature::without_dependency(), 64));
    let backbone = support::backbone();
    let canvas = Canvas::generate(&[3, 4], 6, &backbone.spec().ids).unwrap();
    let context = Context { stability: Some(own), ..Context::default() };
    let mut jobs = [Job::new(canvas, &spec, &context, Options::default(), Box::new(())).unwrap()];
    Decoder::new(&backbone).run(&mut jobs).unwrap();
    assert!(jobs[0].is_done());
}

#[test]
fn both_heads_lie_in_one_file_or_either() {
    let folder = tempfile::tempdir().unwrap();
    let (dependency, _) = Parts::load(&file()).unwrap();
    let d = dependency.width();
    let both = Parts { stability: Some(head(1, Feature::ALL.to_vec(), d)), ..dependency.clone() };
    let metadata =
        Metadata { backbone: dependency.metadata.backbone.clone(), ..Metadata::new(HiddenRow::IMinusOne) };
    let alone = Parts::stable(head(1, Feature::without_dependency(), d), metadata);
    for (name, parts) in [("both", &both), ("alone", &alone), ("neither", &dependency)] {
        let path = folder.path().join(name);
        parts.save(&path, Dtype::F32).unwrap();
        let (back, understanding) = Parts::load(&path).unwrap();
        assert_eq!(back.stability, parts.stability, "{name}");
        assert_eq!(back.heads, parts.heads, "{name}");
        let said = understanding.to_string();
        assert_eq!(
            said.contains("a stability head through 12 for what is sure above 0.5"),
            name != "neither",
            "{said}"
        );
        assert_eq!(said.contains("no head of dependency"), name == "alone", "{said}");
        assert_eq!((understanding.ignored, understanding.width), (0, d), "{said}");
        assert!(back.check_fit(&support::backbone()).is_ok());
    }
    // Rounded weights of dependency leave the head's own alone.
    both.save(&folder.path().join("half"), Dtype::Bf16).unwrap();
    assert_eq!(Parts::load(&folder.path().join("half")).unwrap().0.stability, both.stability);
    let error = Predictor::load(&folder.path().join("alone")).unwrap_err().to_string();
    assert!(error.contains("none of dependency"), "{error}");
    let lost = Parts::stable(head(1, Feature::ALL.to_vec(), d), Metadata::new(HiddenRow::IMinusOne));
    assert!(lost.check().unwrap_err().to_string().contains("nothing predicts them"));
    let narrow = Parts { stability: Some(head(1, Feature::ALL.to_vec(), d - 1)), ..dependency };
    assert!(narrow.check().unwrap_err().to_string().contains("stability head"));
}

#[test]
fn a_head_that_cannot_be_read_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let tensor = |shape: &[usize]| Mapped::from_f32(shape, vec![0.1; shape.iter().product()]);
    let save = |path: &Path, first: &[usize], drop: &str, inputs: Option<&str>| {
        let all = [
            ("stability.first", tensor(first)),
            ("stability.first_bias", tensor(&[4])),
            ("stability.second", tensor(&[4])),
            ("stability.second_bias", tensor(&[1])),
        ];
        let kept: Vec<(String, Mapped)> =
            all.into_iter().filter(|(name, _)| *name != drop).map(|(n, t)| (n.to_owned(), t)).collect();
        let about = [("hidden_row", Some("i")), ("layout", Some("in,out")), ("stability_inputs", inputs)];
        let about = about.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?.to_owned()))).collect();
        write::file(path, &kept, &about).unwrap();
    };
    let path = folder.path().join("x.safetensors");
    for (first, drop, inputs, reason) in [
        (vec![9, 4], "", Some("top1,luck"), "\"luck\""),
        (vec![9, 4], "", None, "stability_inputs"),
        (vec![36], "", Some("top1"), "no matrix"),
        (vec![9, 3], "", Some("top1"), "3 wide"),
        (vec![1, 4], "", Some("top1"), "no hidden row"),
        (vec![9, 4], "stability.second", Some("top1"), "`stability.second`"),
        (vec![9, 4], "", Some("top1,depends"), "nothing predicts"),
    ] {
        save(&path, &first, drop, inputs);
        let error = Parts::load(&path).unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
    save(&path, &[9, 4], "", Some("top1"));
    assert_eq!(Parts::load(&path).unwrap().0.width(), 8);
}
