//! A pass over a mapped mixture of experts reads the experts its rows chose and no others: the system's own count of the
//! files' resident pages says so.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "a run by hand tells its numbers")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use demask_model::checkpoint::synthetic::{self, Init, Tensor};
use demask_model::checkpoint::{Dtype, write};
use demask_model::layer::{Choice, Watch};
use demask_model::quantize::{self, QuantizeSettings};
use demask_model::{LoadOptions, Query, Spec, Transformer, arch, shapes};
use serde_json::{Value, json};

#[derive(Default)]
struct Chosen(BTreeSet<(usize, u32)>);

impl Watch for Chosen {
    fn chose(&mut self, layer: usize, choice: &Choice) {
        self.0.extend(choice.experts.iter().map(|&expert| (layer, expert)));
    }
}

/// LLaDA2-mini with narrower layers and fewer of everything.
fn config() -> Value {
    let mut config = shapes::find("llada2-mini").unwrap().config();
    for (field, value) in [
        ("vocab_size", 512),
        ("hidden_size", 512),
        ("intermediate_size", 512),
        ("num_hidden_layers", 3),
        ("num_attention_heads", 4),
        ("num_key_value_heads", 2),
        ("moe_intermediate_size", 512),
        ("num_experts", 64),
        ("num_experts_per_tok", 4),
        ("mask_token_id", 511),
        ("pad_token_id", 510),
    ] {
        config[field] = json!(value);
    }
    config
}

/// Bytes of a page.
const PAGE: usize = 4096;

/// The pages of the mapped weights of a folder that are in memory: file, and where in it.
fn resident(folder: &Path) -> BTreeSet<(PathBuf, usize)> {
    let (name, maps) = (folder.to_str().unwrap(), std::fs::read_to_string("/proc/self/maps").unwrap());
    let mut table = File::open("/proc/self/pagemap").unwrap();
    let mut pages = BTreeSet::new();
    for line in maps.lines().filter(|line| line.contains(name) && line.ends_with(".safetensors")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |hex: &str| usize::from_str_radix(hex, 16).unwrap();
        let (from, to) = words[0].split_once('-').unwrap();
        let (count, first) = ((number(to) - number(from)) / PAGE, number(words[2]));
        let mut entries = vec![0; count * 8];
        table.seek(SeekFrom::Start((number(from) / PAGE * 8) as u64)).unwrap();
        table.read_exact(&mut entries).unwrap();
        // The highest bit of an entry says that the page is there.
        let there = entries.chunks_exact(8).enumerate().filter(|(_, entry)| entry[7] & 0x80 != 0);
        pages.extend(there.map(|(page, _)| (PathBuf::from(words[5]), first + page * PAGE)));
    }
    pages
}

#[test]
fn experts_that_no_row_chose_are_never_read() {
    let folder = tempfile::tempdir().unwrap();
    let (floats, bytes) = (folder.path().join("floats"), folder.path().join("int8"));
    let text = config().to_string();
    let spec = Spec::from_json(&text, Path::new("config.json")).unwrap();
    let tensors = arch::tensors(&spec).unwrap().into_iter().map(|(name, shape)| {
        let init = if shape.len() == 2 { Init::Normal(0.05) } else { Init::Ones };
        Tensor { name, shape, init }
    });
    let options = write::Options::default();
    synthetic::folder(&floats, &tensors.collect::<Vec<_>>(), Dtype::Bf16, 1, &options).unwrap();
    std::fs::write(floats.join("config.json"), text).unwrap();
    let settings = QuantizeSettings { precision: demask_model::Precision::INT8, max_shard_bytes: u64::MAX };
    quantize::folder(&floats, &bytes, &settings, &mut |_| ()).unwrap();
    std::fs::remove_dir_all(&floats).unwrap();

    let read = pass_over(&bytes, &[3, 1, 4, 1]);
    assert!(read.chosen > 0 && read.chosen <= 2 * 16, "{}", read.chosen);
    assert!(read.resident < read.experts / 2, "{} of {} bytes of experts", read.resident, read.experts);
}

/// LLaDA2-mini as it is, four layers of it, and a block of 32 rows:
///
/// ```sh
/// demask synthesize floats --shape llada2-mini --layers 4 && demask quantize floats mini    # 6.2 and 3.5 GB
/// DEMASK_LLADA2_MINI=mini cargo test --release -p demask-model --test resident -- --ignored --nocapture
/// ```
#[test]
#[ignore = "needs the folder that DEMASK_LLADA2_MINI names"]
fn the_real_shape_reads_no_more_than_the_chosen_experts() {
    let folder = std::env::var_os("DEMASK_LLADA2_MINI").expect("DEMASK_LLADA2_MINI names a folder");
    let tokens: Vec<u32> = (0..32).map(|i| i * 4_801 % 150_000).collect();
    let read = pass_over(Path::new(&folder), &tokens);
    assert!(read.chosen > 8 * 3, "{}", read.chosen);
    assert!(read.resident < read.experts, "{} of {} bytes of experts", read.resident, read.experts);
}

struct Read {
    /// Experts that a row chose, over all layers.
    chosen: usize,
    /// Bytes of weights in memory after the pass.
    resident: usize,
    /// Bytes of all experts.
    experts: usize,
}

/// A fault maps the pages around it too, as far as the piece of the file reaches that the system keeps together.
const AROUND: usize = 512 << 10;

/// Where the tensors of a folder lie: file, name, first byte, byte behind the last.
fn places(folder: &Path) -> Vec<(PathBuf, String, Range<usize>)> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let weights = files.filter(|path| path.extension().is_some_and(|end| end == "safetensors"));
    let mut places = Vec::new();
    for path in weights {
        let mut file = File::open(&path).unwrap();
        let mut length = [0; 8];
        file.read_exact(&mut length).unwrap();
        let mut header = vec![0; u64::from_le_bytes(length) as usize];
        file.read_exact(&mut header).unwrap();
        let start = 8 + header.len();
        let header: serde_json::Map<String, Value> = serde_json::from_slice(&header).unwrap();
        for (name, about) in header {
            if let Some(ends) = about["data_offsets"].as_array() {
                let [from, to] = [0, 1].map(|end| start + ends[end].as_u64().unwrap() as usize);
                places.push((path.clone(), name, from..to));
            }
        }
    }
    places
}

/// The layer and the number of the expert that a tensor belongs to.
fn expert(name: &str) -> Option<(usize, u32)> {
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once(".mlp.experts.")?;
    Some((layer.parse().ok()?, rest.split('.').next()?.parse().ok()?))
}

/// One pass over int8 weights that are mapped, and what of them is in memory then: no more than was there before, what every
/// row meets, the rows of the table that were looked up, and the experts that were chosen, each with the pages around it.
fn pass_over(folder: &Path, tokens: &[u32]) -> Read {
    let folder = &folder.canonicalize().unwrap();
    let spec = Spec::from_folder(folder).unwrap();
    let model = Transformer::load(folder, &LoadOptions::default()).unwrap();
    let before = resident(folder);
    let (all, mut chosen): (Vec<usize>, _) = ((0..tokens.len()).collect(), Chosen::default());
    let query = Query { tokens, predict: &all, ..Query::default() };
    model.forward_watched(&mut [query], &mut chosen).unwrap();
    let after = resident(folder);

    let (mut read, mut of_chosen, mut experts) = (Vec::new(), 0, 0);
    let places = places(folder);
    for (file, name, place) in &places {
        let expert = expert(name);
        experts += if expert.is_some() { place.len() } else { 0 };
        match expert {
            Some(expert) if !chosen.0.contains(&expert) => {}
            Some(_) => {
                of_chosen += place.len();
                read.push((file, place.clone()));
            }
            // Nothing of the head is read in this pass.
            None if name.starts_with("lm_head") => {}
            None if name.contains("word_embeddings") => {
                let row = place.len() / spec.vocab;
                let from = tokens.iter().map(|&id| place.start + id as usize * row);
                read.extend(from.map(|from| (file, from..from + row)));
            }
            None => read.push((file, place.clone())),
        }
    }
    let bytes = after.len() * PAGE;
    println!(
        "{} experts of {} chosen, {of_chosen} bytes of {experts}; {} bytes resident before the pass, {bytes} after",
        chosen.0.len(),
        spec.experts.as_ref().map_or(0, |e| e.count * e.layers.iter().filter(|l| **l).count()),
        before.len() * PAGE,
    );
    let mut strange = BTreeMap::new();
    for (file, page) in after.difference(&before) {
        let near = |(of, piece): &(&PathBuf, Range<usize>)| {
            *of == file && page + PAGE + AROUND > piece.start && *page < piece.end + AROUND
        };
        if !read.iter().any(near) {
            let inside = places.iter().find(|(of, _, place)| of == file && place.contains(page));
            *strange.entry(inside.map(|(_, name, _)| name)).or_insert(0) += 1;
        }
    }
    assert!(strange.is_empty(), "pages of what was not read: {strange:?}");
    assert!(bytes >= of_chosen, "{bytes} bytes are resident, {of_chosen} of chosen experts");
    Read { chosen: chosen.0.len(), resident: bytes, experts }
}
