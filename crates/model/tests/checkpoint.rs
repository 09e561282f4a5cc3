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
