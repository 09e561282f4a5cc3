//! The cache: its rows are right, and neither budget, order, sharding nor threads change a byte of it.

mod support;

use std::path::Path;

use demask_decode::dependency::{Masked, Reveals};
use demask_decode::probe::BackboneProbe;
use demask_engine::Shard;
use demask_model::{Backbone, HiddenRow, Query};
use demask_train::tv_cache::{
    Cache, Claim, Columns, Generated, Generator, HiddenRows, Info, Outcome, Response, ResponseSource, Stored,
    TvCacheSettings,
};
use support::{assert_same, generate, responses, settings};

const COUNT: usize = 14;

fn whole(folder: &Path, budget: usize) -> Outcome {
    generate(&responses(COUNT), &settings(), folder, budget, Shard::WHOLE)
}

#[test]
fn rows_hold_what_the_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let settings = TvCacheSettings { hidden_dtype: Stored::F32, divergence: true, ..settings() };
    let source = responses(COUNT);
    generate(&source, &settings, folder.path(), 2000, Shard::WHOLE);
    let cache = Cache::open(folder.path()).unwrap();
    let backbone = support::backbone();
    let (mask, eos) = (backbone.spec().ids.mask, backbone.spec().ids.eos[0]);
    let originals = source.read(0..COUNT).unwrap();
    let (mut seen, mut repeated) = (0, 0);
    for file in 0..cache.manifest().files.len() {
        for example in cache.read(file, Columns::ALL).unwrap() {
            let index: usize = example.id.strip_prefix("toy-").unwrap().parse().unwrap();
            let original = originals[index].as_ref().unwrap();
            assert_eq!(example.tokens[..example.prompt], original.prompt);
            let end = example.prompt + original.response.len();
            assert_eq!(example.tokens[example.prompt..end], original.response);
            assert_eq!(example.tokens[end..], [eos]);
            assert!(example.positions.iter().all(|&p| p >= example.prompt) && example.positions.len() >= 2);
            assert!(!example.revealed.contains(&mask));
            check_numbers(&backbone, &example);
            check_divergences(&backbone, &example);
            seen += 1;
            repeated += u32::from(example.draw == 1);
        }
    }
    let manifest = cache.manifest();
    assert_eq!((seen, manifest.responses(), manifest.refused()), (manifest.examples(), 13, 1));
    assert!(repeated > 0, "some masks are drawn twice");
    let refused = cache.refused().unwrap();
    assert!(
        refused.len() == 1 && refused[0].row == 5 && refused[0].why.contains("on purpose"),
        "{refused:?}"
    );
}

/// Measures one row again, alone.
fn check_numbers(backbone: &dyn Backbone, example: &demask_train::tv_cache::Example) {
    let mut canvas = example.tokens.clone();
    example.positions.iter().for_each(|&p| canvas[p] = backbone.spec().ids.mask);
    let probe = BackboneProbe::new(backbone, 1);
    let masked = Masked { tokens: &canvas, masked: &example.positions, rows: None };
    let base = Reveals::measure_each(&probe, &[masked]).unwrap().remove(0);
    let dependency = base.reveal(&probe, &example.revealed).unwrap();
    for (stored, fresh) in example.dependency.to_f32().iter().zip(dependency.data()) {
        assert!((stored - fresh).abs() <= 5e-4 * fresh + 1e-7, "{stored} {fresh}");
    }
    for (row, stored) in
        [(HiddenRow::I, &example.hidden_i), (HiddenRow::IMinusOne, &example.hidden_i_minus_1)]
    {
        let mut query =
            [Query { tokens: &canvas, hidden: Some((&example.positions, row)), ..Query::default() }];
        let hidden = backbone.forward(&mut query).unwrap().remove(0).hidden.unwrap();
        assert_eq!(stored.as_ref().unwrap().to_f32(), hidden.data);
    }
}

/// `KL(P(X_i | x, y_j) ‖ P(X_i | x))` of every pair, from plain passes and in f64.
fn check_divergences(backbone: &dyn Backbone, example: &demask_train::tv_cache::Example) {
    let (mask, size) = (backbone.spec().ids.mask, example.positions.len());
    let mut canvas = example.tokens.clone();
    example.positions.iter().for_each(|&p| canvas[p] = mask);
    let log_probabilities = |canvas: &[u32]| -> Vec<Vec<f64>> {
        let mut query = [Query { tokens: canvas, predict: &example.positions, ..Query::default() }];
        let pass = backbone.forward(&mut query).unwrap().remove(0);
        let mut rows = Vec::new();
        let mut keep = |_: usize, logits: &mut [f32]| {
            for row in logits.chunks_exact(backbone.spec().vocab) {
                let max = f64::from(row.iter().copied().fold(f32::MIN, f32::max));
                let sum: f64 = row.iter().map(|&z| (f64::from(z) - max).exp()).sum();
                rows.push(row.iter().map(|&z| f64::from(z) - max - sum.ln()).collect());
            }
        };
        backbone.logits(&pass.predicting, &mut keep).unwrap();
        rows
    };
    let before = log_probabilities(&canvas);
    let stored = example.divergence.as_ref().unwrap().to_f32();
    assert_eq!(stored.len(), size * size);
    for j in 0..size {
        let mut revealed = canvas.clone();
        revealed[example.positions[j]] = example.revealed[j];
        let after = log_probabilities(&revealed);
        for i in 0..size {
            let terms = after[i].iter().zip(&before[i]).map(|(a, b)| a.exp() * (a - b));
            let exact = if i == j { 0.0 } else { terms.sum::<f64>() };
            let stored = f64::from(stored[i * size + j]);
            assert!((stored - exact).abs() <= 1e-3 * exact + 2e-6, "{i} after {j}: {stored} {exact}");
        }
    }
}

/// What is revealed is drawn from the model at temperature 1, not its most probable token: as often as the model says.
#[test]
fn revealed_tokens_are_draws_of_the_models_distribution() {
    let folder = tempfile::tempdir().unwrap();
    let settings = TvCacheSettings { masks_per_response: 6, repeat_share: 1.0, ..settings() };
    generate(&responses(40), &settings, folder.path(), 8000, Shard::WHOLE);
    let cache = Cache::open(folder.path()).unwrap();
    let backbone = support::backbone();
    let mask = backbone.spec().ids.mask;
    let (mut expected, mut variance, mut most, mut all, mut differ) = (0.0, 0.0, 0.0, 0, 0);
    let mut last: Option<demask_train::tv_cache::Example> = None;
    for file in 0..cache.manifest().files.len() {
        for example in cache.read(file, Columns { tokens: true, ..Columns::default() }).unwrap() {
            if let Some(first) =
                last.take().filter(|first| first.id == example.id && first.mask == example.mask)
            {
                differ += first.revealed.iter().zip(&example.revealed).filter(|(a, b)| a != b).count();
            }
            let mut canvas = example.tokens.clone();
            example.positions.iter().for_each(|&p| canvas[p] = mask);
            let probe = BackboneProbe::new(&backbone, 1);
            let base = Reveals::measure(&probe, &canvas, &example.positions).unwrap();
            for (i, &revealed) in example.revealed.iter().enumerate() {
                let argmax = (0..base.row(i).len() as u32)
                    .filter(|&token| token != mask)
                    .max_by(|&a, &b| base.row(i)[a as usize].total_cmp(&base.row(i)[b as usize]))
                    .unwrap();
                let p = f64::from(base.probability(i, argmax) / (1.0 - base.probability(i, mask)));
                expected += p;
                variance += p * (1.0 - p);
                most += f64::from(u8::from(revealed == argmax));
                all += 1;
            }
            last = Some(example);
        }
    }
    let off = (most - expected) / f64::sqrt(variance);
    assert!(
        off.abs() < 4.5,
        "the most probable token {most} times of {all}, {expected:.0} expected ({off:.1} deviations)"
    );
    assert!(variance > 100.0 && differ > 100, "two draws of a mask differ: {differ}, variance {variance}");
}

#[test]
fn the_token_budget_and_the_threads_change_nothing() {
    let (a, b, c) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    whole(a.path(), 300);
    whole(b.path(), 100_000);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    one.install(|| whole(c.path(), 5000));
    assert_same(a.path(), b.path());
    assert_same(a.path(), c.path());
}

#[test]
fn shards_add_up_to_the_whole() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    whole(a.path(), 4000);
    for index in [2, 0] {
        let outcome = generate(&responses(COUNT), &settings(), b.path(), 4000, Shard { index, count: 3 });
        assert!(matches!(outcome, Outcome::Waiting { all_files: 4, .. }), "{outcome:?}");
        assert!(Cache::open(b.path()).unwrap_err().to_string().contains("not finished"));
    }
    let outcome = generate(&responses(COUNT), &settings(), b.path(), 4000, Shard { index: 1, count: 3 });
    assert!(matches!(outcome, Outcome::Finished(_)), "{outcome:?}");
    assert_same(a.path(), b.path());
}

#[test]
fn the_order_of_responses_does_not_change_a_row() {
    let source = responses(COUNT);
    let mut rows: Vec<Response> = source.read(0..COUNT).unwrap().into_iter().flatten().collect();
    let all = |rows: Vec<Response>| {
        let folder = tempfile::tempdir().unwrap();
        let source = Generated {
            identity: "list".into(),
            len: rows.len(),
            make: |index: usize| Ok(rows[index].clone()),
        };
        generate(&source, &settings(), folder.path(), 4000, Shard::WHOLE);
        let cache = Cache::open(folder.path()).unwrap();
        let files = 0..cache.manifest().files.len();
        let mut examples: Vec<_> = files.flat_map(|file| cache.read(file, Columns::ALL).unwrap()).collect();
        examples.sort_by_key(|example| (example.id.clone(), example.mask, example.draw));
        examples
    };
    let forwards = all(rows.clone());
    rows.reverse();
    assert_eq!(forwards, all(rows));
}

#[test]
fn another_run_is_refused_and_a_finished_one_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    whole(folder.path(), 4000);
    let before = support::contents(folder.path());
    whole(folder.path(), 4000);
    assert_eq!(before, support::contents(folder.path()));
    let backbone = support::backbone();
    let (settings, source) = (TvCacheSettings { seed: 8, ..settings() }, responses(COUNT));
    let (folder, shard) = (folder.path(), Shard::WHOLE);
    let other = Generator {
        backbone: &backbone,
        source: &source,
        settings: &settings,
        folder,
        token_budget: 4000,
        shard,
        context: None,
        claim: Claim::Lock,
    };
    assert!(other.run(&mut ()).unwrap_err().to_string().contains("another"));
    std::fs::remove_file(folder.join("manifest.json")).unwrap();
    let error = other.run(&mut ()).unwrap_err().to_string();
    assert!(error.contains("tv-00000.parquet") && error.contains("another"), "{error}");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let (backbone, settings, source) = (support::backbone(), settings(), responses(COUNT));
    let inside = file.join("cache");
    let generator = Generator {
        backbone: &backbone,
        source: &source,
        settings: &settings,
        folder: &inside,
        token_budget: 4000,
        shard: Shard::WHOLE,
        context: None,
        claim: Claim::Lock,
    };
    let error = generator.run(&mut ()).unwrap_err().to_string();
    assert!(error.contains("cannot write") && error.contains("cache"), "{error}");
    assert!(Cache::open(folder.path()).unwrap_err().to_string().contains("manifest.json"));
}

#[test]
fn info_counts_every_pair_and_draws_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    generate(
        &responses(COUNT),
        &TvCacheSettings { hidden: HiddenRows::None, ..settings() },
        folder.path(),
        4000,
        Shard::WHOLE,
    );
    let cache = Cache::open(folder.path()).unwrap();
    let info = Info::of(&cache).unwrap();
    let mut values = Vec::new();
    for file in 0..cache.manifest().files.len() {
        for example in cache.read(file, Columns { dependency: true, ..Columns::default() }).unwrap() {
            assert!(example.hidden_i.is_none() && example.tokens.is_empty());
            let size = example.positions.len();
            let off =
                example.dependency.to_f32().into_iter().enumerate().filter(|(i, _)| i / size != i % size);
            values.extend(off.map(|(_, value)| value));
        }
    }
    assert_eq!(values.len() as u64, cache.manifest().pairs());
    let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64;
    assert!((info.mean - mean).abs() < 1e-9 && info.irreducible.is_some());
    values.sort_by(f32::total_cmp);
    assert_eq!(info.quantile(0.5), values[values.len().div_ceil(2) - 1]);
    assert!((info.histogram(40).iter().sum::<f64>() - 1.0).abs() < 1e-9);
    let text = info.to_string();
    assert!(text.contains("13 responses") && text.contains("1 row refused"), "{text}");
    info.draw(&folder.path().join("info")).unwrap();
    assert!(folder.path().join("info.png").exists() && folder.path().join("info.svg").exists());
}

/// A piece that was started again while its first runner lives: both work, neither dies, the bytes are the same.
#[test]
fn two_writers_of_the_same_files_do_not_harm_each_other() {
    let (alone, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    whole(alone.path(), 4000);
    std::thread::scope(|scope| {
        for budget in [4000, 500, 2000] {
            let folder = shared.path();
            scope.spawn(move || {
                let (backbone, settings, source) = (support::backbone(), settings(), responses(COUNT));
                let generator = Generator {
                    backbone: &backbone,
                    source: &source,
                    settings: &settings,
                    folder,
                    token_budget: budget,
                    shard: Shard::WHOLE,
                    context: None,
                    claim: Claim::Fence,
                };
                assert!(matches!(generator.run(&mut ()).unwrap(), Outcome::Finished(_)));
            });
        }
    });
    assert_eq!(support::contents(alone.path()), support::contents(shared.path()));
}

/// Stopped by its observer in the middle of a file, a run leaves whole files only and goes on to the same bytes.
#[test]
fn a_stopped_run_goes_on() {
    struct Stop(usize);
    impl demask_train::tv_cache::Observer for Stop {
        fn on_progress(&mut self, _: &demask_train::tv_cache::TvCacheProgress) -> std::ops::ControlFlow<()> {
            self.0 -= 1;
            if self.0 == 0 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
        }
    }
    let (alone, stopped) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    whole(alone.path(), 4000);
    let (backbone, settings, source) = (support::backbone(), settings(), responses(COUNT));
    let generator = Generator {
        backbone: &backbone,
        source: &source,
        settings: &settings,
        folder: stopped.path(),
        token_budget: 100,
        shard: Shard::WHOLE,
        context: None,
        claim: Claim::Lock,
    };
    for patience in 1..6 {
        assert_eq!(generator.run(&mut Stop(patience)).unwrap(), Outcome::Stopped);
        assert!(support::contents(stopped.path()).keys().all(|name| name.starts_with("tv-")));
    }
    generator.run(&mut ()).unwrap();
    assert_eq!(support::contents(alone.path()), support::contents(stopped.path()));
}
