"""Run a program that sets no seed with one: `python -m htbench.seeded train.py ...`.

The seed is that of HTBENCH_SEED, which a sweep sets for each run. Before the program's first line it seeds
Python's `random`, numpy and torch, as far as these are installed and the program imports them. A program that
calls `torch.manual_seed(1337)` itself would undo that: what it gives is shifted by the seed, so seed 0 trains
as it would without us. Works under torchrun.
"""

import builtins
import os
import random
import runpy
import sys
from typing import Any


def main() -> None:
    """Seed what there is, then run the program of the command line as `__main__`."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m htbench.seeded PROGRAM.py [WORDS ...]")
    seed = int(os.environ.get("HTBENCH_SEED", "0"))
    random.seed(seed)
    _seed_on_import(seed)
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


def _seed_on_import(seed: int) -> None:
    """Let numpy and torch be seeded when the program has imported them: it may do without."""
    real, seeded = builtins.__import__, set[str]()

    def importing(name: str, *args: Any, **named: Any) -> Any:
        module = real(name, *args, **named)
        for package in {"numpy", "torch"} - seeded:
            loaded = sys.modules.get(package)
            spec = getattr(loaded, "__spec__", None)
            if loaded is not None and not getattr(spec, "_initializing", False):
                seeded.add(package)
                _SEEDING[package](loaded, seed)
        return module

    builtins.__import__ = importing


def _seed_numpy(numpy: Any, seed: int) -> None:
    given = numpy.random.seed
    given(seed)
    numpy.random.seed = lambda value=None: given(value if value is None else (value + seed) % 2**32)


def _seed_torch(torch: Any, seed: int) -> None:
    given = torch.manual_seed
    given(seed)
    torch.manual_seed = lambda value: given(int(value) + seed)


_SEEDING = {"numpy": _seed_numpy, "torch": _seed_torch}

if __name__ == "__main__":
    main()
