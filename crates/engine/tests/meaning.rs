//! What a caller's words come to on a checkpoint: a strategy's bare name, and a gap with words behind it.

use std::fs;
use std::path::Path;

use demask_engine::{Decoding, Model, Prompt};
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
