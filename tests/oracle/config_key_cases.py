"""For each key of a configuration class, the changed values to try on a base checkpoint.

A case is (key, patch): the patch is merged into config.json at the top level; a value of REMOVE deletes the key.
"""

REMOVE = object()

# A small theta spreads the correction range over the few dimensions of the tiny heads.
YARN = {"rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 64}

# Keys that shape nothing but transformers' own interface.
INTERFACE_KEYS = {
    "architectures": [["SomeOtherForCausalLM"], None],
    "attn_implementation": ["sdpa"],
    "chunk_size_feed_forward": [4],
    "dtype": ["bfloat16"],
    "id2label": [{"0": "a", "1": "b", "2": "c"}],
    "is_encoder_decoder": [True],
    "label2id": [{"a": 0, "b": 1, "c": 2}],
    "name_or_path": ["somewhere"],
    "num_labels": [5],
    "output_attentions": [True],
    "output_hidden_states": [True],
    "problem_type": ["regression", "nonsense"],
    "return_dict": [False],
    "torch_dtype": ["bfloat16"],
    "transformers_version": ["4.0.0"],
    "an_unknown_key": [1],
}

# Keys of generation; transformers reads these from generation_config.json when it is there.
GENERATION_KEYS = {
    "bos_token_id": [3, None],
    "eos_token_id": [7, [7, 9], None],
    "pad_token_id": [0, 3, 100000, -1],
    "do_sample": [True],
    "temperature": [0.5],
    "top_k": [3],
    "top_p": [0.5],
    "use_cache": [False],
}

# Keys that only older or other files have; the classes do not declare them.
UNDECLARED_KEYS = {
    "head_dim": [8, 10, None],
    "max_window_layers": [1],
    "model_type": ["nonsense"],
    "num_experts": [6],
    "num_local_experts": [6],
    "original_max_position_embeddings": [4096],
    "partial_rotary_factor": [0.5, 1.0],
    "per_layer_config": [{"0": {"num_experts_per_tok": 1}}],
    "quantization_config": [{"quant_method": "fp8", "weight_block_size": [128, 128]}],
    "rope_theta": [300.0],
    "sliding_window": [4],
    "text_config": [{"hidden_size": 8}],
    "scoring_func": ["softmax"],
    "topk_method": ["greedy"],
    "moe_layer_freq": [2],
    "tie_last_hidden_states": [False],
}

# Plain values: what the key may become, given its value in the base configuration.
PLAIN_VALUES = {
    "attention_bias": lambda v: [not v],
    "attention_dropout": lambda v: [0.5],
    "clip_qkv": lambda v: [0.3, None, 0.0],
    "decoder_sparse_step": lambda v: [2, 0],
    "first_k_dense_replace": lambda v: [0, 2, None],
    "head_dim": lambda v: [8, 10, None],
    "hidden_act": lambda v: ["gelu", "relu", "swish", "nonsense"],
    "hidden_size": lambda v: [v + 4, 0, -4],
    "initializer_range": lambda v: [0.5],
    "intermediate_size": lambda v: [v + 4],
    "kv_lora_rank": lambda v: [v + 4],
    "max_position_embeddings": lambda v: [8, 4096],
    "max_window_layers": lambda v: [0],
    "mlp_only_layers": lambda v: [[], [0, 1], [9], None],
    "moe_intermediate_size": lambda v: [v + 4],
    "n_group": lambda v: [2, 3, 5, None],
    "n_shared_experts": lambda v: [0, 2],
    "norm_topk_prob": lambda v: [not v],
    "num_attention_heads": lambda v: [2, 2 * v, 0],
    "num_experts_per_tok": lambda v: [1, v + 1, 1000, 0],
    "num_hidden_layers": lambda v: [v - 1, v + 1, 0],
    "num_key_value_heads": lambda v: [1, 3, None],
    "num_mtp_layers": lambda v: [0, 2],
    "output_router_logits": lambda v: [True],
    "pretraining_tp": lambda v: [2],
    "q_lora_rank": lambda v: [v + 4, None],
    "qk_nope_head_dim": lambda v: [v + 2],
    "qk_rope_head_dim": lambda v: [v + 2],
    "qkv_bias": lambda v: [not v],
    "rms_norm_eps": lambda v: [0.1, 0.0],
    "rope_interleave": lambda v: [not v, None],
    "routed_scaling_factor": lambda v: [0.5],
    "router_aux_loss_coef": lambda v: [0.5],
    "router_jitter_noise": lambda v: [0.5],
    "shared_expert_intermediate_size": lambda v: [v + 4],
    "sliding_window": lambda v: [4, None],
    "tie_word_embeddings": lambda v: [not v],
    "topk_group": lambda v: [1, 3, 9, None],
    "use_qk_norm": lambda v: [not v],
    "use_sliding_window": lambda v: [True],
    "v_head_dim": lambda v: [v + 2],
    "vocab_size": lambda v: [v + 8, v - 8],
}

EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")

# Rotary dictionaries; each is tried under rope_parameters and, with `type`, under rope_scaling.
ROPES = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 2.0},
    {"rope_type": "linear"},
    {"rope_type": "linear", "factor": 2.0, "mscale_all_dim": 1.0},
    {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "nonsense"},
    {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 2.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8,
    },
    {"rope_type": "proportional", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    {"rope_type": "yarn", **YARN},
    {"rope_type": "yarn", **YARN, "attention_factor": 1.5},
    {"rope_type": "yarn", **YARN, "beta_fast": 2.0, "beta_slow": 0.25},
    {"rope_type": "yarn", **YARN, "beta_fast": 0, "beta_slow": 0},
    {"rope_type": "yarn", **YARN, "mscale": 0.7},
    {"rope_type": "yarn", **YARN, "mscale_all_dim": 0.7},
    {"rope_type": "yarn", **YARN, "mscale": 0.7, "mscale_all_dim": 1.3},
    {"rope_type": "yarn", **YARN, "truncate": False},
    {"rope_type": "yarn", **YARN, "an_unknown_key": 1},
    {"rope_type": "yarn", "factor": 4.0},
    {"rope_type": "yarn", **YARN, "factor": None, "original_max_position_embeddings": 32},
    {"rope_type": "yarn", **YARN, "factor": 0.5},
    {"rope_type": "yarn", "original_max_position_embeddings": 64},
]


def older_form(rope):
    older = dict(rope)
    older["type"] = older.pop("rope_type")
    return older


def rope_cases(base):
    # rope_scaling, where it is not empty, replaces rope_parameters: it has to go to try the latter.
    gone = {"rope_scaling": REMOVE} if base.get("rope_scaling") else {}
    own_theta = {"rope_type": "default", "rope_theta": 300.0}
    yarn = {"rope_type": "yarn", **YARN}
    linear = older_form({"rope_type": "linear", "factor": 2.0})
    cases = [("rope_parameters", {"rope_parameters": rope, **gone}) for rope in ROPES]
    cases += [("rope_scaling", {"rope_scaling": older_form(rope)}) for rope in ROPES]
    cases += [
        ("rope_parameters", {"rope_parameters": own_theta, **gone}),
        ("rope_parameters", {"rope_parameters": own_theta, "rope_theta": REMOVE, **gone}),
        ("rope_parameters", {"rope_parameters": own_theta, "rope_scaling": linear}),
        ("rope_scaling", {"rope_scaling": {}}),
        ("rope_scaling", {"rope_scaling": None}),
        ("rope_theta", {"rope_theta": 300.0}),
        (
            "original_max_position_embeddings",
            {"rope_scaling": older_form(yarn), "original_max_position_embeddings": 1024},
        ),
    ]
    if base["model_type"] == "mixtral":  # yarn reads head_dim there and fails on null
        head_dim = {"head_dim": base["hidden_size"] // base["num_attention_heads"]}
        yarns = [rope for rope in ROPES if rope["rope_type"] == "yarn"]
        cases += [("rope_parameters", {"rope_parameters": rope, **head_dim}) for rope in yarns]
    return cases


def sliding_cases(base):
    """Combinations in which a window could be active."""
    on = {"use_sliding_window": True, "sliding_window": 4}
    num_layers = base["num_hidden_layers"]
    return [
        ("layer_types", {"layer_types": ["full_attention"] * num_layers}),
        ("layer_types", {"layer_types": ["sliding_attention"] * num_layers}),
        ("layer_types", {"layer_types": ["full_attention"] * (num_layers - 1)}),
        ("layer_types", {"layer_types": ["nonsense"] * num_layers}),
        ("sliding_window", on),
        ("sliding_window", {**on, "sliding_window": 64}),
        ("sliding_window", {**on, "max_window_layers": 1}),
        ("sliding_window", {**on, "max_window_layers": 0}),
        ("sliding_window", {**on, "layer_types": ["full_attention"] * num_layers}),
    ]


def removal_cases(base):
    """Each key left out: the class's default applies."""
    return [(key, {key: REMOVE}) for key in base if key != "model_type"]


def cases(base, declared_keys):
    """All (key, patch) of a family. Raises if a declared key has no case."""
    values = {**UNDECLARED_KEYS, **INTERFACE_KEYS, **GENERATION_KEYS}
    for key in declared_keys:
        if key in PLAIN_VALUES:
            values[key] = PLAIN_VALUES[key](base.get(key))
        elif key in EXPERT_COUNTS:
            values[key] = [base[key] - 1, base[key] + 1, 0]
        elif key not in ("rope_parameters", "layer_types") and key not in values:
            raise RuntimeError(f"no changed value is known for the key {key}")
    plain = [(key, {key: value}) for key, options in values.items() for value in options]
    plain = [(key, patch) for key, patch in plain if base.get(key, REMOVE) != patch[key]]
    return plain + rope_cases(base) + sliding_cases(base) + removal_cases(base)
