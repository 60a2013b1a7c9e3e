"""What every tracker can do, and the table of trackers. None of them is imported before it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.errors import UsageError
from harness.exchange.outgoing import Outgoing

# name -> (module that has `destination(options)`, the options that it takes)
TRACKERS = {
    "tensorboard": ("harness.exchange.to_tensorboard", ("out",)),
    "wandb": ("harness.exchange.to_wandb", ("out", "project")),
    "mlflow": ("harness.exchange.to_mlflow", ("uri",)),
    "trackio": ("harness.exchange.to_trackio", ("out", "project")),
}


@dataclass(frozen=True)
class Options:
    """Where an export goes; None: the tracker's own default.

    Attributes:
        root: the store.
        out: a folder.
        uri: the address of an mlflow database or server.
        project: the name that holds all groups.
    """

    root: Path
    out: Path | None = None
    uri: str | None = None
    project: str | None = None


class Destination(Protocol):
    """A place that runs are exported to. Only one process at a time writes to it."""

    @property
    def place(self) -> str:
        """The place in words."""

    def present(self) -> Mapping[str, str]:
        """The digests of the runs that are completely there, by key, read from the destination."""

    def write(self, run: Outgoing) -> None:
        """Write a run in place of all that is there of its key.

        A process that is killed meanwhile leaves nothing that `present` counts.
        """


def open_destination(name: str, options: Options) -> AbstractContextManager[Destination]:
    """The tracker `name`, ready to be written to.

    Raises:
        UsageError: an option that it does not take, a package that is not installed, a bad place.
    """
    module, takes = TRACKERS[name]
    for option in ("out", "uri", "project"):
        if option not in takes and getattr(options, option) is not None:
            raise UsageError(f"--{option} is not for {name}, which takes --{' and --'.join(takes)}.")
    opened: AbstractContextManager[Destination] = importlib.import_module(module).destination(options)
    return opened


def require(extra: str, *modules: str) -> None:
    """Raise UsageError unless these modules are installed.

    A mere folder of that name does not count: wandb, for example, makes a folder `wandb`.
    """
    for module in modules:
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            raise UsageError(f"{module} is not installed; `pip install 'htbench[{extra}]'` brings it.")
