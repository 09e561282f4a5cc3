//! The model inside the program: no flag, no file and no network is needed for the main job.

mod support;

use serde_json::Value;
use support::demask;

const PROMPT: &str = "Tom has 12 pens. Tom buys 7 more. Tom loses 5. How many pens does Tom have now?";

fn json(args: &[&str]) -> Value {
    let run = demask(args);
    assert_eq!(run.code, 0, "{}", run.err);
    serde_json::from_str(&run.out).expect("one JSON object")
}

#[test]
fn demask_solves_a_word_problem_in_fewer_steps_than_one_token_decoding() {
    let fast = json(&["generate", "--json", PROMPT]);
    let slow = json(&["generate", "--json", "-s", "entropy", PROMPT]);
    assert!(fast["strategy"].as_str().unwrap().starts_with("demask"), "{}", fast["strategy"]);
    for answer in [&fast, &slow] {
        let text = answer["text"].as_str().unwrap();
        assert!(text.contains("14") && text.trim_end().ends_with('.'), "{text}");
    }
    let steps = |answer: &Value| answer["steps"].as_u64().unwrap();
    assert!(2 * steps(&fast) <= steps(&slow), "{} against {} steps", steps(&fast), steps(&slow));
}

#[test]
fn the_predictor_of_another_model_is_refused() {
    let other = format!("{}/predictor_row_i_minus_1.safetensors", support::fixture());
    let run = demask(&["generate", "--predictor", &other, PROMPT]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("belongs to another model"), "{}", run.err);
}

#[test]
fn the_folder_in_the_repository_is_what_the_program_carries() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tiny/checkpoint");
    let inside = json(&["generate", "--json", PROMPT]);
    // Its predictor is read in parallel; the number of threads is settled before.
    let outside = json(&["generate", "--json", "--model", folder, "--threads", "1", PROMPT]);
    assert_eq!(inside["canvas"], outside["canvas"]);
    assert_eq!(inside["strategy"], outside["strategy"]);
}

#[test]
fn the_library_answers_as_the_command_does() {
    let model = demask::Model::embedded().unwrap();
    for more in [&[][..], &["-s", "demask"], &["-s", "entropy:k=2", "--seed", "7", "--temperature", "0.8"]] {
        let command = json(&[&["generate", "--json", PROMPT][..], more].concat());
        let mut request = model.generate(PROMPT);
        if let [_, strategy, ..] = more {
            request = request.strategy(strategy);
        }
        if more.len() > 2 {
            request = request.seed(7).temperature(0.8);
        }
        let answer = request.run().unwrap();
        assert_eq!(command["canvas"], serde_json::json!(answer.response()), "{more:?}");
        assert_eq!(command["text"], answer.text, "{more:?}");
        assert_eq!(command["strategy"], answer.strategy, "{more:?}");
    }
}

/// Its assistant is inside too: what it drafts is kept as far as both agree, whatever the mixture, and barring the end of the
/// response where nobody would write it costs no pass.
#[test]
fn a_second_model_is_inside_as_well() {
    let fast = json(&["generate", "--json", "-s", "apd", PROMPT]);
    let slow = json(&["generate", "--json", "-s", "token-order", "--eos", "none", PROMPT]);
    assert_eq!(fast["strategy"], "apd");
    let text = fast["text"].as_str().unwrap();
    assert!(text.contains("14") && text.trim_end().ends_with('.'), "{text}");
    let count = |answer: &Value, key: &str| answer["metrics"][key].as_u64().unwrap();
    assert!(count(&fast, "assistant_rows") > 0 && count(&slow, "assistant_rows") == 0);
    assert!(4 * count(&fast, "steps") <= count(&slow, "steps"), "{} steps", count(&fast, "steps"));
    for r in ["apd:r=0", "apd:r=0.05"] {
        let free = json(&["generate", "--json", "-s", r, PROMPT]);
        let held = json(&["generate", "--json", "-s", r, "--min-new-tokens", "14", PROMPT]);
        assert_eq!(free["canvas"], held["canvas"], "{r}");
        assert_eq!(count(&free, "steps"), count(&held, "steps"), "{r}");
    }
    for refused in [["-s", "apd", "--block-length", "8"], ["-s", "copula", "--cfg", "1"]] {
        let run = demask(&[&["generate"], &refused[..], &[PROMPT]].concat());
        assert!(run.code != 0 && run.err.contains("leave out"), "{refused:?}: {}", run.err);
    }
}

#[test]
fn any_text_survives() {
    let run = demask(&["generate", "-n", "8", "naïve café 東京 \u{1F600}"]);
    assert_eq!(run.code, 0, "{}", run.err);
}

/// The prompts of a list in tests/fixtures/typed.
fn typed(list: &str, file: &str) -> Vec<String> {
    let path = format!("{}/../../tests/fixtures/typed/{list}/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let prompt = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(map)) => map["prompt"].as_str().unwrap().to_owned(),
        _ => line.to_owned(),
    };
    lines.map(prompt).collect()
}

#[test]
fn it_knows_the_prompts_people_type_from_those_it_is_not_for() {
    let text = demask::Loader::embedded().text().unwrap();
    let remarked = |prompts: &[String]| {
        let outside = prompts.iter().filter(|prompt| text.remark(prompt).unwrap().is_some()).count();
        outside as f64 / prompts.len() as f64
    };
    for list in ["dev", "test"] {
        let (alarms, hits) =
            (remarked(&typed(list, "prompts.jsonl")), remarked(&typed(list, "off-task.txt")));
        assert!(alarms <= 0.05, "{list}: {alarms} of the prompts on task are remarked on");
        assert!(hits >= 0.9, "{list}: only {hits} of the prompts off task are remarked on");
    }
}

#[test]
fn a_chat_answers_each_message_by_itself_and_says_so_once() {
    let questions = ["Ann has 9 coins. She finds 6 more. How many coins does she have now?", PROMPT];
    let alone: Vec<String> =
        questions.iter().map(|question| demask(&["generate", question]).out.trim().to_owned()).collect();
    let input = format!("{}\n{}\n{}\n", questions[0], questions[1], questions[0]);
    let talk = support::demask_with(&["chat", "--system", "Answer in French."], &input);
    assert_eq!(talk.code, 0, "{}", talk.err);
    let answers: Vec<&str> = talk.out.lines().collect();
    assert_eq!(answers, [alone[0].as_str(), &alone[1], &alone[0]]);
    for said in ["each message by itself", "leaves the system message out"] {
        assert_eq!(talk.err.matches(said).count(), 1, "{}", talk.err);
    }
    let one = support::demask_with(&["chat"], questions[0]);
    assert!(one.err.is_empty(), "{}", one.err);
}

#[test]
fn a_prompt_it_is_not_for_is_told_so_once_and_still_answered() {
    for raw in [false, true] {
        let mut args = vec!["generate", "-n", "16", "Write a poem about the sea"];
        if raw {
            args.push("--raw");
        }
        let run = demask(&args);
        assert!(run.code == 0 && (raw || !run.out.trim().is_empty()), "{}", run.err);
        // A raw text need not be a question at all.
        assert_eq!(run.err.matches("this small model knows").count(), usize::from(!raw), "{}", run.err);
    }
    let run = demask(&["generate", "-n", "16", PROMPT]);
    assert!(!run.err.contains("this small model"), "{}", run.err);
}
