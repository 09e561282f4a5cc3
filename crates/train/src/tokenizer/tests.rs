//! What the trained tokenizer promises.

use demask_model::text::{ChatTemplate, Conversation, Message};

use super::*;

fn trained() -> Tokenizer {
    let texts =
        (0..200).map(|n| format!("First {n} plus 7 is {}. The answer is (C).\n    return x + {n}", n + 7));
    train(texts, 2048, 0).expect("the texts are plain")
}

fn encode(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode(text, false).expect("every text is encodable").get_ids().to_vec()
}

fn assert_survives(tokenizer: &Tokenizer, text: &str) {
    let ids = encode(tokenizer, text);
    assert_eq!(tokenizer.decode(&ids, false).expect("ids are its own"), text);
}

#[test]
fn small_numbers_are_one_token_and_large_ones_survive() {
    let tokenizer = trained();
    for n in 0..=LARGEST_NUMBER {
        assert_eq!(encode(&tokenizer, &n.to_string()).len(), 1, "{n}");
        assert_eq!(encode(&tokenizer, &format!(" {n}")).len(), 1, " {n}");
        assert_eq!(encode(&tokenizer, &format!("First {n}.")).len(), 3, "{n}");
    }
    for text in ["200", "1000", "7 000", "00012", "199199", "x1y22"] {
        assert_survives(&tokenizer, text);
    }
}

#[test]
fn frequent_words_and_the_template_are_single_tokens() {
    let tokenizer = trained();
    for text in [" plus", " answer", " (C)", " return", "First", "user\n", "assistant\n", "system\n"] {
        assert_eq!(encode(&tokenizer, text).len(), 1, "{text:?}");
    }
    for (id, special) in SPECIAL.iter().enumerate() {
        assert_eq!(encode(&tokenizer, special), [id as u32]);
    }
    assert_eq!(encode(&tokenizer, "<|im_start|>user\nFirst<|im_end|><|im_start|>assistant\n").len(), 6);
}

#[test]
fn any_text_survives() {
    let tokenizer = trained();
    for text in [
        "",
        " ",
        "\n\n  \t",
        "naïve café",
        "日本語 テキスト",
        "👩‍👩‍👧 ok",
        "\u{0}\u{7f}\u{feff}",
        "a\r\nb",
        "(A) (AB)",
        "user\nuser\n",
        "١٢٣",
        "Ġ\u{10a}",
    ] {
        assert_survives(&tokenizer, text);
    }
    let mut state = 1u64;
    for _ in 0..3000 {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        let length = next() % 24;
        // Half of the letters from ASCII, so that words, numbers and spaces meet.
        let text: String = (0..length)
            .filter_map(|_| {
                let bits = next();
                char::from_u32(if bits % 2 == 0 { (bits >> 1) % 128 } else { (bits >> 1) % 0x11_0000 })
            })
            .collect();
        assert_survives(&tokenizer, &text);
    }
}

#[test]
fn training_is_deterministic_and_within_its_limit() {
    let text = |tokenizer: &Tokenizer| tokenizer.to_string(false).expect("a tokenizer is plain data");
    assert_eq!(text(&trained()), text(&trained()));
    let small = train(std::iter::repeat_n("one two three four five six".to_string(), 9), 700, 0)
        .expect("700 is enough");
    assert!(small.get_vocab_size(true) <= 700);
    assert!(matches!(train(std::iter::empty(), 100, 0), Err(Error::Limit { .. })));
}

#[test]
fn what_is_saved_is_what_was_trained() {
    let folder = std::env::temp_dir().join(format!("demask-tokenizer-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let tokenizer = trained();
    save(&tokenizer, &folder).expect("the folder is writable");
    let read = Tokenizer::from_file(folder.join("tokenizer.json")).expect("it was just written");
    let text = "First 12 plus 7 is 19. é";
    assert_eq!(encode(&read, text), encode(&tokenizer, text));
    let config = std::fs::read_to_string(folder.join("tokenizer_config.json")).expect("it was just written");
    let config: Value = serde_json::from_str(&config).expect("it is JSON");
    assert_eq!((config["eos_token"].as_str(), config["mask_token"].as_str()), (Some(END), Some(MASK)));
    let template = ChatTemplate::open(&folder).expect("the template parses").expect("there is one");
    let turns = [
        Message::new("system", "Be brief."),
        Message::new("user", "Hi"),
        Message::new("assistant", "Yes?"),
        Message::new("user", "{{ x }}"),
    ];
    let render = |turns: &[Message]| template.render(&Conversation::new(turns)).expect("plain turns");
    // The last message of the user by itself, with what was answered to it.
    assert_eq!(render(&turns), "<|im_start|>user\n{{ x }}<|im_end|><|im_start|>assistant\n");
    let answered =
        "<|im_start|>user\nHi<|im_end|><|im_start|>assistant\nYes?<|im_end|><|im_start|>assistant\n";
    assert_eq!(render(&turns[..3]), answered);
    assert_eq!(render(&turns[..1]), "<|im_start|>system\nBe brief.<|im_end|><|im_start|>assistant\n");
    // The embedded model has the same one.
    let own =
        std::fs::read(format!("{}/../tiny/checkpoint/tokenizer_config.json", env!("CARGO_MANIFEST_DIR")));
    let own: Value = serde_json::from_slice(&own.expect("it is there")).expect("it is JSON");
    assert_eq!(own["chat_template"].as_str(), Some(CHAT_TEMPLATE));
    std::fs::remove_dir_all(&folder).expect("it is ours");
    assert!(matches!(save(&tokenizer, &folder), Err(Error::Write { .. })));
}

#[test]
fn words_that_merges_leave_in_parts_become_whole_the_commonest_first() {
    let least = SPECIAL.len() + BYTES + fixed_entries().len();
    let texts = || {
        let words = ["yellow zebra 12345", "yellow zebra", "yellow rare"].map(|text| format!("a {text}"));
        words.into_iter()
    };
    // No room for merges, room for one word: the word seen most often.
    let tokenizer = train(texts(), least, 1).expect("there is room");
    assert_eq!(encode(&tokenizer, " yellow").len(), 1);
    assert_eq!(encode(&tokenizer, " zebra").len(), 6);
    // What was seen once gets no entry, however much room there is.
    let tokenizer = train(texts(), least, 100).expect("there is room");
    assert_eq!(encode(&tokenizer, " zebra").len(), 1);
    assert_eq!(encode(&tokenizer, " rare").len(), 5);
    assert_survives(&tokenizer, "yellow zebra rare 12345");
}
