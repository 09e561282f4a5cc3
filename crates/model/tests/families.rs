//! The published forwards of the toy checkpoints: hidden rows and logits within 2e-4, experts exactly.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use demask_model::checkpoint::Store;
use demask_model::config::{Experts, Origin, Scoring, Visibility};
use demask_model::layer::{Choice, Watch};
use demask_model::{Backbone as _, Grid, HiddenRow, LoadOptions, Query, Reuse, Spec, Transformer};
use demask_model::{KvCache, Rows};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn model(name: &str) -> Transformer {
    Transformer::load(&fixture(name), &LoadOptions::default()).unwrap()
}

/// What a pass chose, layer by layer.
#[derive(Default)]
struct Chosen(Vec<(usize, Choice)>);

impl Watch for Chosen {
    fn chose(&mut self, layer: usize, choice: &Choice) {
        self.0.push((layer, choice.clone()));
    }
}

/// One recorded forward.
struct Recorded {
    ids: Vec<u32>,
    blocks: Option<Grid>,
    name: String,
}

fn recorded(folder: &str, store: &Store) -> Vec<Recorded> {
    let text = std::fs::read_to_string(fixture(folder).join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let forwards = expected["forward"].as_array().unwrap();
    assert!(forwards.len() >= 4);
    let of = |(number, forward): (usize, &Value)| {
        let name = format!("forward.{number}");
        let (dtype, _, bytes) = store.bytes(&format!("{name}.ids")).unwrap();
        let ids: Vec<u32> = match dtype.bitsize() {
            64 => bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32).collect(),
            _ => bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect(),
        };
        // No block length: every row sees every row, which is one block.
        let length = forward["block_length"].as_u64().map_or(ids.len(), |n| n as usize);
        Recorded { blocks: Some(Grid::new(0, length)), ids, name }
    };
    forwards.iter().enumerate().map(of).collect()
}

/// Hidden rows and logits of every position.
fn forward(model: &Transformer, of: &Recorded, chosen: &mut Chosen) -> (Rows, Vec<f32>) {
    let all: Vec<usize> = (0..of.ids.len()).collect();
    let query = Query {
        tokens: &of.ids,
        predict: &all,
        hidden: Some((&all, HiddenRow::I)),
        blocks: of.blocks,
        ..Query::default()
    };
    let pass = model.forward_watched(&mut [query], chosen).unwrap().remove(0);
    let mut logits = Vec::new();
    model.logits(&pass.predicting, &mut |_, rows| logits.extend_from_slice(rows)).unwrap();
    (pass.hidden.unwrap(), logits)
}

fn furthest(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn as_published(folder: &str, layers_with_experts: usize) {
    let model = model(folder);
    let store = Store::open_file(fixture(folder).join("expected.safetensors")).unwrap();
    for of in recorded(folder, &store) {
        let mut chosen = Chosen::default();
        let (hidden, logits) = forward(&model, &of, &mut chosen);
        let tensor = |what: &str| store.tensor(&format!("{}.{what}", of.name)).unwrap().to_f32();
        let apart = furthest(&hidden.data, &tensor("hidden"));
        assert!(apart < 2e-4, "{folder} {}: hidden rows differ by {apart}", of.name);
        let apart = furthest(&logits, &tensor("logits"));
        assert!(apart < 2e-4, "{folder} {}: logits differ by {apart}", of.name);
        assert_eq!(chosen.0.len(), layers_with_experts);
        for (layer, choice) in &chosen.0 {
            let (_, shape, bytes) = store.bytes(&format!("{}.layer.{layer}.experts", of.name)).unwrap();
            let width = bytes.len() / shape.iter().product::<usize>();
            let theirs: Vec<u32> =
                bytes.chunks_exact(width).map(|b| u32::from_le_bytes(b[..4].try_into().unwrap())).collect();
            let weights = tensor(&format!("layer.{layer}.weights"));
            let sorted = |experts: &[u32], weights: &[f32]| {
                let mut pairs: Vec<_> = experts.iter().copied().zip(weights.iter().copied()).collect();
                pairs.sort_by_key(|pair| pair.0);
                pairs
            };
            let rows = choice.experts.chunks(choice.chosen).zip(choice.weights.chunks(choice.chosen));
            let theirs = theirs.chunks(choice.chosen).zip(weights.chunks(choice.chosen));
            assert_eq!(rows.len(), of.ids.len());
            for (row, (ours, theirs)) in rows.zip(theirs).enumerate() {
                let (ours, theirs) = (sorted(ours.0, ours.1), sorted(theirs.0, theirs.1));
                for (ours, theirs) in ours.iter().zip(&theirs) {
                    assert_eq!(ours.0, theirs.0, "{folder} {} layer {layer} row {row}", of.name);
                    assert!((ours.1 - theirs.1).abs() < 1e-5, "{ours:?} {theirs:?}");
                }
            }
        }
    }
}

#[test]
fn llada2_forwards() {
    as_published("llada2-toy", 3);
}

#[test]
fn llada_moe_forwards() {
    let model = model("lladamoe-toy");
    assert_eq!(model.spec().architecture, "llada-moe", "chosen by `architectures`: its model_type is llada");
    as_published("lladamoe-toy", 3);
}

#[test]
fn sdar_forwards() {
    let model = model("sdar-toy");
    assert_eq!(model.spec().ids.eos, [151, 152], "the second end stands in generation_config.json alone");
    as_published("sdar-toy", 0);
}

#[test]
fn whatever_shapes_the_numbers_is_in_the_fingerprint() {
    let folder = fixture("llada2-toy");
    let (spec, store) = (Spec::from_folder(&folder).unwrap(), Store::open(&folder).unwrap());
    let changed = |change: fn(&mut Spec, &mut Experts)| {
        let mut other = spec.clone();
        let mut experts = other.experts.clone().unwrap();
        change(&mut other, &mut experts);
        store.fingerprint(&Spec { experts: Some(experts), ..other })
    };
    let changes: [fn(&mut Spec, &mut Experts); 12] = [
        |_, _| (),
        |spec, _| spec.rotary = 16,
        |spec, _| spec.qk_norm = false,
        |spec, _| spec.attention = Visibility::Full,
        |spec, _| spec.block = Some(8),
        |spec, _| spec.origin = Origin::Response,
        |_, experts| experts.chosen = 3,
        |_, experts| experts.groups_chosen = 3,
        |_, experts| experts.groups = 2,
        |_, experts| experts.scale = 1.0,
        |_, experts| experts.normalise = false,
        |_, experts| experts.scoring = Scoring::Softmax,
    ];
    let all: BTreeSet<String> = changes.into_iter().map(changed).collect();
    assert_eq!(all.len(), changes.len(), "{all:?}");
}

/// Rows of one pass over `rows` of a canvas with a cache.
fn cached(model: &Transformer, tokens: &[u32], blocks: Grid, cache: &mut KvCache, rows: &[usize]) -> Rows {
    let query = Query {
        tokens,
        predict: rows,
        cache: Some(Reuse { cache, rows }),
        blocks: Some(blocks),
        ..Query::default()
    };
    model.forward(&mut [query]).unwrap().remove(0).predicting
}

#[test]
fn a_finished_block_does_not_change_and_is_computed_once() {
    for (folder, length) in [("llada2-toy", 8), ("sdar-toy", 4)] {
        let model = model(folder);
        let tokens: Vec<u32> = (0..40).map(|i| (i * 37 + 11) % 149).collect();
        for start in [0, 3] {
            let grid = Grid::new(start, length);
            let all: Vec<usize> = (0..tokens.len()).collect();
            let query = Query { tokens: &tokens, predict: &all, blocks: Some(grid), ..Query::default() };
            let whole = model.forward(&mut [query]).unwrap().remove(0);
            assert_eq!(whole.computed_rows, tokens.len());
            // Block by block into a growing cache, with other tokens behind: the same bits.
            let (mut cache, mut from) = (KvCache::new(), 0);
            while from < tokens.len() {
                let end = grid.end(from).min(tokens.len());
                let mut canvas = tokens.clone();
                canvas[end..].fill(150);
                let rows: Vec<usize> = (from..end).collect();
                let part = cached(&model, &canvas, grid, &mut cache, &rows);
                assert_eq!(cache.rows(), end);
                let width = part.width;
                assert_eq!(
                    part.data,
                    whole.predicting.data[from * width..end * width],
                    "{folder} rows {from}..{end}"
                );
                // Without a cache, rows behind the wanted block are not computed.
                let query = Query { tokens: &canvas, predict: &rows, blocks: Some(grid), ..Query::default() };
                let alone = model.forward(&mut [query]).unwrap().remove(0);
                assert_eq!((alone.computed_rows, alone.predicting.data), (end, part.data));
                from = end;
            }
            // Two blocks again in one pass, each in its own segment, after a crop.
            let back = grid.start(20);
            cache.crop(back);
            let rows: Vec<usize> = (back..grid.end(grid.end(20)).min(40)).collect();
            let again = cached(&model, &tokens, grid, &mut cache, &rows);
            let width = again.width;
            assert_eq!(again.data, whole.predicting.data[back * width..][..again.data.len()]);
        }
    }
}

#[test]
fn rows_that_the_cache_lacks_are_not_left_out() {
    let model = model("sdar-toy");
    let tokens = [7; 16];
    let mut cache = KvCache::new();
    cached(&model, &tokens, Grid::new(0, 4), &mut cache, &[0, 1, 2, 3]);
    let query = Query {
        tokens: &tokens,
        predict: &[8],
        cache: Some(Reuse { cache: &mut cache, rows: &[8, 9, 10, 11] }),
        blocks: Some(Grid::new(0, 4)),
        ..Query::default()
    };
    let refused = model.forward(&mut [query]).unwrap_err().to_string();
    assert!(refused.contains("holds 4 rows"), "{refused}");
}

/// Drafts are of all lengths, and a prefix is shared by canvases of all lengths: what every layer kept stays.
#[test]
fn a_canvas_of_another_length_keeps_the_rows_of_every_layer() {
    let composed = LoadOptions { composed: true, ..LoadOptions::default() };
    let device = Transformer::load(&fixture("sdar-toy"), &composed).unwrap();
    let tokens: Vec<u32> = (0..24).map(|i| (i * 37 + 11) % 149).collect();
    let grid = Grid::new(0, 1);
    for (model, within) in [(model("sdar-toy"), 0.0), (device, 1e-5)] {
        let all: Vec<usize> = (0..tokens.len()).collect();
        let query = Query { tokens: &tokens, predict: &all, blocks: Some(grid), ..Query::default() };
        let whole = model.forward(&mut [query]).unwrap().remove(0).predicting;
        let same = |cache: &mut KvCache, from: usize, end: usize| {
            cache.crop(from);
            let rows: Vec<usize> = (from..end).collect();
            let part = cached(&model, &tokens[..end], grid, cache, &rows);
            let expected = &whole.data[from * part.width..end * part.width];
            assert_eq!(part.data.len(), expected.len());
            let apart = part.data.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(apart <= within, "rows {from}..{end}: {apart} apart");
        };
        let mut cache = KvCache::new();
        // Longer, shorter, longer again.
        for (from, end) in [(0, 8), (8, 16), (4, 10), (10, 24)] {
            same(&mut cache, from, end);
        }
        same(&mut cache.prefix(6, 20).unwrap(), 6, 20);
    }
}
