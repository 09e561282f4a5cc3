//! The released models one by one: the text of a config with their values gives the numbers that their authors publish.

use std::path::Path;

use demask_model::config::{Origin, Shift, Spec, Visibility};
use demask_model::shapes;
use serde_json::{Value, json};

/// `config.json` of Dream-v0-Instruct-7B, as it is on the Hub.
const DREAM: &str = r#"{
  "_name_or_path": "Dream-org/Dream-v0-Instruct-7B", "architectures": ["DreamModel"], "attention_dropout": 0.0,
  "auto_map": {"AutoConfig": "configuration_dream.DreamConfig", "AutoModel": "modeling_dream.DreamModel"},
  "bos_token_id": 151643, "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 3584, "initializer_range": 0.02,
  "intermediate_size": 18944, "mask_token_id": 151666, "max_position_embeddings": 131072, "max_window_layers": 28,
  "model_type": "Dream", "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
  "pad_token_id": 151643, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0, "sliding_window": null,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.46.2", "use_cache": true,
  "use_mrope": false, "use_sliding_window": false, "vocab_size": 152064
}"#;

/// `config.json` of LLaDA-8B-Instruct, as it is on the Hub.
const LLADA: &str = r#"{
  "activation_type": "silu", "alibi": false, "alibi_bias_max": 8.0, "architectures": ["LLaDAModelLM"],
  "attention_dropout": 0.0, "attention_layer_norm": false, "attention_layer_norm_with_affine": true,
  "auto_map": {"AutoConfig": "configuration_llada.LLaDAConfig", "AutoModelForCausalLM": "modeling_llada.LLaDAModelLM",
    "AutoModel": "modeling_llada.LLaDAModelLM"},
  "bias_for_layer_norm": false, "block_group_size": 1, "block_type": "llama", "d_model": 4096, "embedding_dropout": 0.0,
  "embedding_size": 126464, "eos_token_id": 126081, "flash_attention": false, "include_bias": false,
  "include_qkv_bias": false, "init_cutoff_factor": null, "init_device": "meta", "init_fn": "mitchell", "init_std": 0.02,
  "input_emb_norm": false, "layer_norm_type": "rms", "layer_norm_with_affine": true, "mask_token_id": 126336,
  "max_sequence_length": 4096, "mlp_hidden_size": 12288, "mlp_ratio": 4, "model_type": "llada",
  "multi_query_attention": null, "n_heads": 32, "n_kv_heads": 32, "n_layers": 32, "pad_token_id": 126081,
  "precision": "amp_bf16", "residual_dropout": 0.0, "rms_norm_eps": 1e-05, "rope": true, "rope_full_precision": true,
  "rope_theta": 500000.0, "scale_logits": false, "transformers_version": "4.46.3", "use_cache": false,
  "vocab_size": 126464, "weight_tying": false
}"#;

/// What is published of a model.
struct Released {
    family: &'static str,
    /// Layers, hidden, heads, key/value heads, width of a head, MLP.
    sizes: [usize; 6],
    vocab: usize,
    theta: f64,
    eps: f32,
    /// Dimensions of a head that rotate.
    rotary: usize,
    qk_norm: bool,
    qkv_bias: bool,
    tied: bool,
    /// Block length and where blocks begin, where attention goes by them.
    blocks: Option<(usize, Origin)>,
    shift: Shift,
    /// Experts, chosen ones, width, width of the shared one, groups, groups chosen.
    experts: Option<[usize; 6]>,
    mask: u32,
    ends: &'static [u32],
}

const DREAM_7B: Released = Released {
    family: "dream",
    sizes: [28, 3584, 28, 4, 128, 18944],
    vocab: 152_064,
    theta: 1e6,
    eps: 1e-6,
    rotary: 128,
    qk_norm: false,
    qkv_bias: true,
    tied: false,
    blocks: None,
    shift: Shift::Global,
    experts: None,
    mask: 151_666,
    ends: &[151_643],
};

const LLADA_8B: Released = Released {
    family: "llada",
    sizes: [32, 4096, 32, 32, 128, 12288],
    vocab: 126_464,
    theta: 5e5,
    eps: 1e-5,
    qkv_bias: false,
    shift: Shift::None,
    mask: 126_336,
    ends: &[126_081],
    ..DREAM_7B
};

const LLADA_MOE: Released = Released {
    family: "llada-moe",
    sizes: [16, 2048, 16, 16, 128, 8192],
    vocab: 157_184,
    theta: 5e4,
    qk_norm: true,
    experts: Some([64, 8, 1024, 0, 1, 1]),
    mask: 156_895,
    ends: &[156_892],
    ..LLADA_8B
};

const LLADA2_MINI: Released = Released {
    family: "llada2",
    sizes: [20, 2048, 16, 4, 128, 5120],
    theta: 6e5,
    eps: 1e-6,
    rotary: 64,
    blocks: Some((32, Origin::Prompt)),
    experts: Some([256, 8, 512, 512, 8, 4]),
    ..LLADA_MOE
};

const LLADA2_FLASH: Released = Released {
    sizes: [32, 4096, 32, 4, 128, 9216],
    experts: Some([256, 8, 1024, 1024, 8, 4]),
    ..LLADA2_MINI
};

const SDAR: Released = Released {
    family: "sdar",
    sizes: [28, 2048, 16, 8, 128, 6144],
    vocab: 151_936,
    theta: 1e6,
    rotary: 128,
    blocks: Some((4, Origin::Prompt)),
    experts: None,
    mask: 151_669,
    ends: &[151_645],
    ..LLADA2_MINI
};

const SDAR_30B: Released = Released {
    family: "sdar-moe",
    sizes: [48, 2048, 32, 4, 128, 6144],
    experts: Some([128, 8, 768, 0, 1, 1]),
    ..SDAR
};

const QWEN3: Released =
    Released { family: "a2d-qwen3", sizes: [28, 1024, 16, 8, 128, 3072], tied: true, blocks: None, ..SDAR };

const QWEN2: Released = Released {
    family: "a2d-qwen2",
    sizes: [24, 896, 14, 2, 64, 4864],
    rotary: 64,
    qk_norm: false,
    qkv_bias: true,
    mask: 151_665,
    ..QWEN3
};

const FAST_DLLM: Released = Released {
    family: "fast-dllm-v2",
    sizes: [28, 1536, 12, 2, 128, 8960],
    rotary: 128,
    blocks: Some((32, Origin::Prompt)),
    shift: Shift::Block,
    ..QWEN2
};

const RND1: Released = Released { family: "rnd1", blocks: None, shift: Shift::Global, ..SDAR_30B };

fn block(length: usize) -> Value {
    json!({ "block_size": length })
}

/// Every model that the families are there for: its name, the shape of its config, what differs from it, what is published.
fn released() -> Vec<(&'static str, &'static str, Value, Released)> {
    let same = || json!({});
    let bd3lm = Some((32, Origin::Response));
    let sdar = |sizes| Released { sizes, ..SDAR };
    let block_of = |length| Released { blocks: Some((length, Origin::Prompt)), ..SDAR };
    vec![
        ("Dream-v0-Base-7B", "dream-7b", same(), DREAM_7B),
        ("Dream-Coder-v0-Instruct-7B", "dream-7b", json!({ "bos_token_id": 151_665 }), DREAM_7B),
        ("DiffuCoder-7B-Instruct", "dream-7b", json!({ "pad_token_id": 151_667 }), DREAM_7B),
        ("LLaDA-8B-Base", "llada-8b", same(), LLADA_8B),
        ("LLaDA-1.5", "llada-8b", same(), LLADA_8B),
        ("iLLaDA-8B", "llada-8b", json!({ "mask_token_id": 5 }), Released { mask: 5, ..LLADA_8B }),
        ("LLaDA-MoE-7B-A1B-Instruct", "llada-moe", same(), LLADA_MOE),
        ("LLaDA2.0-mini", "llada2-mini", same(), LLADA2_MINI),
        // Older configs do not name the norms, which are there all the same.
        ("LLaDA2.0-mini-preview", "llada2-mini", json!({ "use_qk_norm": null }), LLADA2_MINI),
        ("LLaDA2.1-mini", "llada2-mini", same(), LLADA2_MINI),
        ("LLaDA2.0-flash", "llada2-flash", same(), LLADA2_FLASH),
        ("LLaDA2.1-flash", "llada2-flash", same(), LLADA2_FLASH),
        ("SDAR-1.7B-Chat", "sdar-1.7b", same(), SDAR),
        ("SDAR-1.7B-Chat-b8", "sdar-1.7b", block(8), block_of(8)),
        ("SDAR-1.7B-Chat-b16", "sdar-1.7b", block(16), block_of(16)),
        ("SDAR-1.7B-Chat-b32", "sdar-1.7b", block(32), block_of(32)),
        ("SDAR-1.7B-Chat-b64", "sdar-1.7b", block(64), block_of(64)),
        ("SDAR-4B-Chat", "sdar-4b", same(), sdar([36, 2560, 32, 8, 128, 9728])),
        ("SDAR-8B-Chat", "sdar-8b", same(), sdar([36, 4096, 32, 8, 128, 12288])),
        ("SDAR-30B-A3B-Chat", "sdar-30b-a3b", same(), SDAR_30B),
        ("Qwen3-0.6B-diffusion-mdlm-v0.1", "qwen3-0.6b", same(), QWEN3),
        ("Qwen3-0.6B-diffusion-bd3lm-v0.1", "qwen3-0.6b", same(), Released { blocks: bd3lm, ..QWEN3 }),
        // The mask stands in the tokenizer; without one it is the family's.
        (
            "Qwen2.5-Coder-0.5B-Instruct-diffusion-mdlm-v0.1",
            "qwen2.5-coder-0.5b",
            json!({ "mask_token_id": null }),
            QWEN2,
        ),
        (
            "Qwen2.5-Coder-0.5B-Instruct-diffusion-bd3lm-v0.1",
            "qwen2.5-coder-0.5b",
            same(),
            Released { blocks: bd3lm, ..QWEN2 },
        ),
        ("Fast_dLLM_v2_1.5B", "fast-dllm-v2-1.5b", same(), FAST_DLLM),
        (
            "Fast_dLLM_v2_7B",
            "fast-dllm-v2-7b",
            same(),
            Released { sizes: DREAM_7B.sizes, vocab: 152_064, tied: false, ..FAST_DLLM },
        ),
        ("RND1-Base-0910", "rnd1", same(), RND1),
    ]
}

fn agrees(name: &str, spec: &Spec, published: &Released) {
    let Spec { layers, hidden, heads, kv_heads, head_dim, ffn, .. } = *spec;
    assert_eq!(spec.architecture, published.family, "{name}");
    assert_eq!([layers, hidden, heads, kv_heads, head_dim, ffn], published.sizes, "{name}");
    assert_eq!(
        (spec.vocab, spec.rope_theta, spec.eps),
        (published.vocab, published.theta, published.eps),
        "{name}"
    );
    assert_eq!(spec.rotary, published.rotary, "{name}");
    let flags = (spec.qk_norm, spec.qkv_bias, spec.tied);
    assert_eq!(flags, (published.qk_norm, published.qkv_bias, published.tied), "{name}");
    let blocks = (spec.attention == Visibility::BlockCausal).then(|| (spec.block.unwrap(), spec.origin));
    assert_eq!((blocks, spec.shift), (published.blocks, published.shift), "{name}");
    let experts =
        spec.experts.as_ref().map(|e| [e.count, e.chosen, e.width, e.shared, e.groups, e.groups_chosen]);
    assert_eq!(experts, published.experts, "{name}");
    assert_eq!((spec.ids.mask, spec.ids.eos.as_slice()), (published.mask, published.ends), "{name}");
}

#[test]
fn every_released_model_is_what_its_authors_say() {
    for (name, shape, more, published) in released() {
        let mut config = shapes::find(shape).unwrap().config();
        for (field, value) in more.as_object().unwrap() {
            config[field] = value.clone();
        }
        let path = format!("models/{name}/config.json");
        let spec =
            Spec::from_json(&config.to_string(), Path::new(&path)).unwrap_or_else(|e| panic!("{name}: {e}"));
        agrees(name, &spec, &published);
        let id = |field: &str| config[field].as_u64().map(|id| id as u32);
        assert_eq!((spec.ids.pad, spec.ids.bos), (id("pad_token_id"), id("bos_token_id")), "{name}");
    }
}

#[test]
fn real_files_are_understood_to_the_last_field() {
    for (name, text, published) in
        [("Dream-v0-Instruct-7B", DREAM, DREAM_7B), ("LLaDA-8B-Instruct", LLADA, LLADA_8B)]
    {
        let (spec, notes) = Spec::from_json_with_notes(text, Path::new("config.json")).unwrap();
        agrees(name, &spec, &published);
        assert_eq!(notes, [""; 0], "{name}");
    }
}

/// What published configs and their classes write beside the fields that shape the numbers: inclusionAI's training configs
/// of LLaDA2, RND1's, SDAR's and LLaDA-MoE's classes, and Qwen2.5's and Qwen3's files, from which the others come.
#[test]
fn what_published_configs_carry_besides_is_neither_refused_nor_told() {
    let llada2 = json!({
        "norm_head": false, "norm_softmax": false, "use_rmsnorm": true, "use_cache": false, "embedding_dropout": 0.0,
        "output_dropout": 0.0, "attention_dropout": 0.0, "using_split_qkv_in_self_attention": false,
        "max_window_layers": 28, "use_sliding_window": false, "output_router_logits": false, "initializer_range": 0.02,
        "max_position_embeddings": 16384, "model_type": "llada2_moe_veomni", "transformers_version": "4.52.3"
    });
    let qwen = json!({
        "attention_dropout": 0.0, "initializer_range": 0.02, "max_window_layers": 28, "use_sliding_window": false,
        "sliding_window": 32768, "use_cache": true, "transformers_version": "4.51.0",
        "auto_map": { "AutoConfig": "configuration.Config" }
    });
    let rnd1 = json!({
        "is_causal": false, "moe_backend": "hf", "num_diffusion_steps": 256, "output_router_logits": false,
        "router_aux_loss_coef": 0.001, "max_window_layers": 48, "decoder_sparse_step": 1, "mlp_only_layers": [],
        "dtype": "bfloat16", "_attn_implementation": "sdpa"
    });
    let llada_moe = json!({
        "router_num_group": null, "router_topk_group": null, "output_router_logits": false,
        "router_aux_loss_coef": 0.01, "attention_dropout": 0.0, "initializer_range": 0.02, "use_cache": false
    });
    let layers = |count: usize| json!({ "layer_types": vec!["full_attention"; count] });
    for (shape, more) in [
        ("llada2-mini", llada2.clone()),
        ("llada2-flash", llada2),
        ("llada-moe", llada_moe),
        ("rnd1", rnd1),
        ("sdar-1.7b", json!({ "fuse_cross_entropy": true })),
        ("sdar-1.7b", qwen.clone()),
        ("sdar-30b-a3b", qwen.clone()),
        ("qwen3-0.6b-bd3lm", qwen.clone()),
        ("qwen3-0.6b-bd3lm", layers(28)),
        ("fast-dllm-v2-1.5b", qwen.clone()),
        ("fast-dllm-v2-7b", layers(28)),
        ("dream-7b", qwen),
    ] {
        let mut config = shapes::find(shape).unwrap().config();
        let before = Spec::from_json(&config.to_string(), Path::new("config.json")).unwrap();
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (spec, notes) = Spec::from_json_with_notes(&config.to_string(), Path::new("config.json"))
            .unwrap_or_else(|e| panic!("{shape}: {e}"));
        assert_eq!(notes, [""; 0], "{shape}");
        let max_positions = before.max_positions;
        assert_eq!(Spec { max_positions, ..spec }, before, "{shape}");
    }
}

/// The published configuration of RND1 writes `false` where others write null.
#[test]
fn false_is_no_rotary_scaling_and_no_window() {
    let config = shapes::find("rnd1").unwrap().config();
    for field in ["rope_scaling", "sliding_window", "use_sliding_window"] {
        assert_eq!(config[field], json!(false), "{field}");
    }
    assert!(Spec::from_json(&config.to_string(), Path::new("config.json")).is_ok());
}
