//! What a caller's words come to on a checkpoint: a strategy's bare name, and a gap with words behind it.

use std::fs;
use std::path::Path;

use demask_engine::{Decoding, Model, Prompt};
use demask_model::text::Message;
use tempfile::TempDir;

/// The toy checkpoint, with a strategy that was chosen for it.
fn checkpoint(chosen: Option<&str>) -> (Model, TempDir) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy");
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
        fs::copy(fixture.join(name), folder.path().join(name)).unwrap();
    }
    if let Some(chosen) = chosen {
        let config = format!("{{ \"strategy\": \"{chosen}\" }}");
        fs::write(folder.path().join("generation_config.json"), config).unwrap();
    }
    (Model::load(folder.path().to_str().unwrap()).unwrap(), folder)
}

/// A name alone is the checkpoint's own choice; a spelling with parameters is taken at its word.
#[test]
fn a_bare_name_means_what_the_checkpoint_chose() {
    let (model, _folder) = checkpoint(Some("entropy:k=3"));
    let meant = |text: &str| {
        let strategy = Some(text.parse().unwrap());
        model.strategy(&Decoding { strategy, ..Decoding::default() }).to_string()
    };
    assert_eq!(model.strategy(&Decoding::default()).to_string(), "entropy:k=3");
    for (spelled, is) in [("entropy", "entropy:k=3"), ("entropy:k=1", "entropy:k=1"), ("random", "random")] {
        assert_eq!(meant(spelled), is);
    }
    let answer = model.generate(Prompt::raw("eva has 7")).strategy("entropy").length(9).run().unwrap();
    assert_eq!(answer.strategy, "entropy:k=3");
    assert!(answer.metrics.steps <= 3, "{}", answer.metrics.steps);
}

/// However likely an end of sequence is, it is not written where words stand behind it, unless a policy is asked for.
#[test]
fn a_gap_with_words_behind_it_is_filled() {
    let (model, _folder) = checkpoint(None);
    let ends = |policy: &str, text: &str| {
        let decoding = Decoding { eos: policy.parse().unwrap(), eos_penalty: -1000.0, ..Decoding::default() };
        let answer = model.generate(Prompt::infill(text)).decoding(decoding).run().unwrap();
        answer.canvas.tokens().iter().filter(|token| model.ids().eos.contains(token)).count()
    };
    assert_eq!(ends("auto", "eva has [MASK:3] shells ."), 0);
    assert_eq!(ends("none", "eva has [MASK:3] shells ."), 3);
    assert_eq!(ends("auto", "eva has [MASK:3]"), 3);
}

/// What the embedded model's template leaves out of a conversation is told, and nothing of one that it shows whole.
#[test]
fn what_a_template_leaves_out_is_told() {
    let model = Model::embedded().unwrap();
    let turns: Vec<Message> =
        [("system", "Be brief."), ("user", "2 + 2?"), ("assistant", "4"), ("user", "3 + 3?")]
            .map(|(role, text)| Message::new(role, text))
            .to_vec();
    let told = |turns: &[Message]| model.text().left_out(turns).join("; ");
    assert!(told(&turns).contains("each message by itself") && told(&turns).contains("system message"));
    assert!(!told(&turns[1..]).contains("system") && told(&turns[1..]).contains("each message by itself"));
    assert!(!told(&turns[..2]).contains("by itself") && told(&turns[..2]).contains("system message"));
    assert_eq!(told(&turns[1..2]), "");
    assert_eq!(told(&turns[1..3]), "");
    // The prompt is the last message's alone.
    let ids = |prompt: Prompt| model.encode(&prompt).unwrap();
    assert_eq!(ids(turns.clone().into()), ids("3 + 3?".into()));
    // A template that shows every turn leaves nothing out.
    let all = r#"{"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}"#;
    let settings = demask_model::text::TokenizerSettings::from_bytes("none", all.as_bytes()).unwrap();
    let chat = demask_model::text::ChatTemplate::from_settings(&settings).unwrap();
    assert!(model.text().clone().with_chat(chat).left_out(&turns).is_empty());
}

/// A text with gaps is judged by what stands in front of it and by its own words.
#[test]
fn gaps_in_a_text_of_no_kind_are_remarked_on() {
    let model = Model::embedded().unwrap();
    let told = |before: Option<&str>, text: &str| {
        let prompt = Prompt::infill(text);
        let prompt = before.map_or(prompt.clone(), |before| prompt.behind(before));
        model.remark(&prompt).unwrap().is_some()
    };
    let problem = "Tom has 12 pens. Tom buys 7 more. How many pens does Tom have now?";
    assert!(told(None, "I would like to [MASK:4] tomorrow morning."));
    assert!(told(None, "The capital of France is [MASK]."));
    assert!(told(Some(problem), "The capital of France is [MASK]."));
    assert!(told(Some("Write a poem about the sea"), "[MASK:3]"));
    assert!(!told(None, "Tom has 12 pens. Tom buys 7 more. Tom has [MASK] pens now."));
    assert!(!told(Some(problem), "12 + [MASK] = [MASK]. Tom has [MASK] pens."));
    assert!(!told(Some(problem), "(B) [MASK:4]"));
}
