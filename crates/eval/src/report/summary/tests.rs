//! Sums by hand.

use super::*;

fn sample(strategy: &str, task: &str, index: usize, correct: bool, forwards: usize) -> Sample {
    Sample {
        strategy: strategy.parse().unwrap(),
        task: task.into(),
        version: 1,
        protocol: None,
        index,
        id: index.to_string(),
        kind: Some(format!("{task}/{}", index % 2)),
        prompt: "p".into(),
        response: "r".into(),
        extracted: None,
        correct,
        strict: Some(index == 0),
        prompt_tokens: 3,
        canvas: 16,
        tokens: 8,
        steps: forwards,
        forwards,
        rounds: 0,
        assistant_rows: 0,
        inner_calls: 0,
        seconds: Spent { wall: forwards as f64 / 10.0, ..Spent::default() },
    }
}

fn samples() -> Vec<Sample> {
    let mut all = Vec::new();
    for (task, right) in [("a", 3), ("b", 1)] {
        for index in 0..4 {
            all.push(sample("entropy", task, index, index < right, 8));
            all.push(sample("demask:tau=0.1", task, index, index < right, 4));
        }
    }
    all
}

#[test]
fn means_weigh_suites_alike_and_speed_is_relative_to_the_baseline() {
    let summary = Summary::new(&samples(), None).unwrap();
    assert_eq!(summary.baseline, Some("entropy".parse().unwrap()));
    let demask = "demask:tau=0.1".parse().unwrap();
    let cell = summary.cell(&demask, "a").unwrap();
    assert!((cell.accuracy.value - 0.75).abs() < 1e-12);
    // √(p(1−p)/(n−1))
    assert!((cell.accuracy.error - 0.25).abs() < 1e-12);
    assert!((cell.strict.value - 0.25).abs() < 1e-12 && (cell.tokens_per_forward - 2.0).abs() < 1e-12);
    let mean = summary.mean(&demask).unwrap();
    assert!((mean.accuracy.value - 0.5).abs() < 1e-12 && (mean.forwards - 4.0).abs() < 1e-12);
    assert!((mean.accuracy.error - 0.25 * 2f64.sqrt() / 2.0).abs() < 1e-12);
    assert!((summary.speed_up(mean).unwrap() - 2.0).abs() < 1e-9);
    assert!((summary.fewer_forwards(mean).unwrap() - 2.0).abs() < 1e-9);
    assert_eq!(cell.kinds.len(), 2);
    assert!(Summary::new(&samples(), Some(&"klass".parse().unwrap())).is_err());
}

#[test]
fn tables_show_every_strategy_and_suite() {
    let summary = Summary::new(&samples(), None).unwrap();
    let table = summary.table();
    assert_eq!(table.columns[..4], ["strategy", "a", "b", "mean"]);
    assert_eq!(table.rows.len(), 2);
    assert_eq!(table.rows[1][3].text, "50.0±17.7");
    assert_eq!(summary.long_table().rows.len(), 6);
    assert_eq!(summary.kinds_table().rows.len(), 4);
    let folder = tempfile::tempdir().unwrap();
    summary.write(folder.path()).unwrap();
    for name in ["summary.json", "summary.csv", "table.md", "table.csv", "table.tex"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}

#[test]
fn the_baseline_is_recognised_in_every_spelling() {
    let is = |text: &str| is_one_token_entropy(&text.parse().unwrap());
    assert!(is("entropy") && is("entropy:k=1") && is("entropy:score=raw"));
    assert!(!is("entropy:k=2") && !is("entropy:steps=8") && !is("top1"));
}

#[test]
fn fresh_wording_stands_beside_its_task_and_is_not_counted_twice() {
    let mut all = samples();
    assert!(Summary::new(&all, None).unwrap().fresh_table().is_none());
    // Half of them right, where the ordinary suite has three of four.
    all.extend((0..4).map(|index| sample("entropy", "a:fresh", index, index < 2, 8)));
    let summary = Summary::new(&all, None).unwrap();
    let entropy = "entropy".parse().unwrap();
    assert!(
        (summary.mean(&entropy).unwrap().accuracy.value - 0.5).abs() < 1e-12,
        "the mean of a and b alone"
    );
    let table = summary.fresh_table().unwrap().plain();
    assert!(table.contains("-25.0") && !table.contains("demask"), "{table}");
    // Alone it is a suite like any other.
    let alone: Vec<Sample> = all.into_iter().filter(|sample| sample.task == "a:fresh").collect();
    let summary = Summary::new(&alone, None).unwrap();
    assert!((summary.mean(&entropy).unwrap().accuracy.value - 0.5).abs() < 1e-12);
    assert!(summary.fresh_table().is_none());
}

#[test]
fn what_passes_do_not_count_stands_beside_them() {
    let mut samples = vec![sample("apd", "lines", 0, true, 3), sample("apd", "lines", 1, true, 5)];
    samples[0].assistant_rows = 31;
    samples[0].seconds.extra = 0.005;
    let summary = Summary::new(&samples, None).unwrap();
    let line = &summary.means[0];
    assert_eq!(line.nfe(), "4.0 + 15.5 assistant rows (2.5 ms)");
    let row: Vec<String> = summary.table().rows[0].iter().map(|cell| cell.text.clone()).collect();
    assert!(row.contains(&line.nfe()), "{row:?}");
    let old = r#"{"wall":1.0,"forward":0.5,"marginals":0.1,"select":0.2}"#;
    assert_eq!(
        serde_json::from_str::<Spent>(old).unwrap().extra,
        0.0,
        "records of earlier versions are read"
    );
}
