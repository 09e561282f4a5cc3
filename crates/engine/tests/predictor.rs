//! A predictor is found wherever it lies, and gives the tokens of the plain file: beside the weights under any name,
//! among them under any prefix, in a repository of its own, and in one repository with the model it belongs to.

#[path = "../../model/tests/support/hub.rs"]
mod hub;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use demask_engine::{Decoding, Description, Model, Prompt};
use demask_model::Precision;
use demask_model::checkpoint::source::HubOptions;
use demask_model::checkpoint::{Dtype, INDEX, Mapped, Store, write};
use demask_model::quantize::{self, QuantizeSettings};
use serde_json::{Value, json};
use tempfile::TempDir;

const LENGTH: usize = 40;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy")
}

fn plain_file() -> PathBuf {
    fixture().join("predictor_row_i_minus_1.safetensors")
}

/// Tokens of the first prompt of the fixture, and the steps it took.
fn decoded(model: &Model) -> (Vec<u32>, usize) {
    let expected: Value =
        serde_json::from_slice(&fs::read(fixture().join("expected.json")).unwrap()).unwrap();
    let prompt =
        expected["prompts"][0].as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect();
    let answer = model.generate(Prompt::Tokens(prompt)).length(LENGTH).strategy("demask:tau=0.3,gamma=0.7");
    let answer = answer.run().unwrap();
    (answer.response().to_vec(), answer.metrics.steps)
}

/// What the plain file gives, brought to this precision.
fn expected(dtype: Dtype) -> (Vec<u32>, usize) {
    expected_of(false, dtype)
}

/// The same, with `W` multiplied out before that or not: bfloat16 rounds the two differently.
fn expected_of(merged: bool, dtype: Dtype) -> (Vec<u32>, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plain");
    write_file(&path, &predictor_tensors("", merged, false, dtype), &[("hidden_row", "i-1")]);
    decoded(&Model::loader(fixture().to_str().unwrap()).predictor(path).load().unwrap())
}

fn transposed(m: &Mapped) -> Mapped {
    let (data, rows, columns) = (m.to_f32(), m.shape()[0], m.shape()[1]);
    let flipped =
        (0..columns).flat_map(|j| (0..rows).map(move |i| (i, j))).map(|(i, j)| data[i * columns + j]);
    Mapped::from_f32(&[columns, rows], flipped.collect())
}

/// The fixture's predictor as it might be stored.
fn predictor_tensors(prefix: &str, merged: bool, out_in: bool, dtype: Dtype) -> Vec<(String, Mapped)> {
    let store = Store::open_file(plain_file()).unwrap();
    let (q, k) = (store.tensor("w_q").unwrap(), store.tensor("w_k").unwrap());
    let parts = if merged {
        let (qs, ks, d) = (q.to_f32(), k.to_f32(), q.shape()[0]);
        let inner = q.shape()[1];
        let dot = |i: usize, j: usize| -> f32 {
            let sum: f64 =
                (0..inner).map(|c| f64::from(qs[i * inner + c]) * f64::from(ks[j * inner + c])).sum();
            sum as f32
        };
        let w = (0..d * d).map(|index| dot(index / d, index % d)).collect();
        vec![("W", Mapped::from_f32(&[d, d], w))]
    } else {
        vec![("q_proj", q), ("k_proj", k)]
    };
    let ending = if out_in { ".weight" } else { "" };
    let stored = |(name, m): (&str, Mapped)| {
        let m = if out_in { transposed(&m) } else { m };
        (format!("{prefix}{name}{ending}"), m.to_dtype(dtype))
    };
    parts.into_iter().map(stored).collect()
}

fn write_file(path: &Path, tensors: &[(String, Mapped)], about: &[(&str, &str)]) {
    let about = about.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    write::file(path, tensors, &about).unwrap();
}

/// A copy of the toy without predictors, its weights in two shards under a prefix, with more tensors in the second.
fn sharded(prefix: &str, more: Vec<(String, Mapped)>, config: impl Fn(&mut Value)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["generation_config.json", "tokenizer.json", "tokenizer_config.json"] {
        fs::copy(fixture().join(name), folder.path().join(name)).unwrap();
    }
    let mut value: Value = serde_json::from_slice(&fs::read(fixture().join("config.json")).unwrap()).unwrap();
    config(&mut value);
    fs::write(folder.path().join("config.json"), value.to_string()).unwrap();
    let store = Store::open(fixture()).unwrap();
    let own = store.names().map(|name| (format!("{prefix}{name}"), store.tensor(name).unwrap()));
    let mut first: Vec<(String, Mapped)> = own.collect();
    let mut second = first.split_off(first.len() / 2);
    second.extend(more);
    let mut map = BTreeMap::new();
    for (number, tensors) in [first, second].iter().enumerate() {
        let shard = format!("model-{:05}-of-00002.safetensors", number + 1);
        write_file(&folder.path().join(&shard), tensors, &[("format", "pt")]);
        map.extend(tensors.iter().map(|(name, _)| (name.clone(), shard.clone())));
    }
    fs::write(folder.path().join(INDEX), json!({ "metadata": {}, "weight_map": map }).to_string()).unwrap();
    folder
}

fn load(folder: &TempDir) -> Model {
    Model::load(folder.path().to_str().unwrap()).unwrap()
}

#[test]
fn inside_the_shards_under_any_prefix_and_in_any_layout() {
    let cases = [
        ("predictor.", false, false, Dtype::F32),
        ("model.dependency_head.", false, true, Dtype::F32),
        ("aux.pair.", false, true, Dtype::Bf16),
        ("demask.", true, false, Dtype::F32),
        ("x.", true, true, Dtype::F32),
        ("model.pairs.", true, false, Dtype::Bf16),
        ("pairs.head.", true, true, Dtype::Bf16),
        ("head.", false, false, Dtype::Bf16),
    ];
    assert_eq!(expected_of(true, Dtype::F32), expected(Dtype::F32), "multiplied out or not");
    for (prefix, merged, out_in, dtype) in cases {
        let folder = sharded("", predictor_tensors(prefix, merged, out_in, dtype), |_| ());
        // The shards do not say which hidden row it reads; what was measured lies beside them.
        fs::write(folder.path().join("predictor.json"), r#"{"hidden_row":"i-1"}"#).unwrap();
        let model = load(&folder);
        let understood = model.understanding().unwrap();
        assert_eq!((understood.merged, understood.dtypes.as_slice()), (merged, &[dtype][..]), "{prefix}");
        assert!(understood.to_string().contains("predictor.json"), "{understood}");
        assert_eq!(decoded(&model), expected_of(merged, dtype), "{prefix}");
        let plain = Model::load(fixture().to_str().unwrap()).unwrap();
        assert_eq!(model.backbone().fingerprint(), plain.backbone().fingerprint(), "{prefix}");
    }
}

#[test]
fn quantising_the_weights_keeps_the_predictor_among_them() {
    let folder = sharded("", predictor_tensors("predictor.", false, true, Dtype::F32), |_| ());
    fs::write(folder.path().join("predictor.json"), r#"{"hidden_row":"i-1"}"#).unwrap();
    let smaller = tempfile::tempdir().unwrap();
    let settings = QuantizeSettings { precision: Precision::Int8 { group: 32 }, max_shard_bytes: 1 << 30 };
    quantize::folder(folder.path(), smaller.path(), &settings, &mut |_| ()).unwrap();
    let model = load(&smaller);
    assert!(model.understanding().is_some(), "the predictor was left behind");
    let named = Model::loader(smaller.path().to_str().unwrap()).predictor(plain_file()).load().unwrap();
    assert_eq!(decoded(&model), decoded(&named));
}

#[test]
fn without_a_word_about_the_row_the_assumption_is_told() {
    let folder = sharded("", predictor_tensors("predictor.", false, false, Dtype::F32), |_| ());
    let model = load(&folder);
    assert!(model.understanding().unwrap().to_string().contains("assumed"), "{:?}", model.understanding());
    assert_ne!(decoded(&model), expected(Dtype::F32), "the rows of the two conventions differ");
}

#[test]
fn tensors_that_are_nobodys_are_refused() {
    let stray = vec![("extra.bonus.weight".to_owned(), Mapped::from_f32(&[64, 64], vec![0.5; 64 * 64]))];
    let folder = sharded("", stray, |_| ());
    let error = Model::load(folder.path().to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("extra.bonus.weight"), "{error}");
    let half = predictor_tensors("predictor.", false, false, Dtype::F32)[..1].to_vec();
    let error = Model::load(sharded("", half, |_| ()).path().to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("not a usable predictor"), "{error}");
}

#[test]
fn beside_the_weights_under_any_name_but_not_one_of_two() {
    let folder = sharded("", Vec::new(), |_| ());
    fs::copy(plain_file(), folder.path().join("learned-for-the-toy.safetensors")).unwrap();
    assert_eq!(decoded(&load(&folder)), expected(Dtype::F32));
    fs::copy(plain_file(), folder.path().join("another.safetensors")).unwrap();
    let model = load(&folder);
    let told = model.without_predictor(&Decoding::default()).unwrap();
    assert!(told.contains("another.safetensors, learned-for-the-toy.safetensors"), "{told}");
    assert_eq!(model.passed_over(), None, "the line above has named them");
    // The usual name wins.
    fs::copy(plain_file(), folder.path().join("predictor.safetensors")).unwrap();
    let model = load(&folder);
    assert_eq!(decoded(&model), expected(Dtype::F32));
    let why = "(predictor.safetensors comes first)";
    let others = format!("passed over: another.safetensors {why}, learned-for-the-toy.safetensors {why}");
    assert_eq!(model.passed_over(), Some(others));
}

#[test]
fn of_a_file_and_the_weights_own_the_one_that_is_not_used_is_named() {
    let folder = sharded("", predictor_tensors("predictor.", false, false, Dtype::F32), |_| ());
    let beside = |name: &str| {
        fs::copy(plain_file(), folder.path().join(name)).unwrap();
    };
    assert_eq!(load(&folder).passed_over(), None);
    beside("learned.safetensors");
    let model = load(&folder);
    assert!(model.understanding().unwrap().path.ends_with("learned.safetensors"));
    let told = "passed over: the predictor among the weights (learned.safetensors comes first)";
    assert_eq!(model.passed_over().as_deref(), Some(told));
    beside("other.safetensors");
    let model = load(&folder);
    assert_eq!(model.understanding().unwrap().path, folder.path(), "of two files none");
    let told = model.passed_over().unwrap();
    let why = "(one of several; the predictor among the weights comes first)";
    assert_eq!(told, format!("passed over: learned.safetensors {why}, other.safetensors {why}"));
}

#[test]
fn a_file_that_cannot_be_read_or_told_is_named() {
    let folder = sharded("", Vec::new(), |_| ());
    let whole = fs::read(plain_file()).unwrap();
    fs::write(folder.path().join("torn.safetensors"), &whole[..whole.len() / 2]).unwrap();
    let twice = |prefix| predictor_tensors(prefix, false, false, Dtype::F32);
    write_file(&folder.path().join("twice.safetensors"), &[twice("a."), twice("b.")].concat(), &[]);
    // What is something else is nobody's business.
    let other = vec![("extra.bonus.weight".to_owned(), Mapped::from_f32(&[3, 5], vec![0.5; 15]))];
    write_file(&folder.path().join("bonus.safetensors"), &other, &[]);
    let model = load(&folder);
    assert!(model.understanding().is_none());
    let told = model.passed_over().unwrap();
    assert!(told.contains("torn.safetensors (") && told.contains("damaged or incomplete"), "{told}");
    assert!(told.contains("twice.safetensors (") && told.contains("both look like its W_"), "{told}");
    assert!(!told.contains("bonus"), "{told}");
    // Described, and where the folder is given as the predictor's, too.
    let described = Description::of(folder.path(), None, 32).unwrap().predictor().unwrap();
    assert!(described.contains("none that can be used; passed over: torn.safetensors ("), "{described}");
    let only = tempfile::tempdir().unwrap();
    fs::write(only.path().join("torn.safetensors"), &whole[..whole.len() / 2]).unwrap();
    let named = Model::loader(fixture().to_str().unwrap()).predictor(only.path()).load();
    let error = named.map(drop).unwrap_err().to_string();
    assert!(error.contains("torn.safetensors (") && error.contains("damaged or incomplete"), "{error}");
}

#[test]
fn what_is_written_beside_a_predictor_counts_or_is_refused() {
    let folder = sharded("", predictor_tensors("predictor.", false, false, Dtype::F32), |_| ());
    let path = folder.path().join("predictor.json");
    for bad in ["", "{\"hidden_row\"", "[\"i-1\"]"] {
        fs::write(&path, bad).unwrap();
        let error = Model::load(folder.path().to_str().unwrap()).map(drop).unwrap_err().to_string();
        assert!(error.contains("predictor.json: is no") && error.contains("calibrate"), "{bad}: {error}");
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let error = Model::load(folder.path().to_str().unwrap()).map(drop).unwrap_err().to_string();
    assert!(error.contains("predictor.json: cannot be read"), "{error}");
    // Without a predictor it is about nothing.
    let alone = sharded("", Vec::new(), |_| ());
    fs::write(alone.path().join("predictor.json"), "{").unwrap();
    load(&alone);
}

#[test]
fn from_the_repository_of_the_model_under_any_name() {
    let folder = sharded("", Vec::new(), |_| ());
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap()) {
        files.insert(entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    }
    let silent = folder.path().join("silent");
    write_file(&silent, &predictor_tensors("", false, false, Dtype::F32), &[]);
    files.insert("learned.safetensors".to_owned(), fs::read(&silent).unwrap());
    files.insert("learned.json".to_owned(), br#"{"hidden_row":"i-1"}"#.to_vec());
    let (server, home) = (hub::Server::start(files), tempfile::tempdir().unwrap());
    let model = Model::loader(hub::NAME).hub(options(&server, &home)).load().unwrap();
    assert!(model.understanding().unwrap().to_string().contains("learned.json"));
    assert_eq!(decoded(&model), expected(Dtype::F32));
}

#[test]
fn a_wrapper_around_the_model_is_recognised_by_tensors_and_base_config() {
    type Change = fn(&mut Value);
    let wrappers: [(&str, &str, Change); 3] = [
        ("backbone.", "flat", |c| {
            c["model_type"] = "demask_dream".into();
            c["architectures"] = json!(["DreamWithDependency"]);
            c["auto_map"] = json!({ "AutoModel": "modeling_wrapped.DreamWithDependency" });
        }),
        ("base_model.inner.", "nested", |c| {
            let mut base = c.take();
            base["mask_token_id"] = Value::Null;
            *c = json!({
                "model_type": "wrapped", "architectures": ["Wrapped"], "base_config": base, "mask_token_id": 1,
            });
        }),
        ("", "no prefix", |c| {
            c["model_type"] = "parallel-decoder".into();
            c["architectures"] = json!(["ParallelDecoder"]);
            c["base_model_name_or_path"] = "Dream-org/Dream-v0-Instruct-7B".into();
        }),
    ];
    for (prefix, name, change) in wrappers {
        let folder = sharded(prefix, predictor_tensors("predictor.", false, true, Dtype::F32), change);
        fs::write(folder.path().join("predictor.json"), r#"{"hidden_row":"i-1"}"#).unwrap();
        assert_eq!(decoded(&load(&folder)), expected(Dtype::F32), "{name}");
    }
    // Without any word of the family two would fit, and a wrong shape fits none.
    let unnamed = |c: &mut Value| {
        c["model_type"] = "gpt2".into();
        c["architectures"] = json!(["Wrapped"]);
    };
    let error =
        Model::load(sharded("", Vec::new(), unnamed).path().to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("gpt2") && error.contains("dream"), "{error}");
    let wrong = sharded("backbone.", Vec::new(), |c| {
        c["model_type"] = "my-dream".into();
        c["architectures"] = json!(["Wrapped"]);
        c["intermediate_size"] = 161.into();
    });
    let error = Model::load(wrong.path().to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("my-dream"), "{error}");
}

fn options(server: &hub::Server, home: &TempDir) -> HubOptions {
    HubOptions {
        home: home.path().to_path_buf(),
        endpoint: Some(server.address.clone()),
        token: None,
        offline: false,
        patience: HubOptions::PATIENCE,
    }
}

#[test]
fn from_a_repository_of_its_own_and_from_a_folder() {
    let files = BTreeMap::from([("model.safetensors".to_owned(), fs::read(plain_file()).unwrap())]);
    let (server, home) = (hub::Server::start(files), tempfile::tempdir().unwrap());
    let options = options(&server, &home);
    let model = Model::loader(fixture().to_str().unwrap()).hub(options).predictor(hub::NAME).load().unwrap();
    assert_eq!(decoded(&model), expected(Dtype::F32));
    let folder = tempfile::tempdir().unwrap();
    fs::copy(plain_file(), folder.path().join("some.safetensors")).unwrap();
    let model = Model::loader(fixture().to_str().unwrap()).predictor(folder.path()).load().unwrap();
    assert_eq!(decoded(&model), expected(Dtype::F32));
}

#[test]
fn without_one_the_decoder_that_is_named_runs() {
    let model = load(&sharded("", Vec::new(), |_| ()));
    let told = model.without_predictor(&Decoding::default()).unwrap();
    assert!(told.starts_with("no dependency predictor: threshold:threshold=0.95 decodes"), "{told}");
    let run = model.generate(Prompt::Tokens(vec![5, 6, 7, 3])).length(8).run().unwrap();
    assert_eq!(run.strategy, "threshold:threshold=0.95");
    let chosen = Decoding { strategy: Some("entropy".parse().unwrap()), ..Decoding::default() };
    assert_eq!(model.without_predictor(&chosen), None);
}
