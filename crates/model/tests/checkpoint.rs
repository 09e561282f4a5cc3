//! Mapping, converting, writing and making up checkpoints.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use demask_kernels::Weights;
use demask_model::Error;
use demask_model::checkpoint::synthetic::{self, Init};
use demask_model::checkpoint::write::{self, Declared, Options};
use demask_model::checkpoint::{Dtype, INDEX, Mapped, Store};
use half::{bf16, f16};
use safetensors::SafeTensors;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy")
}

fn lively(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 7.0).collect()
}

fn file_names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_fixture_is_read_as_the_reference_reader_reads_it() {
    let store = Store::open(fixture()).unwrap();
    let bytes = fs::read(fixture().join("model.safetensors")).unwrap();
    let reference = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(store.names().len(), reference.len());
    assert!(store.names().is_sorted());
    assert_eq!(store.size_in_bytes(), reference.iter().map(|(_, view)| view.data().len()).sum::<usize>());
    for (name, view) in reference.iter() {
        let tensor = store.tensor_shaped(name, view.shape()).unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (Dtype::F32, view.shape()));
        assert_eq!(tensor.as_bytes(), view.data(), "{name}");
        assert!(tensor.is_mapped(), "{name} must not have been copied");
    }
    assert!(store.contains("model.norm.weight") && !store.contains("model.norm.bias"));
}

#[test]
fn rows_and_conversions_agree_with_the_elements() {
    let values = lively(5 * 3 * 4);
    let tensor = Mapped::from_f32(&[5, 3, 4], values.clone());
    for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16] {
        let converted = tensor.to_dtype(dtype);
        let expected: Vec<f32> = values
            .iter()
            .map(|&value| match dtype {
                Dtype::F32 => value,
                Dtype::Bf16 => bf16::from_f32(value).to_f32(),
                Dtype::F16 => f16::from_f32(value).to_f32(),
            })
            .collect();
        assert_eq!(converted.to_f32(), expected);
        assert_eq!(converted.size_in_bytes(), 60 * dtype.size());

        let mut row = [0.0; 12];
        converted.row_f32(3, &mut row);
        assert_eq!(row, expected[36..48]);

        let part = converted.rows(1..4).rows(1..3);
        assert_eq!(part.shape(), [2, 3, 4]);
        assert_eq!(part.to_f32(), expected[24..48]);
        assert_eq!(part.as_bytes().len(), 24 * dtype.size());
    }
}

#[test]
fn large_tensors_are_converted_whole() {
    let values = lively((1 << 17) + 77);
    let tensor = Mapped::from_f32(&[values.len()], values.clone());
    let expected: Vec<bf16> = values.iter().map(|&value| bf16::from_f32(value)).collect();
    let converted = tensor.to_dtype(Dtype::Bf16);
    let Weights::Bf16(found) = converted.weights() else { panic!("not bf16") };
    assert_eq!(found, expected);
    assert_eq!(converted.to_f32(), expected.iter().map(|value| value.to_f32()).collect::<Vec<_>>());
}

/// A safetensors file whose data starts at every offset from an aligned address.
#[test]
fn unaligned_bytes_are_copied_not_refused() {
    let values = lively(6);
    for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16] {
        let tensor = Mapped::from_f32(&[2, 3], values.clone()).to_dtype(dtype);
        for padding in 0..4 {
            let mut header = format!(
                r#"{{"w":{{"dtype":"{}","shape":[2,3],"data_offsets":[0,{}]}}}}"#,
                name(dtype),
                6 * dtype.size()
            );
            header.push_str(&" ".repeat(padding + 8 - header.len() % 8));
            let mut file = (header.len() as u64).to_le_bytes().to_vec();
            file.extend(header.bytes());
            file.extend(tensor.as_bytes());
            let store = Store::from_bytes("in-memory", file).unwrap();
            assert_eq!(store.tensor("w").unwrap().to_f32(), tensor.to_f32(), "{dtype} {padding}");
        }
    }
}

fn name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "F32",
        Dtype::Bf16 => "BF16",
        Dtype::F16 => "F16",
    }
}

#[test]
fn bytes_of_the_program_serve_as_a_checkpoint() {
    let bytes: &'static [u8] = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/fixtures/dream-toy/model.safetensors"
    ));
    let (store, mapped) = (Store::from_bytes("built in", bytes).unwrap(), Store::open(fixture()).unwrap());
    for name in mapped.names() {
        assert_eq!(store.tensor(name).unwrap().to_f32(), mapped.tensor(name).unwrap().to_f32());
        assert!(!store.tensor(name).unwrap().is_mapped());
    }
}

#[test]
fn any_dtype_is_there_as_bytes() {
    let store = Store::open_file(fixture().join("expected.safetensors")).unwrap();
    let (dtype, shape, bytes) = store.bytes("forward.0.ids").unwrap();
    assert_eq!(bytes.len(), shape.iter().product::<usize>() * dtype.bitsize() / 8);
    assert_ne!(dtype, safetensors::Dtype::F32);
}

#[test]
fn a_file_is_read_back_and_says_who_wrote_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("predictor.safetensors");
    let tensors = [
        ("w_k".to_owned(), Mapped::from_f32(&[1, 3], lively(3)).to_dtype(Dtype::Bf16)),
        ("w_q".to_owned(), Mapped::from_f32(&[2, 2], lively(4))),
    ];
    let metadata = BTreeMap::from([("hidden_row".to_owned(), "i-1".to_owned())]);
    write::file(&path, &tensors, &metadata).unwrap();

    let store = Store::open_file(&path).unwrap();
    for (name, tensor) in &tensors {
        let found = store.tensor_shaped(name, tensor.shape()).unwrap();
        assert_eq!((found.dtype(), found.to_f32()), (tensor.dtype(), tensor.to_f32()));
        assert!(found.is_mapped(), "{name} must be aligned although an odd number of bf16 is in the file");
    }
    assert_eq!(store.metadata()["hidden_row"], "i-1");
    assert_eq!(store.metadata()["format"], "pt");
    assert!(SafeTensors::deserialize(&fs::read(&path).unwrap()).is_ok());
    assert_eq!(file_names(folder.path()), ["predictor.safetensors"]);
}

fn toy_plan() -> Vec<synthetic::Tensor> {
    let tensor = |name: &str, shape: &[usize], init| synthetic::Tensor {
        name: name.to_owned(),
        shape: shape.to_vec(),
        init,
    };
    vec![
        tensor("model.embed_tokens.weight", &[300, 64], Init::Normal(0.02)),
        tensor("model.layers.0.self_attn.q_proj.bias", &[64], Init::Zeros),
        tensor("model.norm.weight", &[64], Init::Ones),
        tensor("lm_head.weight", &[300, 64], Init::Normal(1.0)),
    ]
}

#[test]
fn shards_hold_what_one_file_would() {
    let folder = tempfile::tempdir().unwrap();
    let (one, many) = (folder.path().join("one"), folder.path().join("many"));
    let sharded = Options { max_shard_bytes: 40_000, ..Options::default() };
    let whole = synthetic::folder(&one, &toy_plan(), Dtype::Bf16, 7, &Options::default()).unwrap();
    let written = synthetic::folder(&many, &toy_plan(), Dtype::Bf16, 7, &sharded).unwrap();
    assert_eq!((whole.files.len(), written.files.len()), (1, 2));
    assert_eq!(written.tensor_bytes, (2 * 300 * 64 + 64 + 64) * 2);
    assert_eq!(
        file_names(&many),
        ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", INDEX]
    );

    let index: serde_json::Value = serde_json::from_slice(&fs::read(many.join(INDEX)).unwrap()).unwrap();
    assert_eq!(index["metadata"]["total_size"], written.tensor_bytes);
    assert_eq!(index["weight_map"]["lm_head.weight"], "model-00002-of-00002.safetensors");

    let (one, many) = (Store::open(&one).unwrap(), Store::open(&many).unwrap());
    assert!(one.names().eq(many.names()));
    for name in one.names() {
        assert_eq!(one.tensor(name).unwrap().as_bytes(), many.tensor(name).unwrap().as_bytes(), "{name}");
    }
}

#[test]
fn made_up_weights_are_what_was_asked_for_and_the_same_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, seed| {
        let path = folder.path().join(name);
        synthetic::folder(&path, &toy_plan(), Dtype::F32, seed, &Options::default()).unwrap();
        path
    };
    let (first, again, other) = (make("first", 1), make("again", 1), make("other", 2));
    let bytes = |path: &Path| fs::read(path.join("model.safetensors")).unwrap();
    assert!(bytes(&first) == bytes(&again), "the same seed must give the same file");
    assert!(bytes(&first) != bytes(&other), "another seed must give other weights");

    let store = Store::open(&first).unwrap();
    assert!(store.tensor("model.norm.weight").unwrap().to_f32().iter().all(|&w| w == 1.0));
    assert!(store.tensor("model.layers.0.self_attn.q_proj.bias").unwrap().to_f32().iter().all(|&w| w == 0.0));
    let head = store.tensor("lm_head.weight").unwrap().to_f32();
    let mean = head.iter().sum::<f32>() / head.len() as f32;
    let variance = head.iter().map(|w| (w - mean).powi(2)).sum::<f32>() / head.len() as f32;
    assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.03, "mean {mean} variance {variance}");
    let embedding = store.tensor("model.embed_tokens.weight").unwrap().to_f32();
    let correlation: f32 =
        head.iter().zip(&embedding).map(|(a, b)| a * b / 0.02).sum::<f32>() / head.len() as f32;
    assert!(correlation.abs() < 0.03, "two tensors must not be copies: {correlation}");
}

#[test]
fn a_failed_write_leaves_the_old_file_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let declared = [Declared::new("w", Dtype::F32, &[4])];
    let fill = |bytes: &'static [u8]| move |_: &Declared, out: &mut dyn Write| out.write_all(bytes);
    write::folder(folder.path(), &declared, &Options::default(), fill(&[1; 16])).unwrap();
    let before = fs::read(folder.path().join("model.safetensors")).unwrap();

    let broken = write::folder(folder.path(), &declared, &Options::default(), |_, _| {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    });
    assert!(broken.unwrap_err().to_string().ends_with("model.safetensors: the disk is full"));
    let short = write::folder(folder.path(), &declared, &Options::default(), fill(&[1; 15])).unwrap_err();
    assert!(short.to_string().contains("`w` was given 15 bytes"), "{short}");

    assert_eq!(fs::read(folder.path().join("model.safetensors")).unwrap(), before);
    assert_eq!(file_names(folder.path()), ["model.safetensors"]);
}

#[test]
fn contradictory_plans_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |declared: &[Declared], max_shard_bytes| {
        let options = Options { max_shard_bytes, ..Options::default() };
        write::folder(folder.path(), declared, &options, |tensor, out| {
            out.write_all(&vec![0; tensor.size_in_bytes().unwrap() as usize])
        })
    };
    let w = |name: &str| Declared::new(name, Dtype::F32, &[4]);
    let twice = write(&[w("a"), w("a")], 100).unwrap_err();
    assert!(twice.to_string().contains("`a` is declared twice"), "{twice}");
    let absurd = write(&[Declared::new("a", Dtype::F32, &[1 << 40, 1 << 40])], 100).unwrap_err();
    assert!(absurd.to_string().contains("too large for a file"), "{absurd}");

    write(&[w("a"), w("b")], 100).unwrap();
    let other_layout = write(&[w("a"), w("b")], 16).unwrap_err();
    assert!(
        matches!(other_layout, Error::Plan { .. }) && other_layout.to_string().contains("model.safetensors")
    );
    assert_eq!(file_names(folder.path()), ["model.safetensors"]);
}

#[test]
fn a_fingerprint_sees_every_tensor_and_survives_quantising() {
    use demask_model::quantize::{self, QuantizeSettings};
    use demask_model::{Backbone, LoadOptions, Transformer};

    let folder =
        |name: &str| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name);
    let toy = folder("dream-toy");
    let load = |path: &std::path::Path| Transformer::load(path, &LoadOptions::default()).unwrap();
    let own = load(&toy).fingerprint();
    // A copy whose up-projection of one layer is zeroed, everything else as it was.
    let copy = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(toy.join(file), copy.path().join(file)).unwrap();
    }
    assert_eq!(load(copy.path()).fingerprint(), own);
    let weights = copy.path().join("model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let up = header.as_object().unwrap().keys().find(|name| name.contains("up_proj")).unwrap();
    let place = |i: usize| 8 + length + header[up]["data_offsets"][i].as_u64().unwrap() as usize;
    bytes[place(0)..place(1)].fill(0);
    std::fs::write(&weights, bytes).unwrap();
    let tuned = load(copy.path());
    assert_ne!(tuned.fingerprint(), own);
    assert!(!tuned.answers_to(&own));
    // Another precision of the same weights is known by where it comes from.
    let int8 = copy.path().join("int8");
    quantize::folder(
        &toy,
        &int8,
        &QuantizeSettings {
            precision: demask_model::Precision::Int8 { group: 32 },
            max_shard_bytes: 1 << 30,
        },
        &mut |_| (),
    )
    .unwrap();
    let int8 = load(&int8);
    assert!(int8.fingerprint() != own && int8.answers_to(&own) && !int8.answers_to(&tuned.fingerprint()));
}

#[test]
fn a_file_that_changes_while_it_is_mapped_is_noticed_and_one_that_is_read_does_not_care() {
    use demask_model::{Backbone, LoadOptions, Query, Transformer};

    let toy = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy");
    let copy = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(toy.join(file), copy.path().join(file)).unwrap();
    }
    let load =
        |mapped| Transformer::load(copy.path(), &LoadOptions { mapped, ..LoadOptions::default() }).unwrap();
    let (mapped, read) = (load(true), load(false));
    assert_eq!(mapped.fingerprint(), read.fingerprint());
    let forward = |model: &Transformer| {
        let mut batch = [Query { tokens: &[1, 2, 3], predict: &[1, 2], ..Query::default() }];
        model.forward(&mut batch).map(drop)
    };
    forward(&mapped).unwrap();
    let weights = copy.path().join("model.safetensors");
    let bytes = std::fs::read(&weights).unwrap();
    // Written in place, as `cp` does. The clock of the file system may be too coarse to tell, so its time is set.
    let before = std::fs::metadata(&weights).unwrap().modified().unwrap();
    std::fs::write(&weights, &bytes).unwrap();
    let file = std::fs::File::options().write(true).open(&weights).unwrap();
    file.set_modified(before + std::time::Duration::from_secs(2)).unwrap();
    let error = forward(&mapped).unwrap_err().to_string();
    assert!(error.contains("model.safetensors was changed while it is in use"), "{error}");
    forward(&read).unwrap();
    // A file that is replaced under its name keeps its old contents for those who have it.
    let mapped = load(true);
    std::fs::remove_file(&weights).unwrap();
    std::fs::write(&weights, b"another").unwrap();
    forward(&mapped).unwrap();
}

/// Page faults of this thread so far.
#[cfg(target_os = "linux")]
fn faults() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The second field is the name, in brackets, and may hold spaces.
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[7].parse::<u64>().unwrap() + fields[9].parse::<u64>().unwrap()
}

#[cfg(not(target_os = "linux"))]
fn faults() -> u64 {
    0
}

#[test]
fn the_fingerprint_of_a_7b_checkpoint_is_quick() {
    use std::io::{Seek, SeekFrom, Write};

    use demask_model::Spec;

    // Dream-7B's tensors over a file with nothing in it: their pages are there to be read, and take no disk.
    let (hidden, ffn, vocab, kv) = (3584_u64, 18944_u64, 152_064_u64, 512_u64);
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![vocab, hidden]),
        ("lm_head.weight".to_owned(), vec![vocab, hidden]),
        ("model.norm.weight".to_owned(), vec![hidden]),
    ];
    for layer in 0..28 {
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        for (part, shape) in [
            ("self_attn.q_proj", [hidden, hidden]),
            ("self_attn.k_proj", [kv, hidden]),
            ("self_attn.v_proj", [kv, hidden]),
            ("self_attn.o_proj", [hidden, hidden]),
            ("mlp.gate_proj", [ffn, hidden]),
            ("mlp.up_proj", [ffn, hidden]),
            ("mlp.down_proj", [hidden, ffn]),
        ] {
            tensors.push((name(&format!("{part}.weight")), shape.to_vec()));
        }
        for (part, size) in [
            ("input_layernorm.weight", hidden),
            ("post_attention_layernorm.weight", hidden),
            ("self_attn.q_proj.bias", hidden),
            ("self_attn.k_proj.bias", kv),
            ("self_attn.v_proj.bias", kv),
        ] {
            tensors.push((name(part), vec![size]));
        }
    }
    let (mut header, mut end) = (serde_json::Map::new(), 0);
    for (name, shape) in tensors {
        let start = end;
        end += 2 * shape.iter().product::<u64>();
        header.insert(
            name,
            serde_json::json!({ "dtype": "BF16", "shape": shape, "data_offsets": [start, end] }),
        );
    }
    let header = serde_json::Value::Object(header).to_string();
    let folder = tempfile::tempdir().unwrap();
    let mut file = fs::File::create(folder.path().join("model.safetensors")).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.set_len(8 + header.len() as u64 + end).unwrap();
    let config = serde_json::json!({
        "model_type": "Dream", "vocab_size": vocab, "hidden_size": hidden, "intermediate_size": ffn,
        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "rms_norm_eps": 1e-6,
        "rope_theta": 1e6, "max_position_embeddings": 131_072, "tie_word_embeddings": false,
        "mask_token_id": 151_666, "pad_token_id": 151_643, "bos_token_id": 151_643, "eos_token_id": 151_643,
    });
    let spec = Spec::from_json(&config.to_string(), Path::new("config.json")).unwrap();
    let store = Store::open(folder.path()).unwrap();
    let start = std::time::Instant::now();
    let fingerprint = store.fingerprint(&spec);
    let took = start.elapsed();
    // Once more on one thread, whose faults can be told from those of other tests.
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let again = Store::open(folder.path()).unwrap();
    let (pages, same) = alone.install(|| {
        let before = faults();
        let fingerprint = again.fingerprint(&spec);
        (faults() - before, fingerprint)
    });
    assert_eq!(fingerprint, same);
    eprintln!(
        "{} GB of weights: fingerprint {fingerprint} in {took:?}, {pages} page faults",
        store.size_in_bytes() / 1_000_000_000
    );
    // Half a second is the promise, and what it takes is the pages that are touched; reading all of them would be
    // hundreds of thousands of faults even where the system maps sixteen at a time.
    #[cfg(target_os = "linux")]
    assert!((1..20_000).contains(&pages), "{pages} page faults");
}
