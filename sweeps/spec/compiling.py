"""Whether the runs of a sweep file are worth compiling, for `compile: auto`. Torch-free."""

import itertools
import operator
from statistics import fmean

from htbench.harness.config import RunConfig, Value
from htbench.harness.config.settings import field_value
from htbench.sweeps.spec.sweep import Block, SweepSpec

SECONDS = 30  # of CPU that the first run of a shape compiles; 2 for another process, from torch's cache
# A compiled update of the smallest models takes .5 to .7 ms less in a stack, 1.2 ms less alone, of larger
# ones more (`benchmarks/stack.py --compile`): so many make up for compiling three sizes of stacks, and for a
# process.
_UPDATES, _UPDATES_OF_A_RUN = 200_000, 1_500
_SHAPE = ("task", "model", "batch_size", "seq_len", "micro_batch", "precision.params", "precision.autocast")


def shape(config: RunConfig) -> tuple[object, ...]:
    """What runs have in common that share compiled code."""
    shape: tuple[object, ...] = operator.attrgetter(*_SHAPE)(config)
    return shape


def pays(spec: SweepSpec) -> bool:
    """Whether the updates of a file, without replicas, make up for compiling; epochs are not counted.

    All of its runs are compiled or none, so that they are alike.
    """
    shapes, updates = set[tuple[object, ...]](), 0.0
    for block in spec.blocks:
        steps = [int(field_value("steps", value) or 0) for value in _values(spec, block, "steps")]
        if min(steps) < _UPDATES_OF_A_RUN:
            return False
        updates += fmean(steps) * spec.runs_of(block)
        shapes.update(itertools.product(*(_values(spec, block, name) for name in _SHAPE)))
    return updates >= _UPDATES * len(shapes)


def _values(spec: SweepSpec, block: Block, name: str) -> list[Value | None]:
    """Those of a setting in the runs of a block."""
    return [*block.listed.get(name, [(spec.base | block.set).get(name)])]
