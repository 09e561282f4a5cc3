//! Fields of a `config.json` that change no number of a forward pass, so that what is left can be told as not understood.
//!
//! A field is understood if a family's file or a list of `refuse` looks at it, if it stands here, or if the family's facts
//! say that its published code does not read it.

/// What training, `generate`, the tokenizer or the library around a model reads.
const ASIDE: &[&str] = &[
    "architectures",
    "attention_dropout",
    "auto_map",
    "bad_words_ids",
    "base_model_name_or_path",
    "base_model_prefix",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "flash_attention",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "fuse_cross_entropy",
    "gradient_checkpointing",
    "id2label",
    "initializer_factor",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "min_length",
    "model_type",
    "moe_backend",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_diffusion_steps",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "precision",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "router_aux_loss_coef",
    "router_dtype",
    "router_z_loss_coef",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "use_bfloat16",
    "use_cache",
];

/// What the tensors decide: a bias or a norm that is wanted and absent, or there and not wanted, is refused with them.
const BY_TENSORS: &[&str] =
    &["attention_bias", "qk_layernorm", "qk_norm", "qkv_bias", "use_qk_norm", "use_qkv_bias"];

/// Widths of windows, which mean nothing where the flag beside them is judged and says no.
const WINDOWS: &[&str] = &["max_window_layers", "sliding_window"];

/// Whether a field changes no number. Names that begin with an underscore are the library's own notes.
pub(super) fn is_harmless(field: &str) -> bool {
    let listed = [ASIDE, BY_TENSORS, WINDOWS].iter().any(|list| list.contains(&field));
    let of_training = field.starts_with("init_") || field.contains("dropout");
    listed || of_training || field.starts_with('_')
}
