//! The run on a joint that is known exactly, and its resumption.

use demask_decode::rng::{Purpose, Rng};
use demask_model::Tabular;

use super::*;

const POSITIONS: usize = 6;

/// A joint with pairwise couplings.
fn joint() -> Tabular {
    let rng = Rng::new(5, 5);
    let weight = |index: u64| (1.5 * rng.uniform(Purpose::Mask, 0, index)).exp();
    Tabular::new(POSITIONS, 2, (0..1 << POSITIONS).map(weight).collect()).unwrap()
}

fn parity() -> Tabular {
    let weight = |index: u32| if index.count_ones().is_multiple_of(2) { 1.0 } else { 0.0 };
    Tabular::new(POSITIONS, 2, (0..1 << POSITIONS).map(weight).collect()).unwrap()
}

fn examples(count: usize) -> Vec<Result<Example>> {
    let bits = |i: usize| (0..POSITIONS).map(|p| (i >> p & 1) as u32).collect::<Vec<_>>();
    let example = |i: usize| Example {
        id: format!("e{i}"),
        prompt: bits(i)[..1].to_vec(),
        response: bits(i)[1..].to_vec(),
    };
    (0..count).map(|i| Ok(example(i))).collect()
}

fn settings() -> SubadditivitySettings {
    SubadditivitySettings { seed: 3, ..SubadditivitySettings::default() }
}

fn whole(joint: &Tabular, folder: &Path, count: usize, budget: usize) -> Report {
    run(joint, examples(count), &settings(), (budget, &Known::default()), folder, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap()
}

#[test]
fn both_sides_are_those_of_the_joint() {
    let (joint, folder) = (joint(), tempfile::tempdir().unwrap());
    whole(&joint, folder.path(), 8, 64);
    let journal =
        Journal::open(folder.path(), &settings(), &format!("{} stored", joint.fingerprint())).unwrap();
    assert_eq!(journal.len(), 8 * 5);
    let mask = joint.spec().ids.mask;
    let tv = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0;
    for record in journal.records() {
        let number: usize = record.id[1..].parse().unwrap();
        let example = examples(8).remove(number).unwrap();
        let mut canvas = [example.prompt, example.response].concat();
        assert_eq!(record.targets.len() + record.set.len(), record.masked);
        record.targets.iter().chain(&record.set).for_each(|&p| canvas[p] = mask);
        let given = |reveals: &[usize], target: usize| {
            let mut canvas = canvas.clone();
            reveals.iter().for_each(|&j| canvas[record.set[j]] = record.revealed[j]);
            joint.conditional(&canvas, &[target])
        };
        let all: Vec<usize> = (0..record.set.len()).collect();
        for (at, &target) in record.targets.iter().enumerate() {
            let base = given(&[], target);
            let lhs = tv(&base, &given(&all, target));
            let rhs: f64 = all.iter().map(|&j| tv(&base, &given(&[j], target))).sum();
            assert!((lhs - f64::from(record.lhs[at])).abs() < 1e-5, "{record:?}");
            assert!((rhs - f64::from(record.rhs[at])).abs() < 1e-5, "{record:?}");
        }
        if record.set.len() == 1 {
            assert_eq!(record.lhs, record.rhs, "one position alone is the set");
        }
    }
}

#[test]
fn an_interrupted_run_ends_like_a_whole_one() {
    let joint = joint();
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    whole(&joint, one.path(), 12, 64);
    // Stopped after the first group, then killed in the middle of a line, then with another batch size.
    run(&joint, examples(12), &settings(), (16, &Known::default()), two.path(), &mut |_| {
        ControlFlow::Break(())
    })
    .unwrap();
    let path = two.path().join("records.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.lines().count() > 3 && text.lines().count() < 61);
    std::fs::write(&path, &text[..text.len() - 20]).unwrap();
    let mut resumed = 0;
    run(&joint, examples(12), &settings(), (1 << 10, &Known::default()), two.path(), &mut |p| {
        resumed = p.resumed;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(resumed > 1);
    for name in ["records.jsonl", "summary.csv", "targets.csv", "slack.svg"] {
        let read = |folder: &Path| std::fs::read(folder.join(name)).unwrap();
        assert_eq!(read(one.path()), read(two.path()), "{name}");
    }
    assert!(std::fs::read(two.path().join("slack.png")).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn parts_come_together_like_a_whole_run_even_with_holes() {
    let joint = joint();
    let [one, even, odd, all] = [0; 4].map(|_| tempfile::tempdir().unwrap());
    whole(&joint, one.path(), 12, 64);
    let part = |folder: &Path, first: usize, count: usize| {
        let own = examples(12).into_iter().enumerate().filter(|(i, _)| i % 2 == first).map(|(_, e)| e);
        let watch = &mut |_| ControlFlow::Continue(());
        run(&joint, own.take(count), &settings(), (64, &Known::default()), folder, watch).unwrap();
    };
    part(even.path(), 0, 6);
    part(odd.path(), 1, 4);
    let known = Known::read(&[even.path().to_owned(), odd.path().to_owned()]).unwrap();
    let mut forwards = 0;
    run(&joint, examples(12), &settings(), (64, &known), all.path(), &mut |p| {
        forwards = p.forwards;
        ControlFlow::Continue(())
    })
    .unwrap();
    let read = |folder: &Path| std::fs::read(folder.join("records.jsonl")).unwrap();
    assert_eq!(read(one.path()), read(all.path()));
    assert!(forwards > 0, "two examples were in no part");
    let other = SubadditivitySettings { seed: 4, ..settings() };
    let watch = &mut |_| ControlFlow::Continue(());
    let elsewhere = tempfile::tempdir().unwrap();
    let error = run(&joint, examples(12), &other, (64, &known), elsewhere.path(), watch).unwrap_err();
    assert!(error.to_string().contains("seed 3"), "{error}");
}

#[test]
fn other_settings_or_data_are_refused() {
    let (joint, folder) = (joint(), tempfile::tempdir().unwrap());
    whole(&joint, folder.path(), 3, 64);
    let other = SubadditivitySettings { seed: 4, ..settings() };
    let again = |settings: &SubadditivitySettings, examples: Vec<Result<Example>>| {
        let watch = &mut |_| ControlFlow::Continue(());
        run(&joint, examples, settings, (64, &Known::default()), folder.path(), watch)
            .unwrap_err()
            .to_string()
    };
    assert!(again(&other, examples(3)).contains("seed 3"));
    let swapped: Vec<_> = examples(3).into_iter().rev().collect();
    assert!(again(&settings(), swapped).contains("\"e2\""));
}

#[test]
fn parity_violates_and_the_report_says_so() {
    let (joint, folder) = (parity(), tempfile::tempdir().unwrap());
    let report = whole(&joint, folder.path(), 40, 256);
    let [first, .., all] = report.sizes.as_slice() else { panic!("several sizes") };
    assert_eq!((first.size, first.violations, first.mean_slack), (Some(1), 0, 0.0));
    // Only when all others are revealed does a target know: pairs never, the whole set sometimes.
    assert!(all.size.is_none() && all.violations > 0 && (all.worst + 0.5).abs() < 1e-5, "{report}");
    let count: usize = report.sizes[..report.sizes.len() - 1].iter().map(|s| s.sets).sum();
    assert_eq!(count, 40 * 5);
    assert!(report.to_string().contains("|S|"));
}

#[test]
fn nothing_to_measure_is_said() {
    let (joint, folder) = (joint(), tempfile::tempdir().unwrap());
    let short = vec![Ok(Example { id: "x".into(), prompt: vec![0], response: vec![1] })];
    let error = run(&joint, short, &settings(), (64, &Known::default()), folder.path(), &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap_err();
    assert!(error.to_string().contains("nothing to measure"), "{error}");
}
