//! Configs of released models: which family runs them, what they come to, and which fields are refused by name.

use std::path::Path;

use demask_model::config::{Experts, FeedForward, Origin, Shift, Spec, Visibility};
use demask_model::{arch, shapes};
use serde_json::{Value, json};

fn parse(config: &Value) -> Result<Spec, String> {
    Spec::from_json(&config.to_string(), Path::new("x/config.json")).map_err(|e| e.to_string())
}

fn spec(name: &str) -> Spec {
    parse(&shapes::find(name).unwrap().config()).unwrap()
}

fn billions(count: usize) -> f64 {
    (count as f64 / 1e7).round() / 100.0
}

#[test]
fn every_shape_is_a_model_and_every_tensor_is_named_once() {
    for shape in shapes::ALL {
        let spec = spec(shape.name);
        let mut names: Vec<String> =
            arch::tensors(&spec).unwrap().into_iter().map(|(name, _)| name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{}", shape.name);
        assert!(spec.active_parameters() <= spec.parameters(), "{}", shape.name);
    }
}

#[test]
fn published_sizes() {
    let tensors = |spec: &Spec| arch::tensors(spec).unwrap().len();
    for (name, total, active, count) in [
        ("dream-7b", 7.62, 7.62, 339),
        ("llada-8b", 8.02, 8.02, 291),
        ("llada-moe", 7.36, 1.72, 16 * (3 * 64 + 9) + 3),
        ("llada2-mini", 16.26, 1.43, 14_813),
        ("llada2-flash", 102.9, 6.15, 24_161),
        ("sdar-1.7b", 2.03, 2.03, 28 * 11 + 3),
        ("sdar-30b-a3b", 30.53, 3.35, 48 * (3 * 128 + 9) + 3),
        ("qwen3-0.6b", 0.6, 0.6, 28 * 11 + 2),
        ("rnd1", 30.53, 3.35, 48 * (3 * 128 + 9) + 3),
    ] {
        let spec = spec(name);
        let near = |a: f64, b: f64| (a - b).abs() <= 0.011 + b / 1000.0;
        assert!(near(billions(spec.parameters()), total), "{name}: {}", billions(spec.parameters()));
        assert!(
            near(billions(spec.active_parameters()), active),
            "{name}: {}",
            billions(spec.active_parameters())
        );
        assert_eq!(tensors(&spec), count, "{name}");
    }
}

#[test]
fn llada2_is_what_its_config_says() {
    let spec = spec("llada2-mini");
    assert_eq!(
        (spec.architecture, spec.attention, spec.origin),
        ("llada2", Visibility::BlockCausal, Origin::Prompt)
    );
    assert_eq!((spec.block, spec.rotary, spec.head_dim, spec.fused_qkv), (Some(32), 64, 128, true));
    assert_eq!(
        (spec.ids.mask, spec.ids.eos.as_slice()),
        (156_895, &[156_892][..]),
        "no id stands in the config"
    );
    let FeedForward::Experts(Experts { count, chosen, groups, groups_chosen, shared, .. }) =
        spec.feed_forward(1)
    else {
        panic!("layer 1 is dense")
    };
    assert_eq!((*count, *chosen, *groups, *groups_chosen, *shared), (256, 8, 8, 4, 512));
    assert_eq!(spec.feed_forward(0), FeedForward::Dense(5120));
    let names: Vec<String> = arch::tensors(&spec).unwrap().into_iter().map(|(name, _)| name).collect();
    for name in [
        "model.word_embeddings.weight",
        "model.layers.7.attention.query_key_value.weight",
        "model.layers.7.mlp.gate.expert_bias",
        "model.layers.19.mlp.experts.255.down_proj.weight",
        "model.layers.1.mlp.shared_experts.up_proj.weight",
        "model.layers.0.mlp.gate_proj.weight",
    ] {
        assert!(names.iter().any(|n| n == name), "{name}");
    }
}

#[test]
fn families_by_architecture_first() {
    let of = |name: &str| (spec(name).architecture, spec(name).attention, spec(name).shift);
    let (full, blocks) = (Visibility::Full, Visibility::BlockCausal);
    assert_eq!(of("llada-moe"), ("llada-moe", full, Shift::None));
    assert_eq!(of("llada-8b"), ("llada", full, Shift::None));
    assert_eq!(of("sdar-4b"), ("sdar", blocks, Shift::None));
    assert_eq!(of("sdar-30b-a3b"), ("sdar-moe", blocks, Shift::None));
    assert_eq!(of("qwen3-0.6b"), ("a2d-qwen3", full, Shift::None));
    assert_eq!(of("qwen3-0.6b-bd3lm"), ("a2d-qwen3", blocks, Shift::None));
    assert_eq!(spec("qwen3-0.6b-bd3lm").origin, Origin::Response);
    assert_eq!(of("rnd1"), ("rnd1", full, Shift::Global));
    assert_eq!(of("fast-dllm-v2-7b"), ("fast-dllm-v2", blocks, Shift::Block));
    // An unknown class falls back on the model type.
    let mut config = shapes::find("dream-7b").unwrap().config();
    config["architectures"] = json!(["DreamForSomething"]);
    assert_eq!(parse(&config).unwrap().architecture, "dream");
    // A block-diffusion model that only its name tells apart.
    let text = shapes::find("qwen3-0.6b").unwrap().config().to_string();
    let named =
        Spec::from_json(&text, Path::new("models--dllm-hub--Qwen3-0.6B-diffusion-bd3lm-v0.1/config.json"));
    assert_eq!(named.unwrap().block, Some(32));
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let everywhere = [
        ("rope_scaling", json!({"type": "yarn", "factor": 4.0})),
        ("rope_scaling", json!({"rope_type": "linear", "factor": 2.0})),
        ("rope_parameters", json!({"rope_type": "default", "rope_theta": 123.0})),
        ("hidden_act", json!("gelu")),
        ("use_sliding_window", json!(true)),
        ("layer_types", json!(["full_attention", "sliding_attention"])),
        ("quantization_config", json!({"quant_method": "gptq", "bits": 4})),
        ("mlp_bias", json!(true)),
        ("final_logit_softcapping", json!(30.0)),
        ("logit_scale", json!(0.0625)),
        ("clip_qkv", json!(8.0)),
        ("delete_token_id", json!(156_930)),
        ("use_mrope", json!(true)),
        ("rope_local_base_freq", json!(10_000.0)),
        ("attn_logit_softcap", json!(50.0)),
        ("attention_scale", json!(0.1)),
        ("scale_emb", json!(12)),
        ("scale_depth", json!(1.4)),
        ("no_rope_layer_interval", json!(4)),
        ("norm_type", json!("layernorm")),
        ("mlp_act", json!("gelu")),
        ("parallel_attn", json!(true)),
        ("use_bias", json!(true)),
        ("scoring_func", json!("tanh")),
        ("topk_method", json!("group_limited_greedy")),
        ("moe_shared_expert_intermediate_size", json!(7)),
        ("use_linear_attention", json!(true)),
    ];
    for shape in shapes::ALL {
        for (field, value) in &everywhere {
            let mut config = shape.config();
            config[field] = value.clone();
            let refused = parse(&config).expect_err(&format!("{}: {field}", shape.name));
            assert!(refused.contains(&format!("`{field}`")), "{}: {refused}", shape.name);
        }
    }
    let own = [
        ("dream-7b", "partial_rotary_factor", json!(0.5)),
        ("llada-8b", "partial_rotary_factor", json!(0.5)),
        ("llada-8b", "sliding_window", json!(4096)),
        ("dream-7b", "activation_function", json!("gelu_new")),
        ("sdar-30b-a3b", "partial_rotary_factor", json!(0.5)),
        ("sdar-30b-a3b", "shared_expert_intermediate_size", json!(512)),
        ("rnd1", "n_group", json!(8)),
        ("rnd1", "routed_scaling_factor", json!(2.5)),
        ("llada-moe", "num_shared_experts", json!(1)),
        ("llada-moe", "moe_layer_freq", json!(2)),
        ("dream-7b", "num_experts", json!(8)),
        ("llada-8b", "include_bias", json!(true)),
        ("llada-8b", "rope", json!(false)),
        ("llada-8b", "block_group_size", json!(4)),
        ("llada-8b", "activation_type", json!("swiglu")),
        ("llada-8b", "layer_norm_with_affine", json!(false)),
        ("llada-moe", "moe_router_enable_expert_bias", json!(true)),
        ("llada-moe", "shared_expert_intermediate_size", json!(1024)),
        ("llada-moe", "moe_router_score_function", json!("sigmoid")),
        ("llada-moe", "topk_group", json!(4)),
        ("llada-moe", "router_num_group", json!(8)),
        ("llada-moe", "first_k_dense_replace", json!(1)),
        ("rnd1", "moe_layer_freq", json!(2)),
        ("sdar-30b-a3b", "moe_router_enable_expert_bias", json!(true)),
        ("sdar-30b-a3b", "first_k_dense_replace", json!(1)),
        ("llada2-mini", "use_bias", json!(true)),
        ("llada2-mini", "rotary_dim", json!(128)),
        ("llada2-mini", "using_split_qkv_in_self_attention", json!(true)),
        ("llada2-mini", "n_group", json!(7)),
        ("llada2-mini", "num_experts_per_tok", json!(129)),
        ("sdar-1.7b", "attention_bias", json!(true)),
    ];
    for (shape, field, value) in own {
        let mut config = shapes::find(shape).unwrap().config();
        config[field] = value;
        let refused = parse(&config).expect_err(&format!("{shape}: {field}"));
        let named = refused.contains(&format!("`{field}`"))
            || refused.contains("experts")
            || refused.contains("group");
        assert!(named && refused.contains("config.json"), "{shape}: {refused}");
    }
    let mut window = shapes::find("sdar-1.7b").unwrap().config();
    window["sliding_window"] = json!(4096);
    assert!(parse(&window).is_ok(), "the flag beside it says that it is not used");
    window.as_object_mut().unwrap().remove("use_sliding_window");
    assert!(parse(&window).unwrap_err().contains("`sliding_window`"));
    let mut ours = shapes::find("dream-7b").unwrap().config();
    ours["quantization_config"] = json!({"quant_method": "demask-int8", "bits": 8});
    assert!(parse(&ours).is_ok());
    let mut plain = shapes::find("dream-7b").unwrap().config();
    plain["rope_scaling"] = json!({"rope_type": "default"});
    assert!(parse(&plain).is_ok());
}

#[test]
fn values_that_mean_nothing_are_taken() {
    for shape in shapes::ALL {
        let mut config = shape.config();
        for (field, value) in [
            ("rope_scaling", json!(false)),
            ("sliding_window", json!(false)),
            ("final_logit_softcapping", json!(null)),
            ("scale_emb", json!(1)),
            ("parallel_attn", json!(false)),
            ("norm_type", json!("rmsnorm")),
            ("n_shared_experts", json!(0)),
        ] {
            config[field] = value;
        }
        config.as_object_mut().unwrap().remove("use_sliding_window");
        assert_eq!(parse(&config), parse(&shape.config()), "{}", shape.name);
    }
    // Later versions of transformers write the base elsewhere.
    let mut config = shapes::find("rnd1").unwrap().config();
    config.as_object_mut().unwrap().remove("rope_theta");
    config["rope_parameters"] = json!({"rope_type": "default", "rope_theta": 1_000_000.0});
    assert_eq!(parse(&config).unwrap(), spec("rnd1"));
}

#[test]
fn what_changes_the_numbers_must_be_there() {
    const PLAIN: &[&str] = &["rope_theta", "rms_norm_eps"];
    const EXPERTS: &[&str] = &["rope_theta", "rms_norm_eps", "norm_topk_prob"];
    const LLADA: &[&str] =
        &["rope_theta", "rms_norm_eps", "block_type", "layer_norm_type", "activation_type", "rope"];
    const LLADA2: &[&str] = &[
        "rope_theta",
        "rms_norm_eps",
        "partial_rotary_factor",
        "routed_scaling_factor",
        "n_group",
        "topk_group",
    ];
    for shape in shapes::ALL {
        let needed = match spec(shape.name).architecture {
            "llada" => LLADA,
            "llada2" => LLADA2,
            "sdar-moe" | "rnd1" => EXPERTS,
            _ => PLAIN,
        };
        for field in needed {
            let mut config = shape.config();
            config[*field] = Value::Null;
            let null = parse(&config).expect_err(&format!("{}: {field}", shape.name));
            config.as_object_mut().unwrap().remove(*field);
            let absent = parse(&config).unwrap_err();
            let named = |error: &str| error.contains(&format!("`{field}`")) && error.contains("is missing");
            assert!(named(&null) && named(&absent), "{}: {null} / {absent}", shape.name);
        }
    }
}

/// A name that no list has may still say what it is for.
#[test]
fn a_telling_name_is_refused_though_nobody_knows_it() {
    for shape in shapes::ALL {
        for (field, value, nothing) in [
            ("rope_ratio", json!(2.0), json!(1.0)),
            ("rotary_emb_base", json!(5e5), json!(null)),
            ("attention_window_size", json!(128), json!(-1)),
            ("use_swa_window", json!(true), json!(false)),
            ("attn_softcap", json!(30.0), json!(0)),
            ("residual_scale", json!(0.5), json!(1)),
            ("embed_multiplier", json!(12), json!(1.0)),
            ("local_rope", json!({"theta": 1e4}), json!({})),
            ("rope_kind", json!("yarn"), json!("default")),
        ] {
            let mut config = shape.config();
            config[field] = nothing;
            assert_eq!(parse(&config), parse(&shape.config()), "{}: {field}", shape.name);
            config[field] = value;
            let refused = parse(&config).expect_err(&format!("{}: {field}", shape.name));
            assert!(refused.contains(&format!("`{field}`")), "{}: {refused}", shape.name);
        }
    }
}

/// The class of LLaDA2 has a bias where nobody says otherwise; a checkpoint without the tensors cannot mean it, and one with
/// them is refused for them.
#[test]
fn llada2_need_not_say_that_it_has_no_bias() {
    let mut config = shapes::find("llada2-mini").unwrap().config();
    config.as_object_mut().unwrap().remove("use_bias");
    assert_eq!(parse(&config).unwrap(), spec("llada2-mini"));
}

fn notes(config: &Value, path: &str) -> Vec<String> {
    Spec::from_json_with_notes(&config.to_string(), Path::new(path)).unwrap().1
}

#[test]
fn what_nobody_knows_is_told_in_one_line() {
    for shape in shapes::ALL {
        let mut config = shape.config();
        let before = notes(&config, "x/config.json");
        // Which attention was assumed is told of models whose config leaves it open.
        let open = shape.name.starts_with("qw") && config["block_size"].is_null();
        assert_eq!(before.len(), usize::from(open), "{}: {before:?}", shape.name);
        config["warp_factor"] = json!(9);
        config["aether"] = json!({ "depth": 3 });
        config["said_nothing"] = Value::Null;
        let after = notes(&config, "x/config.json");
        assert_eq!(after.len(), before.len() + 1, "{}: {after:?}", shape.name);
        assert!(after.last().unwrap().ends_with(": aether, warp_factor"), "{after:?}");
    }
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    for name in ["dream-toy", "llada-toy", "llada2-toy", "lladamoe-toy", "sdar-toy", "bert-toy", "albert-toy"]
    {
        let (_, notes) = Spec::from_folder_with_notes(&fixtures.join(name)).unwrap();
        assert_eq!(notes, [""; 0], "{name}");
    }
}

#[test]
fn attention_that_only_a_name_tells_is_told() {
    let config = shapes::find("qwen3-0.6b").unwrap().config();
    let full = notes(&config, "Qwen3-0.6B-diffusion-mdlm-v0.1/config.json");
    assert!(full.len() == 1 && full[0].contains("full attention was assumed"), "{full:?}");
    let blocks = notes(&config, "Qwen3-0.6B-diffusion-bd3lm-v0.1/config.json");
    assert!(blocks.len() == 1 && blocks[0].contains("blocks of 32 was assumed"), "{blocks:?}");
    let said = notes(&shapes::find("qwen3-0.6b-bd3lm").unwrap().config(), "x/config.json");
    assert_eq!(said, [""; 0]);
}
