"""The processors that a price can name, by data sheet (`gpus.csv`), and those that a user adds. Torch-free.

A row has the dense peak of matrix products by precision. Data sheets print twice as much for tensor cores,
"with sparsity"; that is not meant here. The V100 and T4 have tensor cores for float16 only. Links are PCIe
3.0, 4.0 and 5.0 x16 with 16, 32 and 64 GB/s in one direction, else NVLink; bridges between pairs of cards are
not counted. Chips for graphics have one unit of double precision for 64 of single precision. No sheet has the
dense rates of RTX PRO 6000's server edition: 2 and 4 times float32, as in the other edition.

A CPU's row is one core, because a run uses `threads` of them: clock rate x operations in a cycle, and about
the bandwidth that one core gets out of its memory. Zen 3 has two 256-bit units; Zen 4 the same for float32,
and twice as much by bfloat16 dot products; Zen 5 units of 512 bits; Sapphire Rapids two of 512 bits, and
tiles for bfloat16.
"""

import csv
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.config.yaml_text import read_yaml
from harness.errors import UsageError, nearest

FILE = "gpus.yaml"  # in the root of a store, if the user has processors of his own


@dataclass(frozen=True)
class Processor:
    """A row of the table, in the units of data sheets.

    Attributes:
        name: how `--gpu` calls it.
        memory: GB (10^9 bytes); 0 for a core of a CPU, which has no memory of its own.
        bandwidth: of that memory, GB/s.
        link: to another one of the same node, GB/s in one direction.
        float32, tf32, bfloat16, float16, float64: dense peak of matrix products, TFLOP/s. Without such units
            it is the rate of the units that do the work instead.
        device: the last words of the name that the driver gives it, by which records tell it; empty: not
            recognised.
        source: of these figures.
        cpu: whether it is one core of a CPU.
    """

    name: str
    memory: float
    bandwidth: float
    link: float
    float32: float
    tf32: float
    bfloat16: float
    float16: float
    float64: float
    device: str = ""
    source: str = ""
    cpu: bool = False

    def rate(self, precision: str) -> float:
        """Peak of matrix products in a precision, FLOP/s; for one that it does not list, that of float32."""
        return 1e12 * float(getattr(self, precision, self.float32))


def _read_table() -> dict[str, Processor]:
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        rows = [row | {name: float(row[name]) for name in _NUMBERS} for row in csv.DictReader(file)]
    return {row["name"]: Processor(**row | {"cpu": row["cpu"] == "yes"}) for row in rows}


_NUMBERS = ("memory", "bandwidth", "link", "float32", "tf32", "bfloat16", "float16", "float64")
PROCESSORS: Final = _read_table()
DECOMPOSED: Final = ("qr", "eigh", "svd")  # kinds of operations that no data sheet has a rate of
PAPERS: Final = "a6000"  # on four of which the paper measured its steps

# Of `htbench cost` and of `sweep plan`, as argparse takes them.
GPU_FLAGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "--gpu": {"metavar": "NAME[,NAME]", "help": f"the time on {', '.join(PROCESSORS)}, or on your own"},
    "--gpus": {"type": Path, "metavar": "FILE", "help": f"processors of your own (default: ROOT/{FILE})"},
}


def known(root: Path | None = None, file: Path | None = None) -> dict[str, Processor]:
    """The table, with the user's own processors, by name.

    Args:
        root: of a store that may have a file `gpus.yaml`.
        file: another such file, which must exist.

    Raises:
        UsageError: a file has unknown keys, or values that are no numbers.
    """
    table = dict(PROCESSORS)
    places = [place for place in (root and root / FILE,) if place and place.is_file()]
    for place in [*places, *([file] if file else [])]:
        for name, entry in read_yaml(place).items():
            table[name] = _of_user(str(name), entry, table, place)
    return table


def find(name: str, table: Mapping[str, Processor]) -> Processor:
    """A processor by its name in the table, in any letters. Raises UsageError for an unknown one."""
    name = name if name in table else name.lower()
    if name not in table:
        raise UsageError(f"Unknown GPU '{name}'; {nearest(name, table)}")
    return table[name]


def named(words: str | None, table: Mapping[str, Processor]) -> list[Processor]:
    """The processors of a list such as `a6000,h100`; raises UsageError for an unknown one."""
    return [find(name, table) for name in dict.fromkeys((words or "").split(",")) if name]


def recognised(device: str, table: Mapping[str, Processor] = PROCESSORS) -> Processor | None:
    """The processor whose driver calls it so; None if the table has none.

    Whole words at the end, since a letter or a word more is something else: RTX A4000, L40S, RTX 4090 Laptop
    GPU, a slice of a GPU (A100-SXM4-80GB MIG 1g.10gb).
    """
    rows = [row for row in table.values() if row.device and f" {device}".endswith(f" {row.device}")]
    return max(rows, key=lambda row: len(row.device), default=None)


# --- files of users ---

_WORDS = ("like", "device", "source")
_NEEDED = ("memory", "bandwidth", "float32")
_PCIE = 32.0  # GB/s, of version 4.0


def _of_user(name: str, entry: Any, table: Mapping[str, Processor], place: Path) -> Processor:
    """A row of a file. `like` names the row that lends what is not given."""
    where = f"'{name}' in {place}"
    if not isinstance(entry, Mapping):
        raise UsageError(f"The entry {where} must be a mapping such as {{like: a100-80gb, bfloat16: 280}}.")
    for key, value in entry.items():
        if key not in (*_NUMBERS, *_WORDS):
            raise UsageError(f"Unknown key '{key}' of {where}; {nearest(str(key), (*_NUMBERS, *_WORDS))}")
        _check(key, value, where)
    given = {"source": str(place), **{key: value for key, value in entry.items() if key != "like"}}
    if "like" in entry:
        return dataclasses.replace(find(entry["like"], table), **{"device": "", **given, "name": name})
    missing = [key for key in _NEEDED if key not in entry]
    if missing:
        raise UsageError(f"The entry {where} lacks {missing[0]}; it needs {', '.join(_NEEDED)}, or `like`.")
    plain = dict.fromkeys(("tf32", "bfloat16", "float16", "float64"), entry["float32"])
    plain |= {"float16": entry.get("bfloat16", entry["float32"])}
    return Processor(**{"name": name, "link": _PCIE, **plain, **given})


def _check(key: str, value: Any, where: str) -> None:
    if key in _WORDS:
        if not isinstance(value, str):
            raise UsageError(f"'{key}' of {where} must be a word, not {value!r}.")
    elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise UsageError(f"'{key}' of {where} must be a number above 0, not {value!r}.")
