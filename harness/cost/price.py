"""The time of a step on a named processor, from data-sheet rates alone: a roofline. Torch-free.

A step is what `harness/cost/kept.py` counts. Its parts take their time one after the other:

    products         operations / (0.6 x peak of their precision)
    decompositions   operations / (0.01 x peak of float32)
    traffic          bytes that all operations read and write / (0.8 x bandwidth)
    exchange         2 (n - 1) / n x bytes of the gradients / (0.5 x link), and half of that again for weights
                     that are broadcast, on n processors

and on a GPU at least 10 microseconds for each operation, because Python has to start it. Nothing here was
fitted to a measured step; the constants below say where they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.config import RunConfig
from harness.cost.gpus import DECOMPOSED, Processor

if TYPE_CHECKING:
    from harness.cost.kept import TrainingFlops

# Large products reach 70 to 85 % of the dense peak in benchmarks of cuBLAS (S. Bekman, "Machine Learning
# Engineering", chapter on accelerators), those of models 512 to 1024 wide less. Whole models are at 0.3 to
# 0.4 (PaLM, appendix B; Llama 3, table 4), because of all the rest, which is counted apart here.
PRODUCTS: Final = 0.6
# Copies reach 80 to 90 % of the bandwidth on a data sheet (the same chapter).
BANDWIDTH: Final = 0.8
# Less than 3 % of an H100 for eigenvalues of large matrices (H. Wang et al., arXiv 2410.02170), which are
# bound by bandwidth and by latency; matrices of 512 to 2048 rows are small.
DECOMPOSITIONS: Final = 0.01
# Of a ring of all-reduce over PCIe, whose packets and shared switches halve the rate (NVIDIA/nccl-tests,
# PERFORMANCE.md, for the factor 2 (n - 1) / n).
LINK: Final = 0.5
# PyTorch needs 5 to 10 us to call an operation from Python and to start its kernel.
CALL: Final = 1e-5


@dataclass(frozen=True)
class Times:
    """Seconds of a step by what takes them; `calls` is not added, but the least of the sum.

    Attributes:
        products, traffic: of forward and backward pass.
        optimizer_products, optimizer_decompositions, optimizer_traffic: of its step.
        exchange: of gradients and weights between processors.
        calls: to start all operations.
    """

    products: float
    traffic: float
    optimizer_products: float
    optimizer_decompositions: float
    optimizer_traffic: float
    exchange: float
    calls: float

    @property
    def optimizer(self) -> float:
        """Of the optimizer's step."""
        return self.optimizer_products + self.optimizer_decompositions + self.optimizer_traffic

    @property
    def step(self) -> float:
        """Of the whole step."""
        return max(self.products + self.traffic + self.optimizer + self.exchange, self.calls)


def times(work: TrainingFlops, config: RunConfig, processor: Processor, gradients: int) -> Times:
    """The time of a step on `config.processes` processors of one kind.

    Args:
        work: what the step computes, over all processes.
        config: of the run.
        processor: each of them; of a CPU `config.threads` cores.
        gradients: bytes of all gradients, which are as large as the weights.
    """
    n, cores = config.processes, config.threads if processor.cpu else 1
    owners = n if config.shard_optimizer else 1  # of equal parts of the optimizer's work, at best
    bandwidth = BANDWIDTH * cores * processor.bandwidth * 1e9
    single = "tf32" if config.precision.tf32 else "float32"  # convolutions are not told apart
    products = _products(work.optimizer_kinds, "float32", processor) / cores
    dense = sum(work.optimizer_kinds.get(kind, 0.0) for kind in DECOMPOSED) / (
        DECOMPOSITIONS * cores * processor.rate("float32")
    )
    return Times(
        products=_products(work.kinds, single, processor) / (n * cores),
        traffic=work.moved / n / bandwidth,
        optimizer_products=products / owners,
        optimizer_decompositions=dense / owners,
        optimizer_traffic=work.optimizer_moved / owners / bandwidth,
        exchange=_exchange(n, gradients, processor, broadcast=owners > 1),
        calls=0.0 if processor.cpu else CALL * (work.calls + work.optimizer_calls / owners),
    )


def _products(kinds: Mapping[str, float], single: str, processor: Processor) -> float:
    """Seconds of matrix products on one processor, those of float32 at the rate of `single`."""
    return sum(
        flops / (PRODUCTS * processor.rate(single if kind == "float32" else kind))
        for kind, flops in kinds.items()
        if kind not in DECOMPOSED
    )


def _exchange(n: int, gradients: int, processor: Processor, broadcast: bool) -> float:
    ring = 2 * (n - 1) / n * gradients / (LINK * processor.link * 1e9)
    return ring * (1.5 if broadcast else 1.0)
