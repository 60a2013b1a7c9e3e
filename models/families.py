"""Our architectures that `transformers` has, too: its names of the weights and its config. Torch-free.

Nothing is imported from there: an exported model is plain JSON beside its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Family:
    """One architecture.

    Attributes:
        title: for people.
        architecture: the class in `transformers`.
        names: beginnings and parts of names, ours and theirs; each is replaced once, in this order.
        turned: part of the names of matrices that are transposed there; empty: none.
        tied: the name there of a matrix that is another one's; empty: none.
        embedding: our name of the matrix (V, D) of the tokens.
        describe: from all settings of our model to its config there.
    """

    title: str
    architecture: str
    names: Mapping[str, str]
    turned: str
    tied: str
    embedding: str
    describe: Callable[[Settings], dict[str, Any]]

    def config(self, settings: Settings) -> dict[str, Any]:
        """The content of config.json without token ids and number format.

        Args:
            settings: all that our model was built with.
        """
        return {"architectures": [self.architecture], **self.describe(settings)}

    def weights(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state_dict of our model under their names, as views where that is possible."""
        weights = {}
        for name, tensor in ours.items():
            is_turned = self.turned and self.turned in name and tensor.ndim > 1
            for our, their in self.names.items():
                name = name.replace(our, their, 1)
            weights[name] = tensor.T if is_turned else tensor
        return weights


def _llama(settings: Settings) -> dict[str, Any]:
    from htbench.models.llama import INITIAL_STD, NORM_EPS, ROPE_BASE

    return {
        "model_type": "llama",
        "vocab_size": settings["vocabulary"],
        "hidden_size": settings["hidden"],
        "intermediate_size": settings["intermediate"],
        "num_attention_heads": settings["heads"],
        "num_key_value_heads": settings["heads"],
        "head_dim": settings["hidden"] // settings["heads"],
        "num_hidden_layers": settings["layers"],
        "max_position_embeddings": settings["max_length"],
        "hidden_act": "silu",
        "rms_norm_eps": NORM_EPS,
        "rope_parameters": {"rope_type": "default", "rope_theta": ROPE_BASE},
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "initializer_range": INITIAL_STD,
        "tie_word_embeddings": False,
    }


def _gpt2(settings: Settings) -> dict[str, Any]:
    from htbench.models.gpt2 import INITIAL_STD, NORM_EPS

    dropout = settings["dropout"]
    return {
        "model_type": "gpt2",
        "vocab_size": settings["vocabulary"],
        "n_embd": settings["hidden"],
        "n_inner": settings["intermediate"],
        "n_head": settings["heads"],
        "n_layer": settings["layers"],
        "n_positions": settings["max_length"],
        "activation_function": "gelu_new",  # the approximation by tanh
        "layer_norm_epsilon": NORM_EPS,
        "resid_pdrop": dropout,
        "embd_pdrop": dropout,
        "attn_pdrop": dropout,
        "initializer_range": INITIAL_STD,
        "tie_word_embeddings": True,
    }


_LLAMA_NAMES = {"": "model.", "model.lm_head": "lm_head"}
_GPT2_NAMES = {
    "": "transformer.",
    "transformer.lm_head": "lm_head",
    ".blocks.": ".h.",
    ".norm1.": ".ln_1.",
    ".norm2.": ".ln_2.",
    ".norm.": ".ln_f.",
    ".attn.qkv.": ".attn.c_attn.",
    ".attn.proj.": ".attn.c_proj.",
    ".mlp.0.": ".mlp.c_fc.",
    ".mlp.2.": ".mlp.c_proj.",
}

# By the beginning of the names of our models.
FAMILIES = {
    "llama": Family(
        title="LLaMA",
        architecture="LlamaForCausalLM",
        names=_LLAMA_NAMES,
        turned="",
        tied="",
        embedding="embed_tokens.weight",
        describe=_llama,
    ),
    "gpt2": Family(
        title="GPT-2",
        architecture="GPT2LMHeadModel",
        names=_GPT2_NAMES,
        turned="blocks.",
        tied="lm_head.weight",
        embedding="wte.weight",
        describe=_gpt2,
    ),
}


def family(model: str) -> Family | None:
    """The family of our model of this name; None if `transformers` has no counterpart."""
    return next((row for name, row in FAMILIES.items() if model.startswith(name)), None)
