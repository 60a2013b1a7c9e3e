"""What a run costs before it runs: its operations and memory, and its time by finished runs of its class.

Only the counting (`harness/cost/update.py`) loads torch.
"""

import warnings
from dataclasses import dataclass

from htbench.harness import tasks
from htbench.harness.config import RunConfig
from htbench.harness.cost import shapes
from htbench.harness.cost.from_runs import from_store
from htbench.harness.cost.run_class import Cost, Counted, count_steps, run_class
from htbench.harness.cost.shapes import NotEstimatedError
from htbench.harness.errors import reason
from htbench.harness.show.note import Note
from htbench.harness.store import Store
from htbench.harness.store.layout import cache_folder


@dataclass(frozen=True)
class RunCost(Counted):
    """The cost of a run as programs read it.

    Attributes:
        task, model, optimizer: of the run.
        processes: of the run.
        device: "cpu" or "cuda", as on which it was counted.
        note: what was assumed; may be empty.
        steps: of the run; null: nothing tells the size of an epoch.
        images, tokens: that the run sees; the one that is not the task's is null.
        total_flops: of the whole run.
        optimizer_share: of the operations, a fraction.
        seconds: of the run; null: no run of its class has finished, or its steps are not known.
        cost: what finished runs of its class took; null: there are none.
    """

    task: str
    model: str
    optimizer: str
    processes: int
    device: str
    note: Note | str
    steps: int | None
    images: int | None
    tokens: int | None
    total_flops: float | None
    optimizer_share: float
    seconds: float | None
    cost: Cost | None


def estimate(config: RunConfig, store: Store, device: str) -> RunCost:
    """The cost of a run.

    Args:
        config: resolved.
        store: of finished runs, and of prepared data, which may tell the size of an epoch.
        device: "cpu" or "cuda", where optimizers may work otherwise.

    Raises:
        NotEstimatedError: the update of the run can't be made.
    """
    counted, sizes = count(config, device), shapes.of(config)
    cost = from_store(store).get(run_class(config))
    steps = count_steps(config, cache_folder(store.root))
    row, work = tasks.spec(config.task), counted.flops_per_step + counted.optimizer_flops_per_step
    samples = None if steps is None else steps * config.batch_size * (config.seq_len or row.seq_len or 1)
    assumed_sizes = [f"{name} {size}" for name, size in sizes.options.items()] if sizes.assumed else []
    return RunCost(
        **vars(counted),
        task=config.task,
        model=config.model,
        optimizer=config.optimizer.name,
        processes=config.processes,
        device=device,
        note=Note("cost_assumed_sizes", task=config.task, sizes=assumed_sizes) if assumed_sizes else "",
        steps=steps,
        images=samples if row.unit == "images" else None,
        tokens=samples if row.unit == "tokens" else None,
        total_flops=None if steps is None else steps * work,
        optimizer_share=counted.optimizer_flops_per_step / work,
        seconds=None if cost is None or steps is None else cost.seconds(config, steps),
        cost=cost,
    )


def count(config: RunConfig, device: str) -> Counted:
    """What an update of the run computes and holds.

    Args:
        config: resolved.
        device: "cpu" or "cuda", where optimizers may work otherwise.

    Raises:
        NotEstimatedError: the model or the optimizer does not work on tensors without memory.
    """
    sizes = shapes.of(config)
    import torch

    from htbench.harness.cost import update

    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    try:
        # A run that asks for its own cost goes on with its random numbers.
        with torch.random.fork_rng(gpus), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return update.count(config, sizes, device)
    except Exception as error:
        names = f"'{config.model}' with '{config.optimizer.name}'"
        raise NotEstimatedError(f"no update of {names} can be made to count ({reason(error)})") from error


def for_record(config: RunConfig, device: str) -> dict[str, float]:
    """What the estimate adds to a record; empty if the model or the optimizer can't be counted.

    `flops_per_step`: of forward and backward pass, and of what is computed again. `optimizer_flops_per_step`.
    `state_bytes`: that the optimizer keeps, and `estimated_peak_memory`: of all tensors, in one process.

    Args:
        config, device: as in `count`.
    """
    try:
        counted = count(config, device)
    except Exception:  # a price tag never fails a run, whatever a user's model does
        return {}
    return {
        "flops_per_step": counted.flops_per_step,
        "optimizer_flops_per_step": counted.optimizer_flops_per_step,
        "state_bytes": counted.states,
        "estimated_peak_memory": counted.peak,
    }
