"""What a tiny checkpoint is: one variant makes one directory under tests/data/models/."""

from dataclasses import dataclass, field


@dataclass
class Variant:
    name: str
    model_type: str
    config: dict  # constructor arguments of the family's configuration class
    covers: list  # words, copied into expected.json
    prompt_tokens: int = 80  # more than 64: attention then spans two tiles
    dtype: str = "float32"  # of the stored tensors
    fp8: bool = False  # projections in the released FP8 form, the others as dtype says
    num_shards: int = 1
    packed: bool = False  # experts as `gate_up_proj` [E, 2I, H] and `down_proj` [E, H, I]
    legacy: bool = False  # config.json with the keys of transformers 4.x
    legacy_extra: dict = field(default_factory=dict)  # keys that only released files have
    extra_tensors: tuple = ()  # of "mtp_layer", "inv_freq", "tied_head"
    correction_bias: tuple = (0.0, 0.0)  # mean and spread of e_score_correction_bias
    eos_ids: tuple = (2, 5)  # written to generation_config.json


COMMON = {
    "num_hidden_layers": 3,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
}
