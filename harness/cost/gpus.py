"""The processors that a price can name, by data sheet, and those that a user adds. Torch-free.

A row has the dense peak of matrix products by precision. Data sheets print twice as much for tensor cores,
"with sparsity"; that is not meant here. A CPU's row is one core, because a run uses `threads` of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.config.settings import read_yaml
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
        device: part of the name that the driver gives it, by which records tell it; empty: not recognised.
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


_SHEETS = "https://www.nvidia.com/content/dam/en-zz/Solutions"
_AMPERE = "https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf"
_ADA = "https://images.nvidia.com/aem-dam/Solutions/Data-Center/l4/nvidia-ada-gpu-architecture-whitepaper-v2.1.pdf"
_A100 = f"{_SHEETS}/Data-Center/a100/pdf/nvidia-a100-datasheet-nvidia-us-2188504-web.pdf"
_HOPPER = "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet"
_BLACKWELL = (
    "https://www.nvidia.com/content/dam/en-zz/Solutions/design-visualization/quadro-product-literature/"
    "NVIDIA-RTX-Blackwell-PRO-GPU-Architecture-v1.0.pdf"
)
_FP64 = 64  # of these chips: a unit of double precision for so many of single precision


def _row(
    name: str,
    device: str,
    memory: float,
    bandwidth: float,
    link: float,
    float32: float,
    tf32: float,
    bfloat16: float,
    float64: float,
    source: str,
) -> Processor:
    rates = (float32, tf32, bfloat16, bfloat16, float64)
    return Processor(name, memory, bandwidth, link, *rates, device=device, source=source)


def _core(name: str, ghz: float, cycle32: int, cycle16: int, bandwidth: float, source: str) -> Processor:
    """A core by its operations in a cycle; bandwidth is about what one core gets out of its memory."""
    single, half = ghz * cycle32 / 1e3, ghz * cycle16 / 1e3
    rates = (single, single, half, single, single / 2)
    return Processor(name, 0, bandwidth, bandwidth, *rates, source=source, cpu=True)


# Links: PCIe 3.0, 4.0 and 5.0 x16 are 16, 32 and 64 GB/s in one direction, else NVLink.
_ROWS: Final = (
    _row(
        "v100",
        "V100",
        32,
        900,
        150,
        15.7,
        15.7,
        15.7,
        7.8,
        "https://images.nvidia.com/content/technologies/"
        "volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf",
    ),
    _row(
        "t4",
        "T4",
        16,
        320,
        16,
        8.1,
        8.1,
        8.1,
        0.25,
        f"{_SHEETS}/Data-Center/tesla-t4/t4-tensor-core-datasheet-951643.pdf",
    ),
    _row("rtx-3090", "RTX 3090", 24, 936, 32, 35.6, 35.6, 71.2, 35.6 / _FP64, _AMPERE),
    _row("a6000", "RTX A6000", 48, 768, 32, 38.7, 77.4, 154.8, 38.7 / _FP64, _AMPERE),
    _row("a40", "A40", 48, 696, 32, 37.4, 74.8, 149.7, 37.4 / _FP64, _AMPERE),
    _row("a100-40gb", "A100-SXM4-40GB", 40, 1555, 300, 19.5, 156, 312, 19.5, _A100),
    _row("a100-80gb", "A100-SXM4-80GB", 80, 2039, 300, 19.5, 156, 312, 19.5, _A100),
    _row("a100-pcie", "A100 80GB PCIe", 80, 1935, 32, 19.5, 156, 312, 19.5, _A100),
    _row("rtx-4090", "RTX 4090", 24, 1008, 32, 82.6, 82.6, 165.2, 82.6 / _FP64, _ADA),
    _row("l40", "L40", 48, 864, 32, 90.5, 90.5, 181, 90.5 / _FP64, _ADA),
    _row(
        "l40s",
        "L40S",
        48,
        864,
        32,
        91.6,
        183,
        362,
        91.6 / _FP64,
        f"{_SHEETS}/support-guide/NVIDIA-L40S-Datasheet.pdf",
    ),
    _row("h100-pcie", "H100 PCIe", 80, 2000, 64, 51, 378, 756, 51, _HOPPER),
    _row("h100", "H100 80GB HBM3", 80, 3350, 450, 67, 494, 989, 67, _HOPPER),
    _row("h200", "H200", 141, 4800, 450, 67, 494, 989, 67, _HOPPER),
    _row("rtx-pro-6000", "RTX PRO 6000 Blackwell", 96, 1792, 64, 125, 252, 504, 125 / _FP64, _BLACKWELL),
    _row("b200", "B200", 180, 8000, 900, 75, 1125, 2250, 37, "https://www.nvidia.com/en-us/data-center/hgx/"),
    # Zen 3: two 256-bit units; Zen 4: the same for float32, twice as much by bfloat16 dot products; Zen 5:
    # units of 512 bits; Sapphire Rapids: two of 512 bits, and tiles for bfloat16.
    _core(
        "zen3-core", 3.4, 32, 32, 20, "AMD EPYC 7763, https://www.agner.org/optimize/microarchitecture.pdf"
    ),
    _core(
        "zen4-core", 3.5, 32, 64, 25, "AMD EPYC 9654, https://www.agner.org/optimize/microarchitecture.pdf"
    ),
    _core(
        "zen5-core", 4.0, 64, 128, 30, "AMD EPYC 9755, https://www.agner.org/optimize/microarchitecture.pdf"
    ),
    _core("sapphire-rapids-core", 3.0, 64, 2048, 15, "Intel Xeon 8480+, Intel 64 optimization manual"),
)

# The V100 and T4 have tensor cores for float16 only.
_HALF: Final = {"v100": 125.0, "t4": 65.0}
PROCESSORS: Final = {
    row.name: dataclasses.replace(row, float16=_HALF.get(row.name, row.float16)) for row in _ROWS
}


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
    found = dict(PROCESSORS)
    places = [place for place in (root and root / FILE,) if place and place.is_file()]
    for place in [*places, *([file] if file else [])]:
        for name, entry in read_yaml(place).items():
            found[name] = _of_user(str(name), entry, found, place)
    return found


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
    """The processor whose driver calls it so; None if the table has none."""
    rows = [row for row in table.values() if row.device and row.device in device]
    return max(rows, key=lambda row: len(row.device), default=None)


# --- files of users ---

_NUMBERS = ("memory", "bandwidth", "link", "float32", "tf32", "bfloat16", "float16", "float64")
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
    own = {"source": str(place), **{key: value for key, value in entry.items() if key != "like"}}
    if "like" in entry:
        return dataclasses.replace(find(entry["like"], table), **{"device": "", **own, "name": name})
    missing = [key for key in _NEEDED if key not in entry]
    if missing:
        raise UsageError(f"The entry {where} lacks {missing[0]}; it needs {', '.join(_NEEDED)}, or `like`.")
    plain = dict.fromkeys(("tf32", "bfloat16", "float16", "float64"), entry["float32"])
    plain |= {"float16": entry.get("bfloat16", entry["float32"])}
    return Processor(**{"name": name, "link": _PCIE, **plain, **own})


def _check(key: str, value: Any, where: str) -> None:
    if key in _WORDS:
        if not isinstance(value, str):
            raise UsageError(f"'{key}' of {where} must be a word, not {value!r}.")
    elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise UsageError(f"'{key}' of {where} must be a number above 0, not {value!r}.")
