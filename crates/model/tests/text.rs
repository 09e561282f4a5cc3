//! Tokenizers and chat templates: the toy one, the real ones where they are at hand, and Jinja2's own renderings.

use std::fs;
use std::path::{Path, PathBuf};

use demask_model::text::{
    ChatTemplate, Conversation, Ending, Message, Tokenizer, TokenizerSettings, Trailing,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

/// A folder of real tokenizers, where the checkout has one beside it.
fn asset(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/assets").join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}

fn json_file<T: for<'de> Deserialize<'de>>(path: impl AsRef<Path>) -> T {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn vocab(folder: &Path) -> usize {
    let config: Value = json_file(folder.join("config.json"));
    usize::try_from(config["vocab_size"].as_u64().unwrap()).unwrap()
}

fn template(config: &Value) -> ChatTemplate {
    let settings =
        TokenizerSettings::from_bytes("tokenizer_config.json", config.to_string().as_bytes()).unwrap();
    ChatTemplate::from_settings(&settings).unwrap().unwrap()
}

#[test]
fn the_toy_tokenizer_says_what_the_fixture_recorded() {
    let folder = fixture("dream-toy");
    let tokenizer = Tokenizer::open(&folder, vocab(&folder)).unwrap();
    let expected: Value = json_file(folder.join("expected.json"));
    let texts: Vec<String> = serde_json::from_value(expected["prompt_texts"].clone()).unwrap();
    let ids: Vec<Vec<u32>> = serde_json::from_value(expected["prompts"].clone()).unwrap();
    assert!(!texts.is_empty());
    for (text, ids) in texts.iter().zip(&ids) {
        assert_eq!(tokenizer.encode(text).unwrap(), *ids, "{text}");
    }
    let special = |role| tokenizer.special(role);
    assert_eq!(
        (special("pad_token"), special("mask_token"), special("eos_token")),
        (Some(0), Some(1), Some(2))
    );
    assert_eq!(special("unk_token"), None);
}

#[test]
fn responses_end_before_their_first_eos() {
    let folder = fixture("dream-toy");
    let tokenizer = Tokenizer::open(&folder, vocab(&folder)).unwrap();
    let words: Vec<u32> = (4..9).collect();
    let response = [&words[..], &[2, 5, 2, 2]].concat();
    let decoded = tokenizer.decode_response(&response, &[2]).unwrap();
    assert_eq!(decoded, tokenizer.decode(&words).unwrap());
    assert!(!decoded.is_empty());
    assert_eq!(tokenizer.decode_response(&words, &[2]).unwrap(), decoded);
    assert_eq!(tokenizer.decode_response(&[2], &[2]).unwrap(), "");
    assert!(tokenizer.decode_verbatim(&response).unwrap().contains("<eos>"));
}

#[test]
fn ids_without_a_token_are_holes() {
    let folder = fixture("dream-toy");
    let fits = vocab(&folder);
    let tokenizer = Tokenizer::open(&folder, fits + 5).unwrap();
    let holes = tokenizer.holes();
    assert_eq!(tokenizer.size() + holes.len(), fits + 5);
    assert!(holes.ends_with(&(fits as u32..fits as u32 + 5).collect::<Vec<_>>()));
    for &hole in &holes {
        assert!(!tokenizer.known(hole) && tokenizer.token(hole).is_none());
    }
    assert!(tokenizer.known(4) && tokenizer.id(&tokenizer.token(4).unwrap()) == Some(4));
    assert!(!tokenizer.known(u32::MAX));
}

const TEXTS: [&str; 8] = [
    "The quick brown fox jumps over 13 lazy dogs.",
    "def f(x):\n    return x ** 2  # squares\n\n\n",
    "漢字かな交じり文 — emoji 🙂👨‍👩‍👧 and cafe\u{301}",
    "  leading, trailing  and\ttabs\r\n",
    "I'll we've they're 'quoted' 1234567890 3.14e-10",
    "<|im_start|>user\n<|im_end|>",
    "Ünïcödé \u{200b} zero width, \u{a0}nbsp",
    "",
];

#[test]
fn real_tokenizers_round_trip() {
    for (name, holes, mask) in [
        ("dream-7b-instruct", (151_667..152_064).collect::<Vec<u32>>(), 151_666),
        ("llada-8b-instruct", (126_349..126_464).collect(), 126_336),
    ] {
        let Some(folder) = asset(name) else { continue };
        let tokenizer = Tokenizer::open(&folder, vocab(&folder)).unwrap();
        for text in TEXTS {
            let ids = tokenizer.encode(text).unwrap();
            let normalized = text.replace("e\u{301}", "é");
            assert_eq!(tokenizer.decode_verbatim(&ids).unwrap(), normalized, "{name}");
        }
        assert_eq!(tokenizer.holes(), holes, "{name}");
        assert!(tokenizer.special_ids().contains(&mask) && tokenizer.known(mask));
        let written = tokenizer.encode(&tokenizer.token(mask).unwrap()).unwrap();
        assert_eq!(written, [mask], "{name}: a special token in the text is that token");
        assert!(Tokenizer::open(&folder, holes[0] as usize - 1).is_err());
    }
}

/// vocab.json and merges.txt, which is what Dream's repository holds, give the tokenizer of the converted tokenizer.json.
#[test]
fn the_older_form_is_the_same_tokenizer() {
    let Some(folder) = asset("dream-7b-instruct") else { return };
    let converted: Value = json_file(folder.join("tokenizer.json"));
    let older = tempfile::tempdir().unwrap();
    let merges: Vec<String> = converted["model"]["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|merge| match merge {
            Value::String(merge) => merge.clone(),
            pair => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
        })
        .collect();
    fs::write(older.path().join("vocab.json"), converted["model"]["vocab"].to_string()).unwrap();
    fs::write(older.path().join("merges.txt"), format!("#version: 0.2\n{}\n", merges.join("\n"))).unwrap();
    fs::copy(folder.join("tokenizer_config.json"), older.path().join("tokenizer_config.json")).unwrap();

    let (newer, older) =
        (Tokenizer::open(&folder, 152_064).unwrap(), Tokenizer::open(older.path(), 152_064).unwrap());
    assert_eq!((newer.holes(), newer.special_ids()), (older.holes(), older.special_ids()));
    let golden = fs::read_to_string(folder.join("chat_golden.json")).unwrap();
    for text in TEXTS.into_iter().chain([golden.as_str()]) {
        assert_eq!(newer.encode(text).unwrap(), older.encode(text).unwrap());
    }
}

#[derive(Deserialize)]
struct Golden {
    messages: Vec<Message>,
    add_generation_prompt: bool,
    tools: Option<Vec<Value>>,
    text: String,
    ids: Vec<u32>,
}

#[test]
fn real_templates_render_what_transformers_rendered() {
    for (name, count) in [("dream-7b-instruct", 22), ("llada-8b-instruct", 11)] {
        let Some(folder) = asset(name) else { continue };
        let tokenizer = Tokenizer::open(&folder, vocab(&folder)).unwrap();
        let chat = ChatTemplate::open(&folder).unwrap().unwrap();
        let cases: Vec<Golden> = json_file(folder.join("chat_golden.json"));
        assert_eq!(cases.len(), count);
        for case in cases {
            let ending = if case.add_generation_prompt { Ending::Answer } else { Ending::Closed };
            let tools = case.tools.as_deref();
            let text =
                chat.render(&Conversation { tools, ending, ..Conversation::new(&case.messages) }).unwrap();
            assert_eq!(text, case.text, "{name}");
            assert_eq!(tokenizer.encode(&text).unwrap(), case.ids, "{name}: {text}");
        }
    }
}

#[derive(Deserialize)]
struct Prompt {
    prompt: String,
    prompt_token_ids: Vec<u32>,
    prompt_transformers_4_46_2: String,
    prompt_token_ids_transformers_4_46_2: Vec<u32>,
}

/// The prompts of Dream's own evaluation: the same ids, and the same cut where the assistant's turn is continued.
#[test]
fn evaluation_prompts_are_reproduced() {
    let (Some(prompts), Some(folder)) =
        (asset("golden/dream_eval_instruct_prompts.jsonl"), asset("dream-7b-instruct"))
    else {
        return;
    };
    let tokenizer = Tokenizer::open(&folder, vocab(&folder)).unwrap();
    let chat = ChatTemplate::open(&folder).unwrap().unwrap();
    let (mut seen, mut continued) = (0, 0);
    for line in fs::read_to_string(prompts).unwrap().lines() {
        let case: Prompt = serde_json::from_str(line).unwrap();
        // The evaluation keeps the last 1024 ids of a longer prompt.
        let ids = tokenizer.encode(&case.prompt).unwrap();
        assert!(ids.ends_with(&case.prompt_token_ids), "{}", case.prompt);
        let ids = tokenizer.encode(&case.prompt_transformers_4_46_2).unwrap();
        assert!(ids.ends_with(&case.prompt_token_ids_transformers_4_46_2));
        seen += 1;

        let messages = turns(&case.prompt);
        let render = |ending| chat.render(&Conversation { ending, ..Conversation::new(&messages) }).unwrap();
        if messages.last().unwrap().role() == "assistant" {
            continued += 1;
            assert_eq!(render(Ending::Continue(Trailing::Keep)), case.prompt);
            assert_eq!(render(Ending::Continue(Trailing::Strip)), case.prompt_transformers_4_46_2);
        } else {
            assert_eq!(render(Ending::Answer), case.prompt);
        }
    }
    assert!(seen > 50 && continued > 5, "{seen} prompts, {continued} continued");
}

/// The messages of a ChatML prompt; an assistant's turn only if it has begun.
fn turns(prompt: &str) -> Vec<Message> {
    prompt
        .split("<|im_start|>")
        .skip(1)
        .map(|turn| turn.split_once('\n').unwrap())
        .filter(|(_, text)| !text.is_empty())
        .map(|(role, text)| Message::new(role, text.strip_suffix("<|im_end|>\n").unwrap_or(text)))
        .collect()
}

#[derive(Deserialize)]
struct Case {
    name: String,
    template: String,
    text: Option<String>,
}

/// Values, filters, methods and white space come out as Jinja2 on Python prints them.
#[test]
fn templates_render_as_jinja2_renders_them() {
    let file: Value = json_file(fixture("chat-templates/cases.json"));
    let mut variables: Map<String, Value> = serde_json::from_value(file["variables"].clone()).unwrap();
    let messages: Vec<Message> = serde_json::from_value(variables.remove("messages").unwrap()).unwrap();
    let tools: Vec<Value> = serde_json::from_value(variables.remove("tools").unwrap()).unwrap();
    let cases: Vec<Case> = serde_json::from_value(file["cases"].clone()).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let settings =
            json!({ "chat_template": case.template, "bos_token": "<s>", "eos_token": { "content": "</s>" } });
        let rendered = template(&settings).render(&Conversation {
            tools: Some(&tools),
            variables: Some(&variables),
            ..Conversation::new(&messages)
        });
        if rendered.as_ref().ok() != case.text.as_ref() {
            wrong.push(format!("{}\n  expected {:?}\n  found    {rendered:?}", case.name, case.text));
        }
    }
    assert!(cases.len() > 30);
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn continued_messages_keep_or_lose_their_last_spaces() {
    let chat = template(&json!({ "chat_template": "{% for m in messages %}[{{ m.content }}]{% endfor %}" }));
    let trimming =
        template(&json!({ "chat_template": "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}" }));
    let render = |chat: &ChatTemplate, text: &str, trailing| {
        let messages = [Message::new("user", "a"), Message::new("assistant", text)];
        let ending = Ending::Continue(trailing);
        chat.render(&Conversation { ending, ..Conversation::new(&messages) }).unwrap()
    };
    assert_eq!(render(&chat, "```python\n", Trailing::Keep), "[a][```python\n");
    assert_eq!(render(&chat, "```python\n", Trailing::Strip), "[a][```python");
    assert_eq!(render(&trimming, "x \n", Trailing::Keep), "[a][x");
    assert_eq!(render(&chat, " x ", Trailing::Keep), "[a][ x");
    assert_eq!(render(&chat, "a", Trailing::Keep), "[a][a");

    let parts = Message::new("assistant", "").with("content", json!([{ "text": "one" }, { "text": "two " }]));
    let messages = [parts];
    let source = "{% for m in messages %}{% for p in m.content %}({{ p.text }}){% endfor %}{% endfor %}";
    let ending = Ending::Continue(Trailing::Keep);
    let text = template(&json!({ "chat_template": source }))
        .render(&Conversation { ending, ..Conversation::new(&messages) })
        .unwrap();
    assert_eq!(text, "(one)(two ");
}

#[test]
fn named_templates_are_chosen_as_transformers_chooses() {
    let chat = template(&json!({ "chat_template": [
        { "name": "default", "template": "default{{ tools is none }}{{ documents is none }}" },
        { "name": "tool_use", "template": "tools{{ tools | length }}" },
        { "name": "rag", "template": "{{ documents[0].title }}" },
    ]}));
    assert_eq!(chat.names(), ["default", "tool_use", "rag"]);
    let (tools, documents) = ([json!({})], [json!({ "title": "t" })]);
    let plain = Conversation::new(&[]);
    assert_eq!(chat.render(&plain).unwrap(), "defaultTrueTrue");
    assert_eq!(chat.render(&Conversation { tools: Some(&tools), ..plain }).unwrap(), "tools1");
    let rag = Conversation { documents: Some(&documents), template: Some("rag"), ..plain };
    assert_eq!(chat.render(&rag).unwrap(), "t");
}

#[test]
fn a_template_file_wins_and_special_tokens_have_two_spellings() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "tokenizer_config.json",
        r#"{"chat_template":"config","bos_token":{"content":"<b>"},"unk_token":null,"additional_special_tokens":["<x>",{"content":"<y>"}]}"#,
    );
    write("special_tokens_map.json", r#"{"eos_token":{"content":"<e>"},"bos_token":"<other>"}"#);
    let render =
        || ChatTemplate::open(folder.path()).unwrap().unwrap().render(&Conversation::new(&[])).unwrap();
    assert_eq!(render(), "config");
    write(
        "chat_template.jinja",
        "{{ bos_token }}{{ eos_token }}{{ unk_token is defined }}{{ additional_special_tokens | join }}",
    );
    assert_eq!(render(), "<b><e>False<x><y>");
    let settings = TokenizerSettings::open(folder.path()).unwrap();
    assert_eq!((settings.special("bos_token"), settings.special("unk_token")), (Some("<b>"), None));
}

#[test]
fn training_marks_and_the_date_are_understood() {
    let source = "{% for m in messages %}\n  {%- generation -%}\n {{ m.content }} \n{%- endgeneration %}\n{% endfor %}.";
    let messages = [Message::new("assistant", "hi")];
    assert_eq!(
        template(&json!({ "chat_template": source })).render(&Conversation::new(&messages)).unwrap(),
        "hi."
    );
    let today = template(&json!({ "chat_template": "{{ strftime_now('%Y-%m-%d, %d %b %Y') }}" }))
        .render(&Conversation::new(&[]))
        .unwrap();
    let year: u32 = today[..4].parse().unwrap();
    assert!(year >= 2024 && today.ends_with(&today[..4]) && today.len() == 23, "{today}");
}

#[test]
fn messages_keep_their_fields_in_order() {
    let text = r#"{"role":"assistant","zeta":1,"content":"","tool_calls":[{"b":1,"a":2}]}"#;
    let message: Message = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&message).unwrap(), text);
    assert_eq!(
        (message.role(), message.text(), message.field("zeta")),
        ("assistant", Some(""), Some(&json!(1)))
    );
    let rendered = template(&json!({ "chat_template": "{{ messages[0] | tojson }}" }))
        .render(&Conversation::new(&[message]))
        .unwrap();
    assert_eq!(
        rendered,
        r#"{"role": "assistant", "zeta": 1, "content": "", "tool_calls": [{"b": 1, "a": 2}]}"#
    );
}
