//! The runner on the committed fixture: a record depends on its item alone.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use demask_decode::StrategySpec;
use demask_engine::{Decoding, Model, Shard, Text};
use demask_eval::error::Result;
use demask_eval::run::compare::compare;
use demask_eval::run::suite::{Item, Suite};
use demask_eval::run::{Plan, Records, RunHeader, RunProgress, Sample, Spent, TRACES, merge, run};
use demask_eval::task::Score;
use tempfile::TempDir;

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy")
}

/// Sums of the fixture's language, of different lengths.
struct Sums(usize);

impl Suite for Sums {
    fn name(&self) -> &str {
        "sums"
    }

    fn version(&self) -> u32 {
        1
    }

    fn len(&self) -> usize {
        self.0
    }

    fn item(&self, index: usize, text: &Text) -> Result<Item> {
        let more = if index.is_multiple_of(2) { "" } else { " eva finds 3 more ." };
        let prompt = format!(
            "eva has {} shells . eva finds {} more .{more} how many shells does eva have now ? <sep>",
            index + 3,
            2 * index + 1
        );
        let tokens = text.tokenizer().encode(&prompt)?;
        let max_new_tokens = 20 + 4 * (index % 3);
        Ok(Item {
            id: format!("s{index}"),
            kind: None,
            prompt,
            tokens,
            max_new_tokens,
            until: vec![" so".into()],
        })
    }

    fn score(&self, index: usize, response: &str) -> Result<Score> {
        let sum = (3 * index + 4).to_string();
        Ok(Score { correct: response.contains(&sum), strict: None, extracted: Some(response.to_owned()) })
    }
}

struct Toy(Model);

impl Toy {
    fn open() -> Self {
        let folder = fixture().display().to_string();
        let predictor = fixture().join("predictor_row_i_minus_1.safetensors");
        Self(Model::loader(&folder).predictor(predictor).load().unwrap())
    }

    fn header(&self, plan: &Plan) -> RunHeader {
        RunHeader::new(&self.0, "test", &plan.decoding).unwrap()
    }

    /// Runs into `folder`, at most `limit` records.
    fn run(&self, folder: &Path, plan: &Plan, limit: usize) -> Result<Vec<Sample>> {
        let strategies: Vec<StrategySpec> =
            ["demask:tau=0.3,gamma=0.5", "random:k=4"].iter().map(|s| s.parse().unwrap()).collect();
        let suites: Vec<Box<dyn Suite>> = vec![Box::new(Sums(7))];
        let mut records = Records::open(folder, &self.header(plan))?;
        let mut watch = |progress: RunProgress<'_>| {
            assert!(progress.done <= progress.items && progress.right <= progress.done);
            if progress.total_done >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let _ = run(&self.0, &suites, &strategies, plan, &mut records, &mut watch)?;
        Ok(records.samples().iter().map(|s| Sample { seconds: Spent::default(), ..s.clone() }).collect())
    }
}

fn plan(token_budget: usize) -> Plan {
    let decoding = Decoding { temperature: Some(0.9), top_p: Some(0.95), seed: 11, ..Decoding::default() };
    Plan { decoding, token_budget, shard: Shard::default(), traces: false }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_record_depends_neither_on_the_batch_nor_on_an_interruption() {
    let model = Toy::open();
    let alone = model.run(folder().path(), &plan(1), usize::MAX).unwrap();
    assert_eq!(alone.len(), 14);
    assert!(
        alone.iter().all(|s| s.forwards > 0 && s.seconds == Spent::default() && !s.response.contains(" so"))
    );
    for budget in [150, 100_000] {
        assert_eq!(model.run(folder().path(), &plan(budget), usize::MAX).unwrap(), alone, "budget {budget}");
    }
    let broken = folder();
    for limit in [3, 9] {
        assert_eq!(model.run(broken.path(), &plan(150), limit).unwrap().len(), limit);
    }
    assert_eq!(model.run(broken.path(), &plan(150), usize::MAX).unwrap(), alone);
}

#[test]
fn shards_merge_to_the_whole_run() {
    let model = Toy::open();
    let whole = model.run(folder().path(), &plan(500), usize::MAX).unwrap();
    let (shards, out) = ([folder(), folder(), folder()], folder());
    for (index, shard) in shards.iter().enumerate() {
        let plan = Plan { shard: format!("{index}/3").parse().unwrap(), ..plan(500) };
        model.run(shard.path(), &plan, usize::MAX).unwrap();
    }
    let mut paths: Vec<PathBuf> = shards.iter().map(|s| s.path().to_path_buf()).collect();
    // The records themselves do too, wherever they lie.
    paths[1] = paths[1].join("records.jsonl");
    assert_eq!(merge(&paths, out.path()).unwrap(), 14);
    let lines = |folder: &TempDir| -> Vec<String> {
        let text = std::fs::read_to_string(folder.path().join("records.jsonl")).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    };
    let mut parts: Vec<String> = shards.iter().flat_map(lines).collect();
    let mut all = lines(&out);
    parts.sort();
    all.sort();
    assert_eq!(all, parts, "seconds too, to the last digit");
    let merged = Records::read(out.path()).unwrap().1;
    let merged: Vec<Sample> = merged.into_iter().map(|s| Sample { seconds: Spent::default(), ..s }).collect();
    assert_eq!(merged, whole);
    assert!(merge(&paths, out.path()).is_err(), "an existing file is not overwritten");
    assert!("3/3".parse::<Shard>().is_err() && "1".parse::<Shard>().is_err());
}

#[test]
fn records_of_other_settings_are_refused_with_what_differs() {
    let (model, folder) = (Toy::open(), folder());
    model.run(folder.path(), &plan(500), 2).unwrap();
    let mut other = plan(500);
    other.decoding.seed = 12;
    let error = model.run(folder.path(), &other, 2).unwrap_err().to_string();
    assert!(error.contains("seed is 11 there, 12 here"), "{error}");
    // What is left out of a header at its usual value is told all the same, whichever side has it.
    let mut ahead = plan(500);
    ahead.decoding.speculate = 3;
    let error = model.run(folder.path(), &ahead, 2).unwrap_err().to_string();
    assert!(error.contains("speculate is not told there, 3 here"), "{error}");
    let (there, mut edited) = (self::folder(), plan(500));
    edited.decoding.editing = Some(demask_decode::Editing { threshold: 0.9, post_steps: 1 });
    model.run(there.path(), &edited, 2).unwrap();
    let error = model.run(there.path(), &plan(500), 2).unwrap_err().to_string();
    assert!(error.contains("editing is") && error.contains("not told here"), "{error}");
}

#[test]
fn a_trace_is_kept_on_request() {
    let (model, folder) = (Toy::open(), folder());
    let samples = model.run(folder.path(), &Plan { traces: true, ..plan(500) }, usize::MAX).unwrap();
    let path = folder.path().join(TRACES).join("demask-tau0.3-gamma0.5").join("sums-2.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len() - 1, samples[2].steps);
    assert!(lines[1]["dependency"]["values"].is_array());
}

#[test]
fn decoders_are_compared_as_the_runner_judges_them() {
    let (toy, suite) = (Toy::open(), Sums(3));
    let folder = TempDir::new().unwrap();
    let greedy = Decoding { temperature: Some(0.0), ..Decoding::default() };
    let plan = Plan { decoding: greedy.clone(), ..plan(4096) };
    let mut records = Records::open(folder.path(), &toy.header(&plan)).unwrap();
    let strategies: Vec<StrategySpec> = ["entropy", "entropy:k=4"].map(|s| s.parse().unwrap()).into();
    let suites: [Box<dyn Suite>; 1] = [Box::new(Sums(3))];
    let _ =
        run(&toy.0, &suites, &strategies, &plan, &mut records, &mut |_| ControlFlow::Continue(())).unwrap();
    for strategy in &strategies {
        let own: Vec<&Sample> = records.samples().iter().filter(|s| s.strategy == *strategy).collect();
        let compared = compare(&toy.0, &suite, strategy, &greedy).unwrap();
        let (right, forwards) =
            (own.iter().filter(|s| s.correct).count(), own.iter().map(|s| s.forwards).sum::<usize>());
        assert_eq!((compared.items, compared.right, compared.forwards), (3, right, forwards));
        assert!((compared.forwards_each() - forwards as f64 / 3.0).abs() < 1e-12);
    }
}
