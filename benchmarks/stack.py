"""What a stack of runs saves: CPU time of a step per run, in a stack of K and of the K runs one by one.

    python benchmarks/stack.py [--model llama-s1] [--runs 16] [--optimizers adamw,muon,htmuon] [--rounds 15]
                                [--seq-len 64] [--compile]

Both take turns of `--steps` steps in one process, whose drift cancels from their ratio: the median over
rounds. On a GPU the wall clock is read after all of its work. Of PyTorch's operators those are counted that
compute something, for a step and run: on a GPU most of them are a launch. With `--compile` the stack is
compiled, and operators are not counted.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).parents[1]))

from htbench.harness import tasks
from htbench.harness.config import Value
from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config
from htbench.harness.train import compiling
from htbench.harness.train.learner import Learner
from htbench.harness.train.stack import Stack, StackedLearner

STEPS = 10_000  # of the schedule, which no round reaches
IDLE = {  # operators that compute nothing
    "aten::_unsafe_view",
    "aten::promote_types",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
}


class Operators(TorchDispatchMode):
    """Counts the calls of operators that are no views."""

    number = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_view = any(x.alias_info and not x.alias_info.is_write for x in func._schema.returns)
        self.number += not is_view and func._schema.name not in IDLE
        return func(*args, **(kwargs or {}))


def learners(
    words: argparse.Namespace,
    optimizer: str,
    make: Callable[..., Learner],
    cache: Path,
    *,
    compiled: bool = False,
) -> list[Any]:
    """K runs that differ in seed and rate."""
    made = []
    for number in range(words.runs):
        settings: dict[str, Value] = {
            "task": "pydocs",
            "model": words.model,
            "batch_size": words.batch_size,
            "seq_len": words.seq_len,
            "steps": STEPS,
            "optimizer.name": optimizer,
            "optimizer.lr": 0.001 * (1 + number / words.runs),
            "grad_clip": 1.0,
            "seed": number,
            "device": words.device,
            "compile": compiled,
        }
        run = resolved(resolve_config(settings))
        task = tasks.load_for(run.task, run.config, cache)
        made.append(make(run, task, STEPS, torch.device(words.device)))
    return made


def seconds(work: Callable[[], object], device: str) -> float:
    """Of CPU, or on a GPU of the wall clock."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    began = clock()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return clock() - began


def measure(words: argparse.Namespace, optimizer: str, cache: Path) -> str:
    """One line of the table."""
    stack = Stack(words.runs)
    single: list[Learner] = learners(words, optimizer, Learner, cache)
    stacked: list[StackedLearner] = learners(words, optimizer, stack.learner, cache, compiled=words.compile)
    step = 0

    def update_single() -> None:
        for learner in single:
            for number in range(step, step + words.steps):
                learner.update(number)

    def update_stacked() -> None:
        for number in range(step, step + words.steps):
            stack.update_all(dict.fromkeys(stacked, number))

    pairs = []
    for number in range(words.rounds + 1):
        works = [update_single, update_stacked]
        times = {work: seconds(work, words.device) for work in (works if number % 2 else works[::-1])}
        step += words.steps
        if number:  # the first warms up and forms the stack
            pairs.append((times[update_single], times[update_stacked]))
    per_step = [1000 * statistics.median(x) / words.runs / words.steps for x in zip(*pairs, strict=True)]
    ratio = statistics.median(b / a for a, b in pairs)
    size = max(learner.largest_stack for learner in stacked)
    words.steps, counts = 1, []
    for work in () if words.compile else (update_single, update_stacked):
        with Operators() as operators:
            work()
        counts.append(operators.number / words.runs)
    return (
        f"{optimizer:12} {per_step[0]:9.2f} {per_step[1]:9.2f} {ratio:7.2f}"
        f"{''.join(f'{count:10.1f}' for count in counts) or 20 * ' '}"
        f"   {'one by one' if size == 1 else f'stack of {size}'}"
    )


def main() -> None:
    """Print a line for each optimizer."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="llama-s1")
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--optimizers", default="adamw,muon,htmuon")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--seq-len", type=int, default=64, help="the ladder's")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    words = parser.parse_args()
    torch.set_num_threads(1)
    compiling.use_cache_of_user()
    print(
        f"{words.model}, {words.runs} runs, {words.rounds} rounds, {words.seq_len} tokens a sample, "
        f"torch {torch.__version__}, {words.device}"
    )
    print("             ms alone  ms stack   ratio operators: alone, stack")
    with tempfile.TemporaryDirectory() as folder:
        for optimizer in words.optimizers.split(","):
            print(measure(argparse.Namespace(**vars(words)), optimizer, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
