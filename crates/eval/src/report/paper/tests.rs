//! Layouts of the paper's tables.

use super::*;
use crate::run::Spent;

pub(crate) fn sample(strategy: &str, task: &str, index: usize, correct: bool, wall: f64) -> Sample {
    Sample {
        strategy: strategy.parse().unwrap(),
        task: task.into(),
        version: 1,
        protocol: None,
        index,
        id: index.to_string(),
        kind: None,
        prompt: String::new(),
        response: String::new(),
        extracted: None,
        correct,
        strict: None,
        prompt_tokens: 1,
        canvas: 8,
        tokens: 4,
        steps: 4,
        forwards: 4,
        rounds: 0,
        assistant_rows: 0,
        inner_calls: 0,
        seconds: Spent { wall, ..Spent::default() },
    }
}

fn samples() -> Vec<Sample> {
    let mut all = Vec::new();
    for (strategy, wall) in [("entropy", 2.0), ("entropy:k=2", 1.0), ("demask", 0.5)] {
        for task in ["gsm8k", "mbpp"] {
            all.extend(
                (0..5).map(|i| sample(strategy, task, i, i < if strategy == "demask" { 4 } else { 3 }, wall)),
            );
        }
    }
    all
}

#[test]
fn table_1_has_methods_tasks_speed_ups_and_an_average_without_the_tuned_task() {
    let table = main_table(&samples(), None, &["gsm8k".into()], Speed::Time).unwrap();
    assert_eq!(table.columns, ["Method", "gsm8k", "mbpp", "Avg"]);
    let text: Vec<Vec<&str>> =
        table.rows.iter().map(|r| r.iter().map(|c| c.text.as_str()).collect()).collect();
    assert_eq!(
        text[0],
        ["Entropy (1 tok)", "60.0 [23.1, 88.2] (1.0×)", "60.0 [23.1, 88.2] (1.0×)", "60.0 (1.0×)"]
    );
    assert_eq!(text[1][0], "Entropy (2 tok)");
    assert_eq!(text[2], ["DEMASK", "80.0 [37.6, 96.4] (4.0×)", "80.0 [37.6, 96.4] (4.0×)", "80.0 (4.0×)"]);
    assert!(table.rows[2][3].bold && !table.rows[0][3].bold);
    assert!(table.caption.contains("Avg excludes gsm8k"));
    assert!(main_table(&samples(), None, &["arc".into()], Speed::Time).is_err());
    let forwards = main_table(&samples(), None, &[], Speed::Forwards).unwrap();
    assert!(forwards.rows[2][1].text.ends_with("(1.0×)"));
}

/// The task that parameters were chosen on is easier here: an average that counted it would say so.
#[test]
fn the_average_leaves_the_tuned_task_out() {
    let mut all = Vec::new();
    for (task, right, wall) in [("gsm8k", 5, 8.0), ("mbpp", 2, 1.0), ("humaneval", 3, 1.0)] {
        all.extend((0..5).map(|i| sample("entropy", task, i, i < right, wall)));
        all.extend((0..5).map(|i| sample("demask", task, i, i < right - 1, 0.5)));
    }
    let average = |tuned: &[String]| {
        let table = main_table(&all, None, tuned, Speed::Time).unwrap();
        table.rows.iter().map(|row| row[4].text.clone()).collect::<Vec<_>>()
    };
    // (40 + 60)/2 and (20 + 40)/2; twice as fast on both. With the tuned task 66.7 and 46.7, 6.7 times as fast.
    assert_eq!(average(&["gsm8k".into()]), ["50.0 (1.0×)", "30.0 (2.0×)"]);
    assert_eq!(average(&[]), ["66.7 (1.0×)", "46.7 (6.7×)"]);
    assert_eq!(average(&["gsm8k".into(), "mbpp".into()]), ["60.0 (1.0×)", "40.0 (2.0×)"]);
}

#[test]
fn table_2_wants_a_run_without_filling() {
    let header: RunHeader = serde_json::from_value(serde_json::json!({
        "demask_eval": 1, "model": "m", "backbone": "b", "predictor": null, "split": "test",
        "sampling": {"temperature": 0.0, "top_p": null, "top_k": null}, "eos": "none", "block_length": null, "cache": "none",
        "guidance": 0.0, "eos_penalty": 0.0, "min_new_tokens": 0, "seed": 0
    }))
    .unwrap();
    let table = eos_table(&header, &samples()).unwrap();
    assert_eq!(table.rows.len(), 2);
    assert_eq!(table.columns.len(), 1 + 3 * 3);
    assert_eq!(table.rows[1][7].text, "80.0 [37.6, 96.4]");
    assert!(table.rows[1][7].bold);
    let filled = RunHeader { eos: EosPolicy::FillAfter, ..header };
    assert!(eos_table(&filled, &samples()).unwrap_err().to_string().contains("needs a run with none"));
}
