"""What to do where an optimizer can't train a model: ways are tried on a copy, and one that works is told.

Classes from outside refuse what their authors did not think of: kernels and vectors in a rule for matrices,
steps without a closure, gradients that are dense, or sparse.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from htbench.harness.config import RunConfig
from htbench.harness.config.settings import resolve_config, to_settings
from htbench.harness.errors import UsageError, reason
from htbench.harness.show.note import Note

_MATRIX = {"optimizer.routing": "matrix"}
_SPARSE = "optimizer.groups.embedding.optimizer=torch.optim:SparseAdam"
# The kind of a sentence, settings beside the run's, what is made of gradients, and arguments of step().
_TRIES: tuple[tuple[str, Mapping[str, str], str, tuple[Any, ...]], ...] = (
    ("", {}, "clone", ()),  # it was something else
    ("gradients_are_sparse", {}, "to_dense", ()),
    ("optimizer_fits_with", _MATRIX, "clone", ()),
    ("optimizer_fits_with", _MATRIX | {"optimizer.groups.kernels.optimizer": "adamw"}, "clone", ()),
    ("optimizer_needs_closure", {}, "clone", (lambda: 0.0,)),
    ("optimizer_needs_sparse", {}, "to_sparse", ()),
)


def explained(
    config: RunConfig,
    model: nn.Module,
    build: Callable[[RunConfig, nn.Module], Optimizer],
    error: Exception,
) -> Exception:
    """A UsageError on an optimizer that failed when made or in its first step; `error` if nothing helps.

    Args:
        config: of the run.
        model: with the gradients of the step, if it came to that.
        build: makes the optimizer of a config for a model.
        error: what the optimizer raised.
    """
    for kind, way, form, arguments in _TRIES:
        try:
            twin = copy.deepcopy(model)
            for p, q in zip(model.parameters(), twin.parameters(), strict=True):
                q.grad = getattr(torch.zeros_like(p) if p.grad is None else p.grad, form)()
            if config.grad_clip is not None:
                torch.nn.utils.clip_grad_norm_(twin.parameters(), config.grad_clip)
            build(resolve_config({**to_settings(config), **way}), twin).step(*arguments)
        except Exception:  # whatever a class may raise
            continue
        facts = {"optimizer": config.optimizer.name, "model": config.model, "why": reason(error)}
        facts["way"] = " ".join(f"{name}={value}" for name, value in way.items())
        sparse = [name for name, p in model.named_parameters() if p.grad is not None and p.grad.is_sparse]
        clip, other = config.grad_clip, "" if config.grad_clip else _SPARSE
        note = Note(kind, names=sparse, clip=clip, other=other, **facts)
        return UsageError(str(note)) if kind else error
    return error
