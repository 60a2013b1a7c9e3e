"""What `htbench bench train` trains: models with a batch each, and the precision of their products."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import torch

import models
from harness.data.text import CHUNK_ABOVE


@dataclass(frozen=True)
class Workload:
    """What is trained.

    Attributes:
        model: name of one of our models.
        batch: sequences.
        steps: timed together in a turn; more for a small model, whose steps are short.
        settings: of the model, all of them.
    """

    model: str
    batch: int
    steps: int = 1
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Of a step; sequences are as long as the model takes."""
        return self.batch * int(self.settings["max_length"])

    @property
    def flops(self) -> float:
        """Of a step's matrix products: for every token 6 per weight, and 12 T D per layer for attention.

        Source: Chowdhery et al., "PaLM" (2022), appendix B. The embedding is a look-up and does not count.
        """
        s = self.settings
        # GPT-2's head is tied: its table of words is the head's matrix, and only positions are looked up.
        tables = s["vocabulary"] if self.model.startswith("llama") else s["max_length"]
        weights = models.count_parameters(self.model) - tables * s["hidden"]
        attention: int = 12 * s["layers"] * s["hidden"] * s["max_length"]
        return float(self.tokens * (6 * weights + attention))


ROWS: Final = (("llama-nano", 16, 20), ("llama-60m", 4, 1), ("gpt2-nano", 16, 20))


def workloads(model: str | None = None, batch: int | None = None) -> list[Workload]:
    """The rows of the benchmark, or one for a model; raises ValueError for an unknown model."""
    known = {name: (batch, steps) for name, batch, steps in ROWS}
    chosen = [model] if model else list(known)
    return [
        Workload(
            name, batch or known.get(name, (8, 1))[0], known.get(name, (8, 1))[1], models.spec(name).settings
        )
        for name in chosen
    ]


def is_large(work: Workload) -> bool:
    """Whether its loss is the chunked one."""
    return int(work.settings["vocabulary"]) > CHUNK_ABOVE


@dataclass(frozen=True)
class Precision:
    """How the products are computed.

    Attributes:
        name: "float32", "bfloat16" (parameters, too) or "autocast" (to bfloat16).
        device: "cpu" or "cuda".
    """

    name: str
    device: str

    @property
    def params(self) -> torch.dtype:
        """Of the parameters."""
        return torch.bfloat16 if self.name == "bfloat16" else torch.float32

    @property
    def products(self) -> torch.dtype:
        """Of the matrix products."""
        return torch.float32 if self.name == "float32" else torch.bfloat16

    def autocast(self) -> torch.autocast:
        """Around the forward pass."""
        return torch.autocast(self.device, torch.bfloat16, enabled=self.name == "autocast")
