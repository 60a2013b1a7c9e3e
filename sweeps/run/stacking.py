"""Which runs of a sweep are trained as one stack (`harness/train/stack.py`). Torch-free."""

import json
from dataclasses import asdict, dataclass, replace

from htbench import models, optimizers
from htbench.harness.config import RunConfig

# Above these widths a step is busy with products, and a stack of runs is no quicker than one after the other.
# On a CPU measured with llama-s1 (32), llama-nano (48: .7 to 1.2 of the time, by processor and optimizer, as
# runs in turns fill its cache) and llama-s3 (64); on a GPU launches count.
_WIDEST_ON_CPU, _WIDEST_ON_GPU = 32, 256
_MOST = 16  # runs of a stack: more are no quicker on a CPU


@dataclass(frozen=True)
class Kind:
    """What the runs of a stack have in common.

    Attributes:
        settings: all but seeds, rates and weight decay, as JSON.
        most: runs of a stack.
    """

    settings: str
    most: int


def stack_kind(config: RunConfig, wanted: int | str, *, has_gpu: bool) -> Kind | None:
    """The kind of a run; None if it is trained alone.

    On a CPU a stack, unless it is compiled, must round like its runs alone, which is compared; bfloat16 would
    hide a difference.

    Args:
        config: of the run.
        wanted: `stack` of the sweep file.
        has_gpu: whether runs that may use a GPU get one.
    """
    if config.program or wanted == 1 or not (model := models.spec(config.model)).stacks:
        return None
    on_gpu = has_gpu and config.device != "cpu"
    precision = config.precision
    if not on_gpu and (precision.params != "float32" or precision.autocast != "none"):
        return None
    if (
        config.activation_checkpointing
        or config.dropout
        or config.processes > 1
        or config.spectra.updates
        or (config.micro_batch or config.batch_size) < config.batch_size
        or optimizers.spec(config.optimizer.name).outside
    ):
        return None
    if wanted == "auto" and model.settings["hidden"] > (_WIDEST_ON_GPU if on_gpu else _WIDEST_ON_CPU):
        return None
    rule = replace(config.optimizer, lr=0.0, weight_decay=0.0, aux_lr=None)
    common = replace(config, seed=0, data_seed=0, optimizer=rule)
    return Kind(json.dumps(asdict(common), sort_keys=True), _MOST if wanted == "auto" else int(wanted))
