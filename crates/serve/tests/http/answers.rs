//! What right requests get.

use demask_engine::Scope;
use demask_model::Backbone;
use serde_json::{Value, json};

use crate::support::*;

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

#[test]
fn the_model_is_listed_and_the_server_is_well() {
    run(async {
        let app = toy();
        let (status, body) = get(&app, "/v1/models").await;
        let list: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (status.as_u16(), &list["object"], &list["data"][0]["id"]),
            (200, &json!("list"), &json!("toy"))
        );
        for path in ["/health", "/ready", "/v1/models/toy"] {
            assert_eq!(get(&app, path).await.0, 200, "{path}");
        }
    });
}

#[test]
fn a_strategy_is_on_offer_where_the_model_has_what_it_needs() {
    run(async {
        let list: Value = serde_json::from_str(&get(&toy(), "/v1/strategies").await.1).unwrap();
        let offered = |name: &str| {
            let entry = list["data"].as_array().unwrap().iter().find(|entry| entry["id"] == name);
            entry.unwrap()["available"] == true
        };
        // The toy has a predictor, and neither an assistant nor a trained part.
        assert!(offered("demask") && offered("entropy"));
        assert!(!offered("apd") && !offered("copula") && !offered("policy"));
    });
}

#[test]
fn a_completion_is_the_golden_answer() {
    run(async {
        let app = toy();
        let body = json!({ "model": "toy", "prompt": PROMPT, "strategy": "demask", "tau": 0.2, "gamma": 0.5, "max_tokens": 40 });
        let answer = ok(&app, COMPLETIONS, &body).await;
        assert_eq!(answer["choices"][0]["text"], ANSWER);
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
        assert_eq!(answer["object"], "text_completion");
        assert_eq!(
            answer["usage"],
            json!({ "prompt_tokens": 19, "completion_tokens": 12, "total_tokens": 31 })
        );
        assert_eq!(answer["demask"]["strategy"], "demask:tau=0.2,gamma=0.5");
        let one_by_one = ok(&app, COMPLETIONS, &json!({ "prompt": PROMPT })).await;
        assert_eq!(one_by_one["choices"][0]["text"], ANSWER);
        assert!(one_by_one["demask"]["steps"].as_u64() > answer["demask"]["steps"].as_u64());
        assert!(metric(&app, "demask_commits_total").await >= 24.0);
        let (tokens, commits) =
            (metric(&app, "demask_tokens_total").await, metric(&app, "demask_commits_total").await);
        assert!(tokens > 0.0 && tokens <= commits, "{tokens} of {commits}");
        assert!(metric(&app, "demask_steps_total").await > 0.0);
        assert_eq!(
            metric(&app, "demask_requests_total{route=\"/v1/completions\",status=\"200\"}").await,
            2.0
        );
    });
}

#[test]
fn a_full_canvas_ends_with_length() {
    run(async {
        let answer = ok(&toy(), COMPLETIONS, &json!({ "prompt": PROMPT, "max_tokens": 5 })).await;
        assert_eq!(answer["choices"][0]["finish_reason"], "length");
        assert_eq!(answer["usage"]["completion_tokens"], 5);
    });
}

#[test]
fn prompts_may_be_texts_or_ids_and_may_be_echoed() {
    run(async {
        let app = toy();
        let prompts = prompts();
        let body = json!({ "prompt": [PROMPT, prompts[1]], "echo": true });
        let both = ok(&app, COMPLETIONS, &body).await;
        assert_eq!(both["choices"][0]["text"], format!("{PROMPT}{ANSWER}"));
        let second = ok(&app, COMPLETIONS, &json!({ "prompt": prompts[1] })).await;
        let joined = format!("{}{}", prompts[1], second["choices"][0]["text"].as_str().unwrap());
        assert_eq!(both["choices"][1]["text"], joined);
        // "eva has 7" and the separator.
        let ids = ok(&app, COMPLETIONS, &json!({ "prompt": [50, 10, 65, 3], "max_tokens": 4 })).await;
        let text = ok(&app, COMPLETIONS, &json!({ "prompt": "eva has 7 <sep>", "max_tokens": 4 })).await;
        assert_eq!(ids["choices"], text["choices"]);
    });
}

#[test]
fn the_end_may_be_held_back() {
    run(async {
        let app = toy();
        let held =
            ok(&app, COMPLETIONS, &json!({ "prompt": PROMPT, "max_tokens": 20, "hold_eos": "logits" })).await;
        assert_eq!(held["choices"][0]["finish_reason"], "length", "an end that cannot be written was");
        assert_eq!(held["usage"]["completion_tokens"], 20);
        // In the confidence: nothing from the end on is written before all of the text is.
        for (hold, last) in [("never", false), ("confidence", true)] {
            let body = json!({ "prompt": PROMPT, "max_tokens": 20, "strategy": "entropy", "hold_eos": hold, "eos": "none" });
            let (events, _) = stream(&app, "/v1/denoise", &body).await;
            let positions: Vec<u64> =
                events.iter().filter_map(|event| event["commits"][0]["position"].as_u64()).collect();
            let end = 19 + 12;
            let first = positions.iter().position(|&p| p >= end).unwrap();
            assert_eq!(positions[first..].iter().all(|&p| p >= end), last, "{hold}: {positions:?}");
        }
    });
}

#[test]
fn gumbel_noise_draws_tokens() {
    run(async {
        let app = toy();
        let ask = |temperature: f64, sampler: &str, seed: u64| json!({ "prompt": PROMPT, "temperature": temperature, "sampler": sampler, "seed": seed, "eos": "none" });
        let cold = ok(&app, COMPLETIONS, &ask(0.0, "gumbel", 1)).await;
        assert_eq!(cold["choices"], ok(&app, COMPLETIONS, &ask(0.0, "categorical", 1)).await["choices"]);
        let hot = ok(&app, COMPLETIONS, &ask(3.0, "gumbel", 1)).await;
        assert_eq!(hot["choices"], ok(&app, COMPLETIONS, &ask(3.0, "gumbel", 1)).await["choices"]);
        for other in [ask(3.0, "gumbel", 2), ask(3.0, "categorical", 1)] {
            assert_ne!(hot["choices"], ok(&app, COMPLETIONS, &other).await["choices"]);
        }
        let mut filtered = ask(1.0, "gumbel", 1);
        filtered["top_p"] = json!(0.5);
        assert_eq!(post(&app, COMPLETIONS, &filtered).await.0, 400);
    });
}

#[test]
fn logprobs_are_those_of_the_committed_tokens() {
    run(async {
        let answer = ok(&toy(), COMPLETIONS, &json!({ "prompt": PROMPT, "logprobs": 1 })).await;
        let logprobs = &answer["choices"][0]["logprobs"];
        let tokens: Vec<&str> =
            logprobs["tokens"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
        assert_eq!(tokens.concat(), ANSWER);
        let values = logprobs["token_logprobs"].as_array().unwrap();
        assert_eq!(values.len(), 12);
        assert!(values.iter().all(|v| v.as_f64().is_some_and(|v| v <= 0.0)));
        assert!(values.iter().any(|v| v.as_f64() < Some(0.0)));
        assert_eq!(logprobs["text_offset"][1], 1);
    });
}

fn joined(chunks: &[Value], choice: u64) -> String {
    let choices = chunks.iter().filter_map(|c| c["choices"].get(0)).filter(|c| c["index"] == choice);
    choices.filter_map(|c| c["text"].as_str().or_else(|| c["delta"]["content"].as_str())).collect()
}

#[test]
fn a_stream_joined_is_the_whole_answer() {
    run(async {
        let app = toy();
        for (more, stop) in [
            (json!({}), Value::Null),
            (json!({ "temperature": 1.0, "seed": 7, "n": 3, "echo": true }), Value::Null),
            (json!({ "block_length": 8, "strategy": "top1:k=2" }), json!(["28 . so"])),
            (json!({ "strategy": "demask:tau=0.2,gamma=0.5", "temperature": 0.8, "seed": -3 }), json!("has")),
            (json!({ "strategy": "random", "eos": "none", "seed": 1 }), Value::Null),
        ] {
            let mut body = json!({ "prompt": PROMPT, "stop": stop });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let whole = ok(&app, COMPLETIONS, &body).await;
            body["stream"] = true.into();
            body["stream_options"] = json!({ "include_usage": true });
            let (chunks, done) = stream(&app, COMPLETIONS, &body).await;
            assert!(done);
            for choice in whole["choices"].as_array().unwrap() {
                let index = choice["index"].as_u64().unwrap();
                assert_eq!(joined(&chunks, index), choice["text"].as_str().unwrap(), "{body}");
                let reasons = chunks.iter().filter(|c| c["choices"][0]["index"] == index);
                let reasons: Vec<_> =
                    reasons.map(|c| &c["choices"][0]["finish_reason"]).filter(|r| !r.is_null()).collect();
                assert_eq!(reasons, [&choice["finish_reason"]]);
            }
            let last = chunks.last().unwrap();
            assert_eq!((&last["usage"], &last["choices"]), (&whole["usage"], &json!([])), "{body}");
            assert!(chunks[0]["usage"].is_null() && chunks[0].get("usage").is_some());
        }
    });
}

#[test]
fn left_to_right_text_arrives_in_pieces() {
    run(async {
        let body = json!({ "prompt": PROMPT, "strategy": "token-order", "stream": true });
        let (chunks, _) = stream(&toy(), COMPLETIONS, &body).await;
        assert!(chunks.len() > 8, "{} chunks", chunks.len());
        assert_eq!(joined(&chunks, 0), ANSWER);
    });
}

#[test]
fn stop_strings_cut_the_text() {
    run(async {
        let app = toy();
        for (stop, text) in [
            (json!(" . so"), "7 + 19 = 28"),
            (json!(["never", "="]), "7 + 19 "),
            (json!("7"), ""),
            (json!("absent"), ANSWER),
        ] {
            let answer = ok(&app, COMPLETIONS, &json!({ "prompt": PROMPT, "stop": stop })).await;
            assert_eq!(answer["choices"][0]["text"], text, "{stop}");
            assert_eq!(answer["choices"][0]["finish_reason"], "stop");
        }
        let cut = ok(&app, COMPLETIONS, &json!({ "prompt": PROMPT, "stop": "=" })).await;
        assert_eq!(cut["usage"]["completion_tokens"], 4);
    });
}

#[test]
fn a_seed_repeats_and_choices_differ() {
    run(async {
        let app = toy();
        let body = json!({ "prompt": PROMPT, "temperature": 2.0, "seed": 11, "n": 2, "eos": "none", "max_tokens": 30 });
        let (first, again) = (ok(&app, COMPLETIONS, &body).await, ok(&app, COMPLETIONS, &body).await);
        assert_eq!(first["choices"], again["choices"]);
        assert_eq!(first["choices"].as_array().unwrap().len(), 2);
        assert_ne!(first["choices"][0]["text"], first["choices"][1]["text"]);
        let mut other = body.clone();
        other["seed"] = 12.into();
        assert_ne!(first["choices"][0]["text"], ok(&app, COMPLETIONS, &other).await["choices"][0]["text"]);
        // Without a seed the answer names the one it drew, which repeats it.
        let mut free = body.clone();
        free.as_object_mut().unwrap().remove("seed");
        let drawn = ok(&app, COMPLETIONS, &free).await;
        free["seed"] = drawn["demask"]["seed"].clone();
        assert_eq!(ok(&app, COMPLETIONS, &free).await["choices"], drawn["choices"]);
    });
}

#[test]
fn chat_goes_through_the_template() {
    run(async {
        let app = toy_chat();
        let question = PROMPT.strip_suffix(" <sep>").unwrap();
        let parts = json!([{ "type": "text", "text": question }]);
        for content in [json!(question), parts] {
            let body = json!({ "messages": [{ "role": "user", "content": content }], "logprobs": true });
            let answer = ok(&app, CHAT, &body).await;
            assert_eq!(answer["choices"][0]["message"]["content"], ANSWER);
            assert_eq!(answer["object"], "chat.completion");
            assert_eq!(answer["choices"][0]["logprobs"]["content"].as_array().unwrap().len(), 12);
        }
        let body = json!({ "messages": [{ "role": "user", "content": question }], "stream": true });
        let (chunks, done) = stream(&app, CHAT, &body).await;
        assert!(done);
        assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
        assert_eq!(chunks[0]["object"], "chat.completion.chunk");
        assert_eq!(joined(&chunks, 0), ANSWER);
    });
}

#[test]
fn gaps_are_filled_and_the_rest_stays() {
    run(async {
        let app = toy();
        let body = json!({ "prompt": PROMPT, "text": "7 + 19 = [MASK] . so eva has [MASK] shells ." });
        let answer = ok(&app, "/v1/infill", &body).await;
        assert_eq!(answer["gaps"].as_array().unwrap().len(), 2);
        let text = answer["text"].as_str().unwrap();
        let gap = |i: usize| answer["gaps"][i].as_str().unwrap();
        assert_eq!(text, format!("7 + 19 = {} . so eva has {} shells .", gap(0), gap(1)));
        assert_eq!(answer["usage"]["completion_tokens"], 2);
        let suffix = json!({ "prompt": format!("{PROMPT} 7 + 19 ="), "suffix": ". so eva has 28 shells .", "max_tokens": 1 });
        let between = ok(&app, COMPLETIONS, &suffix).await;
        assert_eq!(
            between["usage"],
            json!({ "prompt_tokens": 30, "completion_tokens": 1, "total_tokens": 31 })
        );
    });
}

#[test]
fn every_step_of_a_denoising_is_told() {
    run(async {
        let app = toy();
        let body = json!({ "prompt": PROMPT, "strategy": "demask", "tau": 0.2, "gamma": 0.5, "include_dependency": true });
        let (events, done) = stream(&app, "/v1/denoise", &body).await;
        assert!(!done);
        let (start, end, steps) = (&events[0], events.last().unwrap(), &events[1..events.len() - 1]);
        assert_eq!(end["text"], ANSWER);
        assert_eq!(end["demask"]["steps"], steps.len());
        // The records alone rebuild the canvas.
        let mut tokens: Vec<u64> =
            start["tokens"].as_array().unwrap().iter().map(|t| t.as_u64().unwrap()).collect();
        for step in steps {
            let commits = step["commits"].as_array().unwrap();
            assert_eq!(commits.len(), step["texts"].as_array().unwrap().len());
            for commit in commits {
                tokens[commit["position"].as_u64().unwrap() as usize] = commit["token"].as_u64().unwrap();
            }
            for filled in step["filled"].as_array().into_iter().flatten() {
                tokens[filled.as_u64().unwrap() as usize] = 2;
            }
            // What the page draws: every change with its text, the same tokens.
            for change in step["changes"].as_array().unwrap() {
                let token = tokens[change["position"].as_u64().unwrap() as usize];
                match change["kind"].as_str().unwrap() {
                    "committed" => {
                        assert!(change["token"] == token && change["text"].is_string(), "{change}")
                    }
                    "filled" => assert!(token == 2 && change["step"] == step["step"], "{change}"),
                    other => panic!("{other}"),
                }
            }
        }
        assert_eq!(json!(tokens), end["tokens"]);
        // The same from the trace file, as the page opens it.
        let lines: Vec<String> = events[..events.len() - 1].iter().map(Value::to_string).collect();
        let told = ok(&app, "/v1/replay", &json!({ "trace": lines.join("\n") })).await;
        assert_eq!(told["texts"], start["texts"]);
        let changes: Vec<&Value> = steps.iter().map(|step| &step["changes"]).collect();
        assert_eq!(told["steps"], json!(changes));
        let (status, answer) = post(&app, "/v1/replay", &json!({ "trace": "no trace" })).await;
        assert!(status == 400 && answer.to_string().contains("is not a trace"), "{answer}");
        let twice = [lines.clone(), vec![lines[1].clone()]].concat().join("\n");
        let (status, answer) = post(&app, "/v1/replay", &json!({ "trace": twice })).await;
        assert!(status == 400 && answer.to_string().contains("does not fit its canvas"), "{answer}");
        assert!(steps.iter().any(|s| s["dependency"]["values"].is_array()));
        let gaps = json!({ "text": "eva has [MASK:2] shells ." });
        let (events, _) = stream(&app, "/v1/denoise", &gaps).await;
        assert!(events.last().unwrap()["text"].as_str().unwrap().starts_with("eva has "));
    });
}

#[test]
fn a_message_outside_the_scope_is_remarked_on_at_the_start() {
    run(async {
        let vocabulary = backbone().spec().vocab;
        let nothing = Scope::new("none of my kinds", -1.0, &vec![0.0; Scope::features_of(vocabulary)]);
        let body = json!({ "messages": [{ "role": "user", "content": PROMPT }], "max_tokens": 8 });
        for (scope, remarks) in [(Some(nothing.clone()), json!(["none of my kinds"])), (None, json!([]))] {
            let app = toy_chat_for(scope);
            let (events, _) = stream(&app, "/v1/denoise", &body).await;
            assert_eq!(events[0]["remarks"], remarks);
            let told = if remarks == json!([]) { Value::Null } else { remarks };
            assert_eq!(ok(&app, "/v1/chat/completions", &body).await["demask"]["remarks"], told);
            let gaps = json!({ "text": "eva has [MASK:2] shells ." });
            assert_eq!(ok(&app, "/v1/infill", &gaps).await["demask"]["remarks"], told);
        }
    });
}

#[test]
fn what_the_template_leaves_out_is_told_with_the_answer() {
    run(async {
        let last = "{{ messages[-1]['content'] }} <sep>";
        let app = toy_with_template(last);
        let turn = |role: &str, text: &str| json!({ "role": role, "content": text });
        let question = PROMPT.strip_suffix(" <sep>").unwrap();
        let talk = json!([
            turn("system", "be brief"),
            turn("user", "hi"),
            turn("assistant", "yes"),
            turn("user", question)
        ]);
        let whole = json!({ "messages": talk, "max_tokens": 40 });
        let answer = ok(&app, "/v1/chat/completions", &whole).await;
        assert_eq!(answer["choices"][0]["message"]["content"], ANSWER);
        let told = answer["demask"]["remarks"].to_string();
        assert!(told.contains("each message by itself") && told.contains("system message"), "{told}");
        let mut streamed = whole;
        streamed["stream"] = true.into();
        streamed["stream_options"] = json!({ "include_usage": true });
        let (events, _) = stream(&app, "/v1/chat/completions", &streamed).await;
        assert_eq!(events.last().unwrap()["demask"]["remarks"], answer["demask"]["remarks"]);
        let alone = json!({ "messages": [turn("user", question)], "max_tokens": 40 });
        assert_eq!(ok(&app, "/v1/chat/completions", &alone).await["demask"]["remarks"], Value::Null);
    });
}
