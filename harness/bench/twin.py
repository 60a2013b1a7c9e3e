"""The model of `transformers` that does the same as one of ours, with the same weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from harness.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor, nn

MAKERS: Final = ("llama", "gpt2")  # how the names of our models begin that have a counterpart

# Beginnings and parts of names, ours and theirs. A matrix of GPT-2 is transposed there.
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


def check(name: str) -> None:
    """Raise UsageError unless there is a counterpart of the model and `transformers` is installed."""
    if not name.startswith(MAKERS):
        raise UsageError(f"'{name}' has no counterpart in transformers; name a llama or a gpt2.")
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise UsageError(
            "transformers is not installed; get it with: pip install 'htbench[peers]'."
        ) from None


def twin(name: str, ours: nn.Module, settings: Mapping[str, Any]) -> Any:
    """The counterpart with a copy of our weights, on their device and in their precision.

    Args:
        name: of our model.
        ours: its module.
        settings: all it was built with.

    Raises:
        UsageError: see `check`.
    """
    llama = name.startswith("llama")
    first = next(ours.parameters())
    theirs = counterpart(name, settings).to(first.device, first.dtype)
    names = _LLAMA_NAMES if llama else _GPT2_NAMES
    theirs.load_state_dict(
        {_renamed(key, names): _turned(key, tensor, llama) for key, tensor in ours.state_dict().items()}
    )
    return theirs


def counterpart(name: str, settings: Mapping[str, Any]) -> Any:
    """A `LlamaForCausalLM` or `GPT2LMHeadModel` with weights of its own, in training mode.

    Arguments and errors are those of `twin`.
    """
    check(name)
    return (_llama if name.startswith("llama") else _gpt2)(settings).train()


def _renamed(key: str, names: Mapping[str, str]) -> str:
    for ours, theirs in names.items():
        key = key.replace(ours, theirs, 1)
    return key


def _turned(key: str, tensor: Tensor, llama: bool) -> Tensor:
    return tensor if llama or "blocks" not in key or tensor.ndim < 2 else tensor.T


def _llama(settings: Mapping[str, Any]) -> Any:
    import transformers

    configure: Any = transformers.LlamaConfig
    config = configure(
        vocab_size=settings["vocabulary"],
        hidden_size=settings["hidden"],
        intermediate_size=settings["intermediate"],
        num_attention_heads=settings["heads"],
        num_key_value_heads=settings["heads"],
        num_hidden_layers=settings["layers"],
        max_position_embeddings=settings["max_length"],
        tie_word_embeddings=False,
        use_cache=False,
        attn_implementation="sdpa",
    )
    return transformers.LlamaForCausalLM(config)


def _gpt2(settings: Mapping[str, Any]) -> Any:
    import transformers

    configure: Any = transformers.GPT2Config
    dropout = settings["dropout"]
    config = configure(
        vocab_size=settings["vocabulary"],
        n_embd=settings["hidden"],
        n_inner=settings["intermediate"],
        n_head=settings["heads"],
        n_layer=settings["layers"],
        n_positions=settings["max_length"],
        loss_type="ForCausalLM",
        bos_token_id=None,  # it would name one that a small vocabulary does not have
        eos_token_id=None,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        use_cache=False,
        attn_implementation="sdpa",
    )
    return transformers.GPT2LMHeadModel(config)
