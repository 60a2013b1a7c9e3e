"""The model of `transformers` that does the same as one of ours, with the same weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.system.environment import require
from models.families import Family, family

if TYPE_CHECKING:
    from torch import nn

# GPT-2 would otherwise name tokens that a small vocabulary does not have.
_FOR_TRAINING = {
    "use_cache": False,
    "attn_implementation": "sdpa",
    "bos_token_id": None,
    "eos_token_id": None,
    "loss_type": "ForCausalLM",
}


def check(name: str) -> Family:
    """The family of a model; raises UsageError if it has no counterpart, or `transformers` is missing."""
    known = family(name)
    if known is None:
        raise UsageError(f"'{name}' has no counterpart in transformers; name a llama or a gpt2.")
    require("peers", "transformers")
    return known


def twin(name: str, ours: nn.Module, settings: Mapping[str, Any]) -> Any:
    """The counterpart with a copy of our weights, on their device and in their precision.

    Args:
        name: of our model.
        ours: its module.
        settings: all it was built with.

    Raises:
        UsageError: see `check`.
    """
    first = next(ours.parameters())
    theirs = counterpart(name, settings).to(first.device, first.dtype)
    theirs.load_state_dict(check(name).weights(ours.state_dict()))
    return theirs


def counterpart(name: str, settings: Mapping[str, Any]) -> Any:
    """A `LlamaForCausalLM` or `GPT2LMHeadModel` with weights of its own, in training mode.

    Arguments and errors are those of `twin`.
    """
    row = check(name)
    import transformers

    described = row.config(settings)
    del described["model_type"]  # of the class
    architecture = getattr(transformers, row.architecture)
    return architecture(architecture.config_class(**described, **_FOR_TRAINING)).train()
