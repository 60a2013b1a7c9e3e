"""`htbench spectra`: heavy-tail metrics of the weights of runs and of files of safetensors."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from htbench.harness.config.names import settings_of
from htbench.harness.errors import UsageError
from htbench.harness.show.emit import emit
from htbench.harness.show.progress import Progress
from htbench.harness.spectra import checkpoints, report
from htbench.harness.spectra.layers import LayerSpectrum, spectrum
from htbench.harness.spectra.selection import Tensors, select_layers
from htbench.harness.spectra.tail import METHODS
from htbench.harness.store import Store
from htbench.harness.store.record import RunRecord
from htbench.harness.store.run_folder import RunFolder
from htbench.harness.system import atomic

if TYPE_CHECKING:
    import pandas as pd

RUN_COLUMNS = ("model", "optimizer", "seed", "step")  # empty for what is no run of ours

_BELOW = """PLACE is the key of a run (its beginning is enough), the folder of a run, or a file .safetensors.
Embeddings and heads are left out unless asked for: alpha depends on the shape, and theirs would
swamp a mean."""


def add_spectra_arguments(parser: argparse.ArgumentParser) -> None:
    """PLACE, what is measured, and how it is shown."""
    parser.epilog = _BELOW
    parser.add_argument(
        "places", nargs="+", metavar="PLACE", help="a key, a folder or a file; several: side by side"
    )
    parser.add_argument(
        "--method", choices=METHODS, default="hill_mid", help="of the fit (default: hill_mid)"
    )
    parser.add_argument(
        "--include",
        default="hidden",
        metavar="WHICH",
        help="hidden, all, or a pattern of names such as '*.q_proj.weight' (default: hidden)",
    )
    parser.add_argument(
        "--exclude", action="append", default=[], metavar="PATTERN", help="names to leave out"
    )
    parser.add_argument(
        "--random-baseline", action="store_true", help="alpha of Gaussian numbers of each shape, too"
    )
    parser.add_argument(
        "--small", action="store_true", help="count layers with fewer than 50 eigenvalues in means, too"
    )
    parser.add_argument("--json", action="store_true", help="as JSON, with all columns and digits")


def spectra(args: argparse.Namespace) -> int:
    """Measure and print."""
    layers = _table(args, [_place(word, args.root) for word in dict.fromkeys(args.places)])
    about = {"method": args.method, "include": args.include, "exclude": args.exclude}
    emit(report.report(layers, about, small_n=args.small), args)
    return 0


def _table(args: argparse.Namespace, places: list[Place]) -> pd.DataFrame:
    """A row per layer and place, with all columns of `LayerSpectrum`."""
    import pandas as pd

    layers = [(place, layer) for place in places for layer in _layers(place, args)]
    rows = []
    with Progress(len(layers), "layers") as progress:
        for place, layer in layers:
            try:
                measured = spectrum(layer, method=args.method, random_baseline=args.random_baseline)
            except ValueError as error:
                raise UsageError(f"'{place.label}' can't be measured: {error}.") from None
            rows.append({"place": place.label, **place.about, **dataclasses.asdict(measured)})
            progress.advance()
    fields = [field.name for field in dataclasses.fields(LayerSpectrum)]
    table = pd.DataFrame(rows, columns=["place", *RUN_COLUMNS, *fields])
    return table.astype({"block": "Int64", "seed": "Int64", "step": "Int64"})


def _layers(place: Place, args: argparse.Namespace) -> list[Any]:
    try:
        found = select_layers(place.tensors, args.include, args.exclude)
        anything = found or select_layers(place.tensors, "all")
    except ValueError as error:
        raise UsageError(f"'{place.label}' can't be measured: {error}.") from None
    if found:
        return found
    if anything:
        raise UsageError(
            f"No layer of '{place.label}' is left by --include and --exclude; see --include all."
        )
    raise UsageError(f"'{place.label}' has no matrices of floating-point numbers, so there are no spectra.")


# --- places ---


@dataclass(frozen=True)
class Place:
    """A model.

    Attributes:
        label: as the user wrote it.
        tensors: its weights by name.
        about: what is known of a run, by `RUN_COLUMNS`.
    """

    label: str
    tensors: Tensors
    about: Mapping[str, Any]


def _place(word: str, root: Path) -> Place:
    path = Path(word)
    if path.exists():
        files = RunFolder(path)
        if files.config.exists() or files.record.exists():
            return _of_run(word, files)
        return Place(word, checkpoints.read_tensors(path), {})
    if not set(word) <= set("0123456789abcdef"):
        raise UsageError(f"There is no file or folder '{word}', and the key of a run has hex digits only.")
    store = Store(root)
    return _of_run(word, store.files(store.find(word)))


def _of_run(word: str, files: RunFolder) -> Place:
    from htbench.harness.train import checkpoint  # imports torch

    tensors, step = checkpoint.load_weights(files)
    record = RunRecord.from_json(atomic.read_json(files.record))
    try:
        settings = record.settings if record else settings_of(files.read_config())
    except UsageError:
        settings = {}
    steps = settings.get("steps") if step is None else step
    names = {"model": "model", "optimizer": "optimizer.name", "seed": "seed"}
    return Place(word, tensors, {name: settings.get(key) for name, key in names.items()} | {"step": steps})
