//! The configs of released models, as far as they shape the numbers: for made-up checkpoints, benchmarks and tests.

use serde_json::{Map, Value, json};

/// A released model: its name here, one line about it, its config.
#[derive(Debug)]
pub struct Shape {
    /// Short name.
    pub name: &'static str,
    /// One line of meaning.
    pub summary: &'static str,
    config: fn() -> Value,
}

impl Shape {
    /// Its `config.json`.
    pub fn config(&self) -> Value {
        (self.config)()
    }
}

/// Every shape, the default first.
pub const ALL: &[Shape] = &[
    Shape { name: "dream-7b", summary: "Dream-v0-7B: hidden 3584, 28 layers", config: dream_7b },
    Shape { name: "llada-8b", summary: "LLaDA-8B: hidden 4096, 32 layers", config: llada_8b },
    Shape { name: "llada-moe", summary: "LLaDA-MoE-7B-A1B: 64 experts, 8 chosen", config: llada_moe },
    Shape {
        name: "llada2-mini",
        summary: "LLaDA2.0-mini (16B-A1B): 256 experts, 8 chosen",
        config: llada2_mini,
    },
    Shape { name: "llada2-flash", summary: "LLaDA2.0-flash (100B-A6B)", config: llada2_flash },
    Shape {
        name: "sdar-1.7b",
        summary: "SDAR-1.7B: hidden 2048, 28 layers",
        config: || sdar(2048, 28, 16, 6144),
    },
    Shape {
        name: "sdar-4b",
        summary: "SDAR-4B: hidden 2560, 36 layers",
        config: || sdar(2560, 36, 32, 9728),
    },
    Shape {
        name: "sdar-8b",
        summary: "SDAR-8B: hidden 4096, 36 layers",
        config: || sdar(4096, 36, 32, 12288),
    },
    Shape { name: "sdar-30b-a3b", summary: "SDAR-30B-A3B: 128 experts, 8 chosen", config: sdar_30b },
    Shape { name: "qwen3-0.6b", summary: "Qwen3-0.6B-diffusion-mdlm: full attention", config: qwen3 },
    Shape {
        name: "qwen3-0.6b-bd3lm",
        summary: "Qwen3-0.6B-diffusion-bd3lm: blocks of 32",
        config: qwen3_blocks,
    },
    Shape {
        name: "qwen2.5-coder-0.5b",
        summary: "Qwen2.5-Coder-0.5B-Instruct-diffusion-mdlm",
        config: qwen2,
    },
    Shape {
        name: "fast-dllm-v2-1.5b",
        summary: "Fast-dLLM v2 1.5B",
        config: || fast_dllm(1536, 28, 12, 8960, true),
    },
    Shape {
        name: "fast-dllm-v2-7b",
        summary: "Fast-dLLM v2 7B",
        config: || fast_dllm(3584, 28, 28, 18944, false),
    },
    Shape { name: "rnd1", summary: "RND1-Base-0910 (30B-A3B): 128 experts, 8 chosen", config: rnd1 },
];

/// Looks a shape up.
pub fn find(name: &str) -> Option<&'static Shape> {
    ALL.iter().find(|shape| shape.name == name)
}

/// The config with this many layers in place of its own.
pub fn with_layers(mut config: Value, layers: usize) -> Value {
    let key = if config.get("n_layers").is_some() { "n_layers" } else { "num_hidden_layers" };
    config[key] = layers.into();
    config
}

fn with(mut base: Value, more: Value) -> Value {
    if let (Value::Object(base), Value::Object(more)) = (&mut base, more) {
        base.extend::<Map<String, Value>>(more);
    }
    base
}

fn dream_7b() -> Value {
    json!({
        "architectures": ["DreamModel"], "model_type": "Dream", "torch_dtype": "bfloat16",
        "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": false, "hidden_act": "silu",
        "mask_token_id": 151666, "pad_token_id": 151643, "bos_token_id": 151643, "eos_token_id": 151643
    })
}

fn llada_8b() -> Value {
    json!({
        "architectures": ["LLaDAModelLM"], "model_type": "llada", "block_type": "llama", "activation_type": "silu",
        "layer_norm_type": "rms", "vocab_size": 126464, "embedding_size": 126464, "d_model": 4096,
        "mlp_hidden_size": 12288, "n_layers": 32, "n_heads": 32, "n_kv_heads": 32, "max_sequence_length": 4096,
        "rms_norm_eps": 1e-5, "rope": true, "rope_theta": 5e5, "weight_tying": false, "include_bias": false,
        "include_qkv_bias": false, "mask_token_id": 126336, "pad_token_id": 126081, "eos_token_id": 126081
    })
}

fn llada_moe() -> Value {
    json!({
        "architectures": ["LLaDAMoEModelLM"], "model_type": "llada", "torch_dtype": "bfloat16", "vocab_size": 157184,
        "hidden_size": 2048, "dense_intermediate_size": 8192, "expert_intermediate_size": 1024,
        "shared_expert_intermediate_size": null, "num_hidden_layers": 16, "num_attention_heads": 16,
        "num_key_value_heads": 16, "hidden_act": "silu", "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
        "rope_theta": 50000.0, "partial_rotary_factor": 1.0, "rope_scaling": null, "attention_bias": false,
        "clip_qkv": null, "num_experts": 64, "num_experts_per_tok": 8, "norm_topk_prob": null, "qk_layernorm": true,
        "moe_layer_freq": vec![1; 16], "moe_router_enable_expert_bias": false,
        "moe_router_score_function": "softmax", "routed_scaling_factor": 1, "tie_word_embeddings": false,
        "pad_token_id": 156892, "eos_token_id": 156892, "mask_token_id": 156895
    })
}

fn llada2_mini() -> Value {
    json!({
        "architectures": ["LLaDA2MoeModelLM"], "model_type": "llada2_moe", "torch_dtype": "bfloat16",
        "vocab_size": 157184, "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 20,
        "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "hidden_act": "silu",
        "use_qkv_bias": false, "use_qk_norm": true, "use_bias": false, "rms_norm_eps": 1e-6,
        "tie_word_embeddings": false, "max_position_embeddings": 32768, "rope_theta": 600000.0, "rope_scaling": null,
        "partial_rotary_factor": 0.5, "rotary_dim": 64, "pad_token_id": 156892, "num_experts": 256,
        "num_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4,
        "routed_scaling_factor": 2.5, "moe_intermediate_size": 512, "first_k_dense_replace": 1,
        "norm_topk_prob": true, "score_function": "sigmoid", "moe_router_enable_expert_bias": true,
        "router_dtype": "fp32"
    })
}

fn llada2_flash() -> Value {
    with(
        llada2_mini(),
        json!({
            "hidden_size": 4096, "intermediate_size": 9216, "num_hidden_layers": 32, "num_attention_heads": 32,
            "moe_intermediate_size": 1024
        }),
    )
}

fn qwen(architecture: &str, model_type: &str) -> Value {
    json!({
        "architectures": [architecture], "model_type": model_type, "torch_dtype": "bfloat16", "vocab_size": 151936,
        "num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu", "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "rope_scaling": null, "attention_bias": false,
        "tie_word_embeddings": false, "use_sliding_window": false, "sliding_window": null,
        "bos_token_id": 151643, "eos_token_id": 151645, "pad_token_id": 151643, "mask_token_id": 151669
    })
}

fn sdar(hidden: usize, layers: usize, heads: usize, ffn: usize) -> Value {
    with(
        qwen("SDARForCausalLM", "sdar"),
        json!({
            "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": ffn,
            "block_size": 4
        }),
    )
}

fn sdar_30b() -> Value {
    with(
        sdar(2048, 48, 32, 6144),
        json!({
            "architectures": ["SDARMoeForCausalLM"], "model_type": "sdar_moe", "num_key_value_heads": 4,
            "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": true,
            "decoder_sparse_step": 1, "mlp_only_layers": []
        }),
    )
}

fn qwen3() -> Value {
    with(
        qwen("A2DQwen3LMHeadModel", "a2d-qwen3"),
        json!({
            "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "intermediate_size": 3072,
            "tie_word_embeddings": true, "max_position_embeddings": 40960
        }),
    )
}

fn qwen3_blocks() -> Value {
    with(qwen3(), json!({ "block_size": 32 }))
}

fn qwen2() -> Value {
    with(
        qwen("A2DQwen2LMHeadModel", "a2d-qwen2"),
        json!({
            "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
            "head_dim": 64, "intermediate_size": 4864, "tie_word_embeddings": true, "mask_token_id": 151665
        }),
    )
}

fn fast_dllm(hidden: usize, layers: usize, heads: usize, ffn: usize, tied: bool) -> Value {
    with(
        qwen("Fast_dLLM_QwenForCausalLM", "Fast_dLLM_Qwen"),
        json!({
            "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": ffn,
            "num_key_value_heads": if heads == 12 { 2 } else { 4 }, "vocab_size": if heads == 12 { 151936 } else { 152064 },
            "tie_word_embeddings": tied, "bd_size": 32, "mask_token_id": 151665
        }),
    )
}

fn rnd1() -> Value {
    with(
        sdar_30b(),
        json!({
            "architectures": ["RND1LM"], "model_type": "rnd1", "max_position_embeddings": 40960, "block_size": null,
            // As its class writes them.
            "rope_scaling": false, "sliding_window": false, "use_sliding_window": false
        }),
    )
}
