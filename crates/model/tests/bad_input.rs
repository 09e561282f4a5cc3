//! Every way a checkpoint folder can be wrong gets one sentence that names the file and the value.

use std::fs;
use std::path::{Path, PathBuf};

use demask_model::checkpoint::source::{HubName, Source};
use demask_model::checkpoint::{INDEX, Store};
use demask_model::text::{
    ChatTemplate, Conversation, Ending, Message, Tokenizer, TokenizerSettings, Trailing,
};
use demask_model::{Error, Spec};
use proptest::prelude::*;
use tempfile::TempDir;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy")
}

/// A folder with these files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, contents) in files {
        fs::write(folder.path().join(name), contents).unwrap();
    }
    folder
}

fn safetensors(header: &str, data: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes());
    file.resize(file.len() + data, 0);
    file
}

/// The sentence with which a folder holding this `model.safetensors` is refused.
fn refusal(file: &[u8]) -> String {
    let folder = folder(&[("model.safetensors", file)]);
    let error = Store::open(folder.path()).expect_err("must be refused").to_string();
    assert!(error.contains("model.safetensors"), "the file must be named: {error}");
    assert!(!error.contains('\n'), "one sentence: {error}");
    error
}

#[test]
fn missing_files_are_named() {
    let error = Store::open("no/such/folder").unwrap_err();
    assert_eq!(error.to_string(), "cannot read no/such/folder: no such file or folder");
    let empty = folder(&[]);
    let error = Store::open(empty.path()).unwrap_err().to_string();
    assert!(error.ends_with("has no model.safetensors (nor model.safetensors.index.json)"), "{error}");
    let error = Tokenizer::open(empty.path(), 100).unwrap_err().to_string();
    assert!(error.ends_with("has no tokenizer.json (nor vocab.json with merges.txt)"), "{error}");
    assert!(ChatTemplate::open(empty.path()).unwrap().is_none());
    let error = Store::open_file(empty.path()).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn truncated_and_corrupt_files_are_refused() {
    let whole = fs::read(fixture().join("model.safetensors")).unwrap();
    for cut in [0, 1, 7, 8, 9, 100, 4000, whole.len() / 2, whole.len() - 1] {
        refusal(&whole[..cut]);
    }
    assert!(refusal(&whole[..5]).contains("only 5 bytes long"));
    assert!(refusal(&whole[..whole.len() - 3]).contains("damaged or incomplete"));
    let mut longer = whole.clone();
    longer.extend([0; 5]);
    assert!(refusal(&longer).contains("damaged or incomplete"));

    for length in [1_u64 << 60, u64::MAX, u64::MAX - 8, 1 << 31, whole.len() as u64] {
        let mut absurd = whole.clone();
        absurd[..8].copy_from_slice(&length.to_le_bytes());
        assert!(refusal(&absurd).contains(&format!("its header claims {length} bytes")));
    }
    assert!(refusal(&safetensors("not json", 0)).contains("bad header"));
    assert!(refusal(&safetensors("[1]", 0)).contains("bad header"));
    assert!(refusal(&safetensors(&"[".repeat(100_000), 0)).contains("bad header"));
    let invalid_utf8 = [&2_u64.to_le_bytes()[..], &[0xff, 0xfe]].concat();
    assert!(refusal(&invalid_utf8).contains("bad header"));
}

#[test]
fn impossible_offsets_and_shapes_are_refused() {
    let one = |entry: &str, data| refusal(&safetensors(&format!(r#"{{"w":{entry}}}"#), data));
    one(r#"{"dtype":"F32","shape":[2],"data_offsets":[0,800]}"#, 8);
    one(r#"{"dtype":"F32","shape":[2],"data_offsets":[8,0]}"#, 8);
    one(r#"{"dtype":"F32","shape":[2],"data_offsets":[0,7]}"#, 7);
    one(r#"{"dtype":"F32","shape":[3],"data_offsets":[0,8]}"#, 8);
    one(r#"{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}"#, 8);
    one(r#"{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}"#, 0);
    one(r#"{"dtype":"F32","shape":[1152921504606846976],"data_offsets":[0,4611686018427387904]}"#, 0);
    one(r#"{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}"#, 8);
    let overlapping = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#;
    assert!(refusal(&safetensors(overlapping, 12)).contains('b'));
    // Eight tensors of 2^61 bytes: their end wraps around to the file's length.
    let wrapping: Vec<String> = (0..8_u64)
        .map(|i| {
            let (from, to) = (i << 61, ((i + 1) << 61).wrapping_sub(u64::from(i == 7)));
            let shape = to.wrapping_sub(from);
            format!(r#""t{i}":{{"dtype":"U8","shape":[{shape}],"data_offsets":[{from},{to}]}}"#)
        })
        .collect();
    refusal(&safetensors(&format!("{{{}}}", wrapping.join(",")), 0));
}

#[test]
fn wrong_tensors_are_named_with_what_was_expected() {
    let header = r#"{"ids":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]}}"#;
    let folder = folder(&[("model.safetensors", &safetensors(header, 32))]);
    let path = folder.path().join("model.safetensors").display().to_string();
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(
        store.tensor("ids").unwrap_err().to_string(),
        format!("{path}: tensor `ids` has dtype I64, weights are F32, BF16 or F16")
    );
    assert_eq!(
        store.tensor_shaped("w", &[3, 2]).unwrap_err().to_string(),
        format!("{path}: tensor `w` has shape [2, 3], config.json asks for [3, 2]")
    );
    assert_eq!(store.tensor("v").unwrap_err().to_string(), format!("{path} has no tensor `v`"));
    assert_eq!(
        store.unused(&["w", "v"]).unwrap_err().to_string(),
        format!("{path} has tensors that its config.json has no place for (1, the first is `ids`)")
    );
    assert_eq!(store.left_over(&["w"]), ["ids"]);
    assert!(store.unused(&["w", "ids"]).is_ok());
}

#[test]
fn an_index_that_lies_is_refused() {
    let shard = safetensors(r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 4);
    let other = safetensors(r#"{"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 4);
    let refusal = |index: &str| {
        let folder =
            folder(&[(INDEX, index.as_bytes()), ("1.safetensors", &shard), ("2.safetensors", &other)]);
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/3.safetensors"), &shard).unwrap();
        Store::open(folder.path()).unwrap_err()
    };
    let missing = refusal(r#"{"weight_map":{"w":"1.safetensors","u":"9.safetensors"}}"#);
    assert!(matches!(&missing, Error::ShardMissing { shard, .. } if shard == "9.safetensors"), "{missing}");
    let wrong = refusal(r#"{"weight_map":{"w":"2.safetensors","v":"2.safetensors"}}"#);
    assert!(matches!(&wrong, Error::WrongShard { tensor, .. } if tensor == "w"), "{wrong}");
    let swapped = refusal(r#"{"weight_map":{"w":"2.safetensors","v":"1.safetensors"}}"#);
    assert!(matches!(&swapped, Error::WrongShard { .. }), "{swapped}");
    for outside in ["sub/3.safetensors", "../1.safetensors", "/etc/passwd", "", "./1.safetensors", "."] {
        let error = refusal(&format!(r#"{{"weight_map":{{"w":"{outside}"}}}}"#));
        assert!(matches!(&error, Error::ShardMissing { .. }), "{outside}: {error}");
    }
    for text in ["", "{", "[]", r#"{"weight_map":3}"#, r#"{"weight_map":{"w":1}}"#, "{}"] {
        let error = refusal(text);
        assert!(matches!(&error, Error::Json { path, .. } if path.ends_with(INDEX)), "{text}: {error}");
    }
    let twice = folder(&[
        (INDEX, br#"{"weight_map":{"w":"1.safetensors","v":"2.safetensors"}}"#),
        ("1.safetensors", &shard),
        ("2.safetensors", &shard),
    ]);
    let error = Store::open(twice.path()).unwrap_err().to_string();
    assert!(error.contains("tensor `w` is also in"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Random damage to a real header: an error or a store whose every tensor can be read, never a panic.
    #[test]
    fn a_damaged_header_never_panics(damage in prop::collection::vec((0_usize..4500, any::<u8>()), 1..8), cut in prop::option::of(0_usize..700_000)) {
        let mut file = fs::read(fixture().join("model.safetensors")).unwrap();
        for (place, byte) in damage {
            file[place] = byte;
        }
        file.truncate(cut.unwrap_or(file.len()));
        if let Ok(store) = Store::from_bytes("damaged", file) {
            for name in store.names() {
                if let Ok(tensor) = store.tensor(name) {
                    prop_assert_eq!(tensor.to_f32().len(), tensor.len());
                }
            }
        }
    }

    #[test]
    fn numbers_in_a_header_never_panic(dims in prop::collection::vec(any::<u64>(), 0..4), from in any::<u64>(), to in any::<u64>(), data in 0_usize..64) {
        let header = format!(r#"{{"w":{{"dtype":"BF16","shape":{dims:?},"data_offsets":[{from},{to}]}}}}"#);
        if let Ok(store) = Store::from_bytes("random", safetensors(&header, data)) {
            prop_assert_eq!(store.tensor("w").unwrap().as_bytes().len(), data);
        }
    }

    #[test]
    fn random_bytes_never_panic(file in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Store::from_bytes("random", file);
    }
}

#[test]
fn unreadable_json_names_its_file() {
    for text in ["", "{", "nonsense", r#"{"a":1}}"#] {
        let folder = folder(&[("config.json", text.as_bytes())]);
        let error = Spec::from_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("config.json is not readable JSON"), "{error}");
    }
    let error = Spec::from_folder(folder(&[]).path()).unwrap_err().to_string();
    assert!(error.ends_with("config.json: no such file or folder"), "{error}");
    for text in ["", "{", "[]", "nonsense", r#"{"a":1}}"#] {
        for name in ["tokenizer_config.json", "special_tokens_map.json"] {
            let folder = folder(&[(name, text.as_bytes())]);
            let error = TokenizerSettings::open(folder.path()).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("is not readable JSON"), "{error}");
        }
        let folder = folder(&[("tokenizer.json", text.as_bytes())]);
        let error = Tokenizer::open(folder.path(), 100).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json is not a usable tokenizer"), "{error}");
    }
    let folder = folder(&[("tokenizer_config.json", br#"{"chat_template": 3}"#)]);
    let error = ChatTemplate::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("`chat_template` is neither a string nor a list"), "{error}");
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let open = |vocab| Tokenizer::open(fixture(), vocab);
    let largest = (0..).find(|&vocab| open(vocab).is_ok()).unwrap() - 1;
    let error = open(largest).unwrap_err().to_string();
    assert!(
        error.contains(&format!("tokenizer.json has token id {largest}"))
            && error.contains(&format!("config.json's vocab_size is {largest}")),
        "{error}"
    );
}

#[test]
fn an_older_tokenizer_of_an_unknown_class_is_refused() {
    let files: [(&str, &[u8]); 3] = [
        ("vocab.json", b"{}"),
        ("merges.txt", b"#version: 0.2\n"),
        ("tokenizer_config.json", br#"{"tokenizer_class":"LlamaTokenizer"}"#),
    ];
    let error = Tokenizer::open(folder(&files).path(), 100).unwrap_err().to_string();
    assert!(error.contains("LlamaTokenizer"), "{error}");
    let bad = [
        files[0],
        files[1],
        (
            "tokenizer_config.json",
            &br#"{"tokenizer_class":"Qwen2Tokenizer","added_tokens_decoder":{"x":{}}}"#[..],
        ),
    ];
    let error = Tokenizer::open(folder(&bad).path(), 100).unwrap_err().to_string();
    assert!(error.contains("`added_tokens_decoder` has an entry `x`"), "{error}");
}

fn template(source: &str) -> Result<ChatTemplate, Error> {
    let config = serde_json::json!({ "chat_template": source }).to_string();
    Ok(ChatTemplate::from_settings(&TokenizerSettings::from_bytes(
        "tokenizer_config.json",
        config.as_bytes(),
    )?)?
    .unwrap())
}

#[test]
fn templates_that_fail_or_do_not_end_are_stopped() {
    let messages = [Message::new("user", "hello")];
    let refusal = |source: &str| {
        let rendered = template(source).and_then(|template| template.render(&Conversation::new(&messages)));
        let error = rendered.expect_err(source).to_string();
        assert!(error.starts_with("the chat template of tokenizer_config.json "), "{error}");
        error
    };
    assert!(refusal("{% for m in messages %}").contains("does not parse in line 1"));
    assert!(refusal("{{ messages[0].content.x.y }}").contains("fails in line 1"));
    assert!(refusal("{{ messages | no_such_filter }}").contains("fails in line 1"));
    assert!(refusal("\n{{ 1 + 'a' }}").contains("fails in line 2"));
    assert_eq!(
        refusal("{{ raise_exception('roles must alternate') }}"),
        "the chat template of tokenizer_config.json refuses these messages: roles must alternate"
    );
    let in_macro = "{% macro f() %}{{ raise_exception('deep') }}{% endmacro %}{{ f() }}";
    assert!(refusal(in_macro).ends_with("refuses these messages: deep"));
    assert!(refusal("{{ strftime_now('%Q!') }}").contains("strftime_now does not know `%Q!`"));

    let nested =
        "{% for a in range(90000) %}{% for b in range(90000) %}{% set c = a * b %}{% endfor %}{% endfor %}";
    assert!(refusal(nested).contains("does not end: it was stopped in line 1 after 10000000 instructions"));
    let recursive = "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}";
    assert!(refusal(recursive).contains("recursion limit"));
    let flood = "{% for a in range(90000) %}{{ 'x' * 100000 }}{% endfor %}";
    assert!(refusal(flood).contains("does not end"));
    assert!(refusal("{{ 'x' * 10000000000 }}").contains("too large"));
    assert!(refusal("{% include 'other' %}").contains("fails"));
}

#[test]
fn what_cannot_be_continued_is_refused() {
    let continued = |source: &str, messages: &[Message]| {
        let ending = Ending::Continue(Trailing::Keep);
        template(source).unwrap().render(&Conversation { ending, ..Conversation::new(messages) })
    };
    let all = "{% for m in messages %}{{ m.content }}.{% endfor %}";
    assert_eq!(continued(all, &[Message::new("assistant", "a b")]).unwrap(), "a b");
    let dropped = continued("nothing", &[Message::new("assistant", "a b")]).unwrap_err();
    assert!(dropped.to_string().contains("leaves out the last message"), "{dropped}");
    let none = continued(all, &[]).unwrap_err();
    assert!(none.to_string().contains("no text to continue"), "{none}");
    let named = template("x").unwrap();
    let other = named.render(&Conversation { template: Some("rag"), ..Conversation::new(&[]) }).unwrap_err();
    assert!(other.to_string().contains("has no variant `rag`; it has default"), "{other}");
}

#[test]
fn a_message_needs_a_role() {
    for text in ["{}", r#"{"role":1}"#, "[]", "3"] {
        assert!(serde_json::from_str::<Message>(text).is_err(), "{text}");
    }
}

#[test]
fn what_is_typed_after_model_is_a_folder_or_a_hub_name() {
    let hub = |repository: &str, revision: &str| {
        Source::Hub(HubName { repository: repository.to_owned(), revision: revision.to_owned() })
    };
    assert_eq!(
        Source::parse("Dream-org/Dream-v0-Instruct-7B").unwrap(),
        hub("Dream-org/Dream-v0-Instruct-7B", "main")
    );
    assert_eq!(Source::parse("a/b@refs/pr/1").unwrap(), hub("a/b", "refs/pr/1"));
    assert_eq!(Source::parse(fixture().to_str().unwrap()).unwrap(), Source::Folder(fixture()));
    for name in [
        "",
        "dream",
        "./dream",
        "a/b/c",
        "../a",
        "a/..",
        "/a/b",
        "a/b@",
        "a/b@../c",
        "a/b@x//y",
        "a b/c",
        "https://x/y",
    ] {
        let error = Source::parse(name).unwrap_err();
        assert!(matches!(error, Error::ModelName { .. }), "{name}: {error}");
    }
    let file = fixture().join("config.json");
    let error = Source::parse(file.to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("it is a file itself"), "{error}");
}
