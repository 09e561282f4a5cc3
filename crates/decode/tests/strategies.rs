//! The rules of the strategies against cases computed by hand, on a backbone whose distributions are
//! written down: rank, strictness, fallback, ties, counts, and what is refused.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use demask_decode::registry::Context;
use demask_decode::strategy::Stop;
use demask_decode::{
    Canvas, Decoder, EosPolicy, Error, Job, Observer, Options, Result, Sampling, StepRecord,
};
use demask_model::{Backbone, Pass, Query, Rows, Spec, SpecialIds};

const VOCAB: usize = 6;
const MASK: u32 = 4;
const EOS: u32 = 5;

/// Gives the probabilities that `script` writes down for a canvas, one row of `VOCAB` per position.
struct Scripted<F> {
    spec: Spec,
    script: F,
}

type Table = Vec<Vec<f32>>;

impl<F: Fn(&[u32]) -> Table + Send + Sync> Scripted<F> {
    fn new(script: F) -> Self {
        let ids = SpecialIds { mask: MASK, eos: vec![EOS], pad: None, bos: None };
        let spec = Spec { vocab: VOCAB, hidden: VOCAB, max_positions: 4096, ..Spec::plain("scripted", ids) };
        Self { spec, script }
    }

    /// Decodes `length` masks; positions chosen in each step, in order, with the records.
    fn decode(&self, length: usize, strategy: &str, options: Options) -> Result<Vec<StepRecord>> {
        let canvas = Canvas::generate(&[], length, &self.spec.ids)?;
        let steps = Steps::default();
        let options = Options { eos: EosPolicy::None, ..options };
        let job =
            Job::new(canvas, &strategy.parse()?, &Context::default(), options, Box::new(steps.clone()))?;
        let mut jobs = [job];
        Decoder::new(self).run(&mut jobs)?;
        assert!(jobs[0].canvas().is_done());
        let records = steps.0.lock().unwrap().clone();
        Ok(records)
    }

    fn order(&self, length: usize, strategy: &str, options: Options) -> Vec<Vec<usize>> {
        self.decode(length, strategy, options).unwrap().iter().map(positions).collect()
    }
}

fn positions(record: &StepRecord) -> Vec<usize> {
    record.commits.iter().map(|c| c.position).collect()
}

impl<F: Fn(&[u32]) -> Table + Send + Sync> Backbone for Scripted<F> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn forward(&self, batch: &mut [Query<'_>]) -> demask_model::Result<Vec<Pass>> {
        let pass = |query: &mut Query<'_>| {
            let table = (self.script)(query.tokens);
            let row = |&p: &usize| {
                (0..VOCAB).map(|v| table[p].get(v).map_or(f32::NEG_INFINITY, |p| p.ln())).collect::<Vec<_>>()
            };
            let rows =
                |positions: &[usize]| Rows { data: positions.iter().flat_map(row).collect(), width: VOCAB };
            Pass {
                predicting: rows(query.predict),
                hidden: query.hidden.map(|(positions, _)| rows(positions)),
                computed_rows: query.tokens.len(),
                ..Pass::default()
            }
        };
        Ok(batch.iter_mut().map(pass).collect())
    }

    fn logits(&self, rows: &Rows, visit: &mut dyn FnMut(usize, &mut [f32])) -> demask_model::Result<()> {
        // Two rows at a time, so that chunks are met.
        for (index, part) in rows.data.chunks(2 * VOCAB).enumerate() {
            visit(2 * index, &mut part.to_vec());
        }
        Ok(())
    }

    fn fingerprint(&self) -> String {
        "scripted".into()
    }
}

#[derive(Clone, Default)]
struct Steps(Arc<Mutex<Vec<StepRecord>>>);

impl Observer for Steps {
    fn on_step(&mut self, record: &StepRecord, _: &Canvas) -> ControlFlow<()> {
        self.0.lock().unwrap().push(record.clone());
        ControlFlow::Continue(())
    }
}

fn fixed(table: &[&[f32]]) -> Scripted<impl Fn(&[u32]) -> Table + Send + Sync + use<>> {
    let table: Table = table.iter().map(|row| row.to_vec()).collect();
    Scripted::new(move |_| table.clone())
}

/// The same distribution everywhere.
fn alike(count: usize, row: &[f32]) -> Scripted<impl Fn(&[u32]) -> Table + Send + Sync + use<>> {
    fixed(&vec![row; count])
}

fn options() -> Options {
    Options::default()
}

fn hot(seed: u64) -> Options {
    Options { sampling: Sampling { temperature: 1.0, ..Sampling::default() }, seed, ..Options::default() }
}

/// Three positions on which the three scores disagree:
///
/// | position | distribution | top-1 | gap | entropy |
/// |---|---|---|---|---|
/// | 0 | .50 .30 .20 | .50 | .20 | 1.030 |
/// | 1 | .46 .18 .18 .18 | .46 | .28 | 1.283 |
/// | 2 | .48 .47 .05 | .48 | .01 | 0.857 |
const DISAGREEING: [&[f32]; 3] = [&[0.5, 0.3, 0.2], &[0.46, 0.18, 0.18, 0.18], &[0.48, 0.47, 0.05]];

#[test]
fn each_score_ranks_by_its_own_rule() {
    let backbone = fixed(&DISAGREEING);
    for (strategy, order) in [
        ("entropy", [2, 0, 1]),
        ("entropy:score=raw", [2, 0, 1]),
        ("top1", [0, 2, 1]),
        ("top1:score=raw", [0, 2, 1]),
        ("maskgit-plus", [0, 2, 1]),
        ("margin", [1, 0, 2]),
        ("margin:score=raw", [1, 0, 2]),
        ("token-order", [0, 1, 2]),
    ] {
        let one_by_one: Vec<Vec<usize>> = order.iter().map(|&p| vec![p]).collect();
        assert_eq!(backbone.order(3, strategy, options()), one_by_one, "{strategy}");
        let separator = if strategy.contains(':') { ',' } else { ':' };
        let all = format!("{strategy}{separator}k=3");
        assert_eq!(backbone.order(3, &all, options()), [order.to_vec()], "{all}: best first");
    }
}

#[test]
fn ties_go_to_the_left() {
    let backbone = alike(5, &[0.25, 0.75]);
    for strategy in ["entropy", "top1", "maskgit-plus", "margin", "token-order"] {
        let steps = backbone.order(5, &format!("{strategy}:k=2"), options());
        assert_eq!(steps, [vec![0, 1], vec![2, 3], vec![4]], "{strategy}");
    }
}

#[test]
fn filtered_scores_tie_where_raw_ones_do_not() {
    let backbone = fixed(&[&[0.92, 0.08], &[0.99, 0.01]]);
    let sampling = Sampling { temperature: 0.1, top_p: Some(0.9), top_k: None, ..Sampling::default() };
    let options = || Options { sampling, ..Options::default() };
    for strategy in ["entropy", "top1", "maskgit-plus", "margin"] {
        assert_eq!(
            backbone.order(2, strategy, options()),
            [[0], [1]],
            "{strategy}: one token is left, a tie"
        );
        let bf16 = format!("{strategy}:dtype=bf16");
        assert_eq!(backbone.order(2, &bf16, options()), [[0], [1]], "{bf16}");
        let raw = format!("{strategy}:score=raw");
        assert_eq!(backbone.order(2, &raw, options()), [[1], [0]], "{raw}");
    }
}

#[test]
fn maskgit_ranks_by_the_token_that_was_drawn() {
    let backbone = fixed(&DISAGREEING);
    let mut unlike_top1 = 0;
    for seed in 0..40 {
        let steps = backbone.decode(3, "maskgit-plus:k=3", hot(seed)).unwrap();
        let commits = &steps[0].commits;
        for commit in commits {
            let written = DISAGREEING[commit.position][commit.token as usize];
            assert!((commit.probability - written).abs() < 1e-6);
        }
        let ordered = |w: &[demask_decode::trace::Commit]| {
            let (a, b) = (w[0].probability, w[1].probability);
            a > b || ((a - b).abs() < 1e-6 && w[0].position < w[1].position)
        };
        assert!(commits.windows(2).all(ordered), "{commits:?}");
        unlike_top1 += usize::from(positions(&steps[0]) != [0, 2, 1]);
    }
    assert!(unlike_top1 > 10, "{unlike_top1}: the draw decides");
}

#[test]
fn a_ranking_temperature_randomises_positions() {
    let backbone = fixed(&DISAGREEING);
    let orders = |alg_temp: &str| -> std::collections::BTreeSet<Vec<Vec<usize>>> {
        let strategy = format!("entropy:alg_temp={alg_temp}");
        (0..30).map(|seed| backbone.order(3, &strategy, Options { seed, ..options() })).collect()
    };
    assert_eq!(orders("0.000001").into_iter().collect::<Vec<_>>(), [vec![vec![2], vec![0], vec![1]]]);
    assert!(orders("100").len() > 3);
}

#[test]
fn random_is_uniform() {
    let backbone = fixed(&DISAGREEING);
    let mut first = [0; 3];
    for seed in 0..600 {
        let steps = backbone.order(3, "random", Options { seed, ..options() });
        let mut all: Vec<usize> = steps.concat();
        first[all[0]] += 1;
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    }
    // Four standard deviations of a fair three-way draw.
    assert!(first.iter().all(|count| (154..=246).contains(count)), "{first:?}");
}

#[test]
fn origin_takes_each_position_at_the_rate_of_the_schedule() {
    let backbone = alike(800, &[0.5, 0.5]);
    let steps = backbone.decode(800, "origin:steps=4", options()).unwrap();
    assert_eq!(steps.len(), 4);
    // Rates 1 − t_{i+1}/t_i with t = 1, .75025, .5005, .25075: a quarter of the whole each time.
    for step in &steps {
        assert!((140..=260).contains(&step.commits.len()), "{}", step.commits.len());
        assert!(step.commits.windows(2).all(|w| w[0].position < w[1].position));
    }
    assert_eq!(backbone.order(800, "origin:steps=1", options()).len(), 1);
}

/// Confidences .97 (position 4), .95 (0), .92 (1), 1 (2) and .5 (3), never moving.
fn still() -> Scripted<impl Fn(&[u32]) -> Table + Send + Sync> {
    fixed(&[&[0.05, 0.95], &[0.92, 0.08], &[0.0, 0.0, 1.0], &[0.5, 0.25, 0.25], &[0.97, 0.03]])
}

#[test]
fn klass_waits_for_two_still_passes() {
    let steps = still().decode(5, "klass:conf=0.9,kl=0.001", options()).unwrap();
    let order: Vec<Vec<usize>> = steps.iter().map(positions).collect();
    // Two passes of fallback (most confident first), then every position that is sure, then the rest.
    assert_eq!(order, [vec![2], vec![4], vec![0, 1], vec![3]]);
    let stops: Vec<Option<Stop>> = steps.iter().map(|s| s.stop).collect();
    let expected = [Stop::Fallback, Stop::Fallback, Stop::NoCandidate, Stop::Fallback];
    assert_eq!(stops, expected.map(Some));
    let longer = still().order(5, "klass:conf=0.9,kl=0.001,history=3", options());
    assert_eq!(longer, [vec![2], vec![4], vec![0], vec![1], vec![3]]);
}

#[test]
fn klass_thresholds_confidence_inclusively_and_divergence_strictly() {
    let sure = alike(4, &[1.0]);
    assert_eq!(sure.order(4, "klass:conf=1,kl=0.001", options()), [vec![0], vec![1], vec![2, 3]]);
    assert_eq!(sure.order(4, "klass:conf=1,kl=0", options()), [[0], [1], [2], [3]]);
}

#[test]
fn klass_picks_one_when_asked() {
    // Position 3 is surer than position 2 but moves a little, less than the threshold.
    let backbone = Scripted::new(|tokens: &[u32]| {
        let left = tokens.iter().filter(|&&t| t == MASK).count();
        let moving = if left % 2 == 0 { vec![0.96, 0.04] } else { vec![0.955, 0.045] };
        vec![vec![0.999, 0.001], vec![0.998, 0.002], vec![0.95, 0.05], moving]
    });
    let order = |pick: &str| backbone.order(4, &format!("klass:conf=0.9,kl=0.001,pick={pick}"), options());
    assert_eq!(order("all"), [vec![0], vec![1], vec![2, 3]]);
    assert_eq!(order("max-conf"), [[0], [1], [3], [2]]);
    assert_eq!(order("min-kl"), [[0], [1], [2], [3]]);
}

#[test]
fn klass_does_not_take_what_moves() {
    // The distribution of position 3 depends on how many masks are left; the others are still.
    let backbone = Scripted::new(|tokens: &[u32]| {
        let left = tokens.iter().filter(|&&t| t == MASK).count();
        let moving = if left % 2 == 0 { vec![0.96, 0.04] } else { vec![0.91, 0.09] };
        vec![vec![0.99, 0.01], vec![0.98, 0.02], vec![0.97, 0.03], moving]
    });
    let order = backbone.order(4, "klass:conf=0.9,kl=0.001", options());
    assert_eq!(order, [vec![0], vec![1], vec![2], vec![3]]);
    let lenient = backbone.order(4, "klass:conf=0.9,kl=0.5", options());
    assert_eq!(lenient, [vec![0], vec![1], vec![2, 3]]);
}

#[test]
fn klass_writes_the_most_probable_token_whatever_the_temperature() {
    for seed in 0..10 {
        let steps = still().decode(5, "klass:conf=0.9,kl=0.001", hot(seed)).unwrap();
        for commit in steps.iter().flat_map(|s| &s.commits) {
            assert_eq!(commit.token, [1, 0, 2, 0, 0][commit.position]);
        }
    }
}

#[test]
fn not_a_number_is_an_error_with_its_place() {
    let backbone = Scripted::new(|tokens: &[u32]| {
        let late = tokens[0] != MASK;
        (0..4).map(|p| if p == 2 && late { vec![f32::NAN, 0.5] } else { vec![0.6, 0.4] }).collect()
    });
    for strategy in ["entropy", "token-order", "klass", "origin:steps=2", "demask:dependency=oracle"] {
        let error = backbone.decode(4, strategy, options()).err();
        match error {
            Some(Error::NotFinite { position, .. }) => assert_eq!(position, 2, "{strategy}"),
            // Taking all four at once never meets the bad row.
            None if strategy.starts_with("origin") => {}
            other => panic!("{strategy}: {other:?}"),
        }
    }
    let Err(Error::NotFinite { step, .. }) = backbone.decode(4, "token-order", options()) else {
        panic!("must fail")
    };
    assert_eq!(step, 1);
}

#[test]
fn more_steps_than_tokens_still_end() {
    let backbone = fixed(&DISAGREEING);
    for strategy in ["entropy:steps=50", "origin:steps=50", "token-order:steps=1000", "random:steps=9"] {
        let steps = backbone.decode(3, strategy, options()).unwrap();
        let asked: usize = strategy.rsplit('=').next().unwrap().parse().unwrap();
        assert!(steps.len() <= asked, "{strategy}: {}", steps.len());
        assert_eq!(steps.iter().map(|s| s.commits.len()).sum::<usize>(), 3, "{strategy}");
    }
    assert_eq!(backbone.order(3, "entropy:steps=50,schedule=even", options()), [[2], [0], [1]]);
}

#[test]
fn even_steps_give_the_remainder_to_the_first() {
    let backbone = alike(7, &[0.25, 0.75]);
    let counts: Vec<usize> =
        backbone.order(7, "token-order:steps=3,schedule=even", options()).iter().map(Vec::len).collect();
    assert_eq!(counts, [3, 2, 2]);
}

#[test]
fn blocks_are_finished_left_to_right() {
    let backbone = fixed(&[&[0.6, 0.4], &[0.7, 0.3], &[0.8, 0.2], &[0.9, 0.1], &[0.99, 0.01]]);
    let options = Options { block_length: Some(2), ..options() };
    assert_eq!(backbone.order(5, "top1", options.clone()), [[1], [0], [3], [2], [4]]);
    let records = backbone.decode(5, "top1:k=9", options).unwrap();
    let blocks: Vec<(usize, usize)> = records.iter().map(|r| (r.block, r.masked)).collect();
    assert_eq!(blocks, [(0, 2), (1, 2), (2, 1)]);
}

#[test]
fn nothing_to_decode_is_refused() {
    let backbone = fixed(&DISAGREEING);
    let ids = &backbone.spec.ids;
    for canvas in [Canvas::generate(&[0, 1], 0, ids), Canvas::infill(&[0, 1], ids), Canvas::infill(&[], ids)]
    {
        assert!(canvas.err().unwrap().to_string().contains("no mask"));
    }
}
