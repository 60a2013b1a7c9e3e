"""What a weight is, by its name: kind and block.

Known are the names of our models and those of Hugging Face, torchvision and timm.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

KINDS: Final = ("q", "k", "v", "qkv", "o", "gate", "up", "down", "conv", "head", "embed", "other")

# Of wrappers: DistributedDataParallel, torch.compile, FSDP, activation checkpointing.
_WRAPPERS = re.compile(r"(?<![^.])(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")

# The last part of a module's name -> kind.
_LEAVES: Final = {
    "q": "q_proj query q wq to_q q_lin",
    "k": "k_proj key k wk to_k k_lin",
    "v": "v_proj value v wv to_v v_lin",
    "qkv": "qkv qkv_proj c_attn query_key_value in_proj in_proj_weight Wqkv",
    "o": "o_proj out_proj o wo to_out out_lin o_lin",
    "gate": "gate_proj w1 wi_0",
    "up": "up_proj w3 wi_1 wi c_fc fc1 fc_in lin1 dense_h_to_4h linear1 linear_1 w_in",
    "down": "down_proj w2 c_proj fc2 fc_out lin2 dense_4h_to_h linear2 linear_2 w_out",
    "head": "lm_head embed_out fc classifier score head heads output_projection",
    "embed": (
        "embed_tokens tok_embeddings wte wpe embed_in embed_positions word_embeddings embeddings embedding "
        "pos_embed positions shared cls_token class_token dist_token mask_token distillation_token "
        "register_tokens relative_attention_bias"
    ),
}
_KIND_OF = {leaf: kind for kind, leaves in _LEAVES.items() for leaf in leaves.split()}

_ATTENTION = re.compile(r"(^|[._])(\w*attn\w*|\w*attention\w*)\.", re.IGNORECASE)
_STAGED = re.compile(r"(?:^|\.)(?:stages?\.|layer(?=\d+\.\d))(\d+)\.(?:layers\.|blocks\.)?(\d+)\.")
_PLAIN = re.compile(r"(?:^|[._])(?:layers?|blocks?|h|resblocks)[._](\d+)\.")

_TABLE_RATIO = 8  # a matrix outside of all blocks that is so much longer than wide is a table of words


def strip_wrappers(name: str) -> str:
    """The name without what wrappers of the model have put before it."""
    name = _WRAPPERS.sub("", name)
    while name.startswith("module."):
        name = name.removeprefix("module.")
    return name


def classify(name: str, shape: tuple[int, ...]) -> str:
    """One of `KINDS`; "qkv" is one matrix that makes queries, keys and values.

    What no list knows is "embed" where its shape is that of a table of words, and "other" else.
    """
    parts = name.split(".")
    leaf = parts[-2] if parts[-1] in ("weight", "kernel") and len(parts) > 1 else parts[-1]
    if _KIND_OF.get(leaf) == "embed" or leaf.endswith(("_embeddings", "_embedding", "_table")):
        return "embed"
    if len(shape) > 2 and "experts" not in parts:
        return "conv"
    parent = parts[-3] if len(parts) > 2 else ""
    inside = _PLAIN.search(name) or _STAGED.search(name)
    if _ATTENTION.search(name) and leaf in ("proj", "c_proj", "dense", "to_out", "0"):
        return "o"
    if leaf == "wo" and not _ATTENTION.search(name):  # T5: DenseReluDense.wo
        return "down"
    if leaf in ("dense", "proj") and inside:  # BERT and ViT: intermediate.dense, output.dense
        return {"intermediate": "up", "output": "down"}.get(parent, "other")
    if leaf.isdigit():  # of a layer in a Sequential: two make an MLP, and one alone a classifier
        if parent == "mlp":
            return "up" if leaf == "0" else "down"
        return "head" if parent in ("classifier", "head", "heads", "fc") else "other"
    kind = _KIND_OF.get(leaf, "other")
    if kind == "head" and inside:
        return "other"
    if kind == "other" and not inside and len(shape) == 2 and max(shape) >= _TABLE_RATIO * min(shape):
        return "embed"
    return kind


def order_names(shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Names from the input of a model to its output, where a file has them by the alphabet."""
    number = number_blocks(shapes)

    def place(name: str) -> tuple[object, ...]:
        kind = classify(name, shapes[name])
        block = number[name]
        part = 1 if block is not None else 0 if kind in ("embed", "conv") else 2
        parts = tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))
        return part, -1 if block is None else block, KINDS.index(kind), parts

    return sorted(shapes, key=place)


def number_blocks(names: Iterable[str]) -> dict[str, int | None]:
    """The number of the block of each name, from 0; None outside of blocks.

    Where blocks stand in stages (ResNet), they are counted through.
    """
    names = list(names)
    matches = {name: _STAGED.search(name) or _PLAIN.search(name) for name in names}
    places = {name: tuple(map(int, match.groups())) for name, match in matches.items() if match}
    staged: list[tuple[int, ...]] = sorted({place for place in places.values() if len(place) == 2})
    numbers: dict[str, int | None] = dict.fromkeys(names)
    for name, place in places.items():
        numbers[name] = place[0] if len(place) == 1 else staged.index(place)
    return numbers
