//! Prompts and marks of every benchmark on rows small enough to read.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ALL, Options, Protocol, Question, find, open};

/// A folder with files of JSON lines.
fn folder(files: &[(&str, &[Value])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, rows) in files {
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn items(task: &str, protocol: Protocol, folder: &TempDir, shots: Option<usize>) -> Vec<Question> {
    open(task, protocol, folder.path(), &Options { shots, ..Options::default() }).unwrap()
}

fn word_problems() -> TempDir {
    let row = |question: &str, answer: &str| json!({ "question": question, "answer": answer });
    folder(&[
        ("test.jsonl", &[row("What is 600 times 2?", "600*2 = <<600*2=1200>>1200\n#### 1,200")]),
        ("train.jsonl", &[row("One and one?", "1+1 = 2\n#### 2"), row("Two and two?", "2+2 = 4\n#### 4")]),
    ])
}

#[test]
fn gsm8k_is_asked_by_both_protocols() {
    let data = word_problems();
    let dream = &items("gsm8k", Protocol::Dream, &data, None)[0];
    assert_eq!((dream.task.as_str(), dream.target.as_str(), dream.chat), ("gsm8k_cot", "1,200", true));
    assert_eq!(dream.prompt.user, "Q: What is 600 times 2?\nA:");
    let cot = &items("gsm8k_cot", Protocol::LmEval, &data, None)[0];
    assert!(cot.prompt.user.starts_with("Q: There are 15 trees in the grove. Grove workers will plant"));
    assert!(
        cot.prompt.user.contains("How many trees did the grove workers plant today?\nA: There are 15 trees")
    );
    assert!(cot.prompt.user.ends_with("23 - 15 is 8. The answer is 8.\n\nQ: What is 600 times 2?\nA:"));
    let drawn = &items("gsm8k", Protocol::LmEval, &data, Some(2))[0];
    assert!(drawn.prompt.user.contains("Question: Two and two?\nAnswer: 2+2 = 4\n#### 4\n\n"));
    assert!(drawn.prompt.user.ends_with("\n\nQuestion: What is 600 times 2?\nAnswer:"));
}

#[test]
fn gsm8k_is_marked_flexibly_and_strictly() {
    let data = word_problems();
    let cot = &items("gsm8k", Protocol::Dream, &data, None)[0];
    for (response, flexible, strict) in [
        ("It is 600+600. The answer is 1200.", true, true),
        ("The answer is $1,200", true, false),
        ("The answer is 1,200. That is it", true, true),
        // Without a character behind it the last digit is given up to the pattern's full stop.
        ("The answer is 1200", true, false),
        ("The answer is 1200. Q: and 7?", true, true),
        ("The answer is 12.", false, false),
        ("so 1200 it is, or 7", false, false),
        ("no idea", false, false),
        ("", false, false),
    ] {
        let score = cot.score(response, None).unwrap();
        assert_eq!((score.correct, score.strict), (flexible, Some(strict)), "{response:?}");
    }
    let plain = &items("gsm8k", Protocol::LmEval, &data, Some(0))[0];
    let score = plain.score("2*600\n#### 1200\n\nQuestion: 5", None).unwrap();
    assert_eq!((score.correct, score.strict, score.extracted.as_deref()), (true, Some(true), Some("1200")));
}

#[test]
fn mmlu_pro_takes_shots_of_the_same_subject() {
    let row = |question: &str, category: &str, reasoning: &str| {
        json!({ "question": question, "options": ["one ", "two"], "answer": "B", "answer_index": 1,
                "category": category, "cot_content": format!("A: Let's think step by step. {reasoning}") })
    };
    let data = folder(&[
        ("test-00000.jsonl", &[row("Which?", "law", ""), row("What?", "computer science", "")]),
        (
            "validation-00000.jsonl",
            &[row("v1", "law", "r1"), row("v2", "math", "r2"), row("v3", "law", "r3")],
        ),
    ]);
    let dream = items("mmlu_pro", Protocol::Dream, &data, None);
    assert_eq!(dream[0].task, "mmlu_pro_computer_science");
    assert_eq!(
        dream[0].prompt.user,
        "Question:\nWhat?\nOptions:\nA. one \nB. two\nAnswer: Let's think step by step."
    );
    assert!(dream[1].prompt.system.contains(" about law. Think step by step"));
    assert_eq!(
        dream[1].prompt.user,
        "Question:\nv1\nOptions:\nA. one \nB. two\nAnswer: Let's think step by step. r1\n\n\
         Question:\nv3\nOptions:\nA. one \nB. two\nAnswer: Let's think step by step. r3\n\n\
         Question:\nWhich?\nOptions:\nA. one \nB. two\nAnswer: Let's think step by step."
    );
    let law = items("mmlu_pro_law", Protocol::LmEval, &data, Some(1));
    assert_eq!(law.len(), 1);
    assert!(law[0].prompt.user.starts_with("Question:\nv1\nOptions:\nA. one\nB. two\nAnswer: Let's think"));
    for (response, correct) in [
        ("… so the answer is (B).", true),
        ("the answer is B", true),
        ("the answer is (A). No, the answer is (B).", false),
        ("The Answer is (B)", false),
        ("(B)", false),
    ] {
        assert_eq!(law[0].score(response, None).unwrap().correct, correct, "{response}");
    }
}

#[test]
fn programs_are_asked_for_and_not_run_without_leave() {
    let data = folder(&[(
        "HumanEval.jsonl",
        &[
            json!({ "task_id": "x/0", "prompt": "def f():\n", "entry_point": "f", "test": "def check(c):\n    c()",
                  "canonical_solution": "    pass" }),
        ],
    )]);
    let dream = &items("humaneval", Protocol::Dream, &data, None)[0];
    assert!(dream.prompt.user.ends_with("tests:\n```def f():\n"));
    assert_eq!(dream.prompt.prefix, "Here is the completed function:\n```python\ndef f():\n\n");
    assert_eq!(dream.target, "def check(c):\n    c()\ncheck(f)");
    let error = dream.score("    return 1", None).unwrap_err().to_string();
    assert!(error.contains("not allowed"), "{error}");
    let plain = &items("humaneval", Protocol::LmEval, &data, None)[0];
    assert_eq!(plain.text(None, Default::default()).unwrap(), "def f():\n");
    assert_eq!(plain.cut("    return 1\n\ndef g():\n    pass\nclass"), "    return 1\n");
}

#[test]
fn mbpp_is_the_test_split_whatever_the_file_holds() {
    let row = |id: i64| json!({ "task_id": id, "text": "Do it.", "code": "", "test_list": ["a", "b", "c"] });
    let data = folder(&[("mbpp.jsonl", &[row(2), row(11), row(510), row(511)])]);
    let dream = items("mbpp", Protocol::Dream, &data, None);
    assert_eq!(dream.iter().map(|item| item.doc_id).collect::<Vec<_>>(), [0, 1]);
    assert!(dream[0].prompt.user.ends_with("task: Do it. Your code should pass these tests:\n\na\nb\nc"));
    let shots = &items("mbpp", Protocol::LmEval, &data, None)[0];
    assert_eq!(shots.prompt.user.matches("[DONE]\n\n").count(), 3);
    assert!(shots.prompt.user.ends_with("a\nb\nc\n[BEGIN]\n"));
}

#[test]
fn planning_tasks_use_the_first_rows_as_shots() {
    let row = |input: &str, output: &str| json!({ "input": input, "output": output });
    let numbers: Vec<Value> = (0..10).map(|_| row("15,44,79,50", "44-15=29,79-29=50")).collect();
    let grids: Vec<Value> =
        (0..10).map(|_| row("1000\n0002\n4003\n0000", "1234\n3412\n4123\n2341")).collect();
    let data = folder(&[("cd3_test.jsonl", &numbers)]);
    let countdown = items("countdown", Protocol::Dream, &data, None);
    assert_eq!((countdown.len(), countdown[0].id().as_str()), (2, "cd3/0"));
    assert!(countdown[0].prompt.user.ends_with("Output: 44-15=29,79-29=50\n\nInput: 15,44,79,50\nOutput: "));
    assert!(countdown[0].score("44-15=29,79-29=50\nInput: 1", None).unwrap().correct);
    let data = folder(&[("sudoku.jsonl", &grids)]);
    let sudoku = &items("sudoku", Protocol::Dream, &data, None)[1];
    assert!(sudoku.prompt.user.ends_with("Input:\n1000\n0002\n4003\n0000\nOutput:\n "));
    for (response, correct) in [
        ("1234\n3412\n4123\n2341\n\nInput:", true),
        ("1 2 3 4\n3 4 1 2\n4 1 2 3\n2 3 4 1", true),
        ("1234\n3412\n4123\n2341 and more", true),
        ("2134\n3412\n4123\n1341", false),
        ("1234\n3412\n4123", false),
        ("1234\n3412\n4123\n234x", false),
    ] {
        assert_eq!(sudoku.score(response, None).unwrap().correct, correct, "{response:?}");
    }
}

#[test]
fn the_end_of_a_long_prompt_is_kept() {
    let data = word_problems();
    let item = &items("gsm8k", Protocol::Dream, &data, None)[0];
    let ids: Vec<u32> = (0..2000).collect();
    assert_eq!(item.kept(&ids, 131_072), &ids[976..]);
    assert_eq!(item.kept(&ids, 1000), &ids[2000 - 744..]);
    assert_eq!(item.kept(&ids[..5], 131_072).len(), 5);
}

#[test]
fn what_cannot_be_used_is_named() {
    let data = folder(&[("test.jsonl", &[json!({ "question": "?" })])]);
    let refusal = |task: &str, protocol, path: PathBuf| {
        open(task, protocol, &path, &Options::default()).unwrap_err().to_string()
    };
    let path = data.path().to_owned();
    assert!(refusal("gsm8k", Protocol::Dream, path.clone()).contains("has no answer"));
    assert!(refusal("gsm8k", Protocol::LmEval, path.clone()).contains("the shots come from the train split"));
    assert!(refusal("gsm9k", Protocol::Dream, path.clone()).contains("it has gsm8k_cot, mmlu_pro"));
    assert!(refusal("sudoku", Protocol::LmEval, path.clone()).contains("the protocol dream"));
    assert!(refusal("gsm8k", Protocol::Dream, path.join("none.jsonl")).contains("none.jsonl"));
    fs::write(path.join("test.jsonl"), "{\"question\": 1}\nnot json\n").unwrap();
    assert!(refusal("gsm8k", Protocol::Dream, path.clone()).contains("line 2"));
    fs::write(path.join("test.parquet"), "PAR1").unwrap();
    assert!(refusal("gsm8k", Protocol::Dream, path.join("test.parquet")).contains("parquet"));
}

#[test]
fn every_definition_is_found_by_its_names() {
    for definition in ALL {
        for name in definition.aliases.iter().chain([&definition.task]) {
            assert!(std::ptr::eq(find(name, definition.protocol).unwrap(), definition), "{name}");
        }
    }
}
