"""A sweep file: what it may say, and every mistake in it as one clear sentence. Torch-free."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optimizers
from harness.config import Value
from harness.errors import UsageError, nearest
from harness.plans import SEED_FIELDS, sweep_folder
from harness.settings import FIELDS, flatten, read_words, read_yaml

_RANGE_KEYS = {"low", "high", "log", "num"}
_TOP_KEYS = {"name", "base", "seeds", "space", "blocks", "exclude", "search", "replicate", "resources"}
_BLOCK_KEYS = {"name", "set", "space"}

Axes = dict[str, list[Value]]


@dataclass(frozen=True)
class Block:
    """A part of the grid: `set` fixes settings, `space` is multiplied out; usually one per optimizer."""

    name: str
    set: dict[str, Value]
    space: Axes


@dataclass(frozen=True)
class SweepSpec:
    """A whole sweep file.

    Attributes:
        name: names its folder in the store.
        base: settings of every point.
        seeds: every point is run on each.
        blocks: their points together are the sweep.
        exclude: a point that matches all settings of one of these is left out.
        fresh_seeds: number of seeds on which each objective's winner is run again; 0 for none.
        resources: what a job may use.
        text: the file as written.
    """

    name: str
    base: dict[str, Value]
    seeds: list[int]
    blocks: list[Block]
    exclude: list[dict[str, Value]] = field(default_factory=list)
    fresh_seeds: int = 0
    resources: dict[str, Value] = field(default_factory=dict)
    text: str = ""


def find(word: str, root: Path) -> Path:
    """The sweep file a word on the command line means: a file, a folder with a spec.yaml, or a shipped sweep.

    Raises:
        UsageError: it is none of them.
    """
    path = Path(word)
    shipped = Path(__file__).parent / f"{word}.yaml"
    stored = sweep_folder(root, word) / "spec.yaml" if re.fullmatch(r"[\w.-]+", word) else path
    for candidate in (path / "spec.yaml" if path.is_dir() else path, stored, shipped):
        if candidate.is_file():
            return candidate
    known = ", ".join(sorted(p.stem for p in Path(__file__).parent.glob("*.yaml")))
    raise UsageError(f"There is no sweep file or folder '{word}'; shipped sweeps are: {known}.")


def load(path: Path, words: list[str] | None = None) -> SweepSpec:
    """Read a sweep file.

    Args:
        path: YAML, always read through OmegaConf.
        words: `key=value` words that override settings of the base, from the command line.

    Raises:
        UsageError: one sentence that names the file and the offending part.
    """
    overrides = _settings(read_words(words or []), "the command line")
    try:
        return _parse(read_yaml(path), path, overrides)
    except UsageError as error:
        message = str(error)
        raise UsageError(message if str(path) in message else f"{path}: {message}") from None


def _parse(tree: dict[str, Any], path: Path, overrides: dict[str, Value]) -> SweepSpec:
    _check_keys(tree, _TOP_KEYS, "the sweep")
    name = str(tree.get("name", path.stem))
    if not re.fullmatch(r"[\w.-]+", name):
        raise UsageError(f"The name '{name}' must consist of letters, digits, '.', '_' and '-'.")
    _check_search(_mapping(tree, "search"))
    base = _settings(_mapping(tree, "base"), "base") | overrides
    common = _axes(_mapping(tree, "space"), "space")
    rows = tree.get("blocks") or [{"name": name}]
    if not isinstance(rows, list):
        raise UsageError(f"'blocks' must be a list of blocks, not {rows!r}.")
    blocks = [_block(row, number, common) for number, row in enumerate(rows, 1)]
    names = [block.name for block in blocks]
    if len(set(names)) < len(names):
        raise UsageError(f"Two blocks have the same name '{next(n for n in names if names.count(n) > 1)}'.")
    return SweepSpec(
        name=name,
        base=base,
        seeds=_seeds(tree.get("seeds", [base.get("seed", 0)])),
        blocks=blocks,
        exclude=[_settings(row, "exclude") for row in tree.get("exclude") or []],
        fresh_seeds=_fresh_seeds(_mapping(tree, "replicate")),
        resources=_mapping(tree, "resources"),
        text=path.read_text(encoding="utf-8"),
    )


def _block(row: Any, number: int, common: Axes) -> Block:
    if not isinstance(row, Mapping):
        raise UsageError(f"Block {number} must be a mapping with name, set and space, not {row!r}.")
    _check_keys(row, _BLOCK_KEYS, f"block {number}")
    fixed = _settings(row.get("set") or {}, f"block {number}")
    name = str(row.get("name") or fixed.get("optimizer.name") or number)
    return Block(name, fixed, common | _axes(row.get("space") or {}, f"block '{name}'"))


def _check_keys(tree: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in tree:
        if key not in known:
            raise UsageError(f"Unknown key '{key}' in {where}; {nearest(str(key), known)}")


def _mapping(tree: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = tree.get(key) or {}
    if not isinstance(value, Mapping):
        raise UsageError(f"'{key}' must be a mapping, not {value!r}.")
    return dict(value)


def _settings(tree: Any, where: str) -> dict[str, Value]:
    if not isinstance(tree, Mapping):
        raise UsageError(f"{where} must be a mapping of settings, not {tree!r}.")
    flat = flatten(tree)
    for name in flat:
        _check_name(name, where)
    return flat


def _check_name(name: str, where: str) -> None:
    """Refuse a name that no config can have; whether this optimizer has it is checked for each point."""
    hyper = {f"optimizer.{param}" for row in optimizers.ZOO.values() for param in row.params}
    if name not in FIELDS and name not in hyper:
        raise UsageError(f"Unknown setting '{name}' in {where}; {nearest(name, hyper | set(FIELDS))}")


def _axes(tree: Any, where: str, prefix: str = "") -> Axes:
    if not isinstance(tree, Mapping):
        raise UsageError(f"{where} must be a mapping from settings to values, not {tree!r}.")
    axes: Axes = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and not value.keys() & _RANGE_KEYS:
            axes |= _axes(value, where, f"{name}.")
            continue
        _check_name(name, where)
        if name in SEED_FIELDS:
            raise UsageError(f"'{name}' in {where} is no axis to choose from; list seeds under 'seeds'.")
        axes[name] = _range(name, value) if isinstance(value, Mapping) else _choices(name, value, where)
    return axes


def _choices(name: str, value: Value, where: str) -> list[Value]:
    if not isinstance(value, list):
        raise UsageError(
            f"{name} in {where} must be a list or a range {{low, high, log, num}}, not {value!r}."
        )
    if not value:
        raise UsageError(f"{name} in {where} has no values.")
    return value


def _range(name: str, tree: Mapping[str, Any]) -> list[Value]:
    """`num` points from low to high, rounded to four digits so that people can type them."""
    _check_keys(tree, _RANGE_KEYS, f"the range of {name}")
    try:
        low, high, count = float(tree["low"]), float(tree["high"]), int(tree["num"])
    except KeyError as error:
        raise UsageError(f"The range of {name} lacks {error}; a grid needs low, high and num.") from None
    except (TypeError, ValueError):
        raise UsageError(f"The range of {name} must hold numbers, not {dict(tree)}.") from None
    log = bool(tree.get("log", False))
    if count < 1 or low >= high or (log and low <= 0):
        raise UsageError(
            f"The range of {name} must have num >= 1 and low < high (above 0 if log), not {dict(tree)}."
        )
    parts = [i / (count - 1) if count > 1 else 0.0 for i in range(count)]
    points = [low * (high / low) ** part if log else low + (high - low) * part for part in parts]
    return [float(f"{point:.4g}") for point in points]


def _seeds(value: Any) -> list[int]:
    if not isinstance(value, list) or not value or not all(type(seed) is int and seed >= 0 for seed in value):
        raise UsageError(f"'seeds' must be a list of whole numbers from 0, such as [0, 1, 2], not {value!r}.")
    return value


def _fresh_seeds(tree: Mapping[str, Any]) -> int:
    _check_keys(tree, {"seeds"}, "replicate")
    count = tree.get("seeds", 0)
    if type(count) is not int or count < 0:
        raise UsageError(f"replicate.seeds must be a number of seeds, such as 3, not {count!r}.")
    return count


def _check_search(tree: Mapping[str, Any]) -> None:
    if tree.get("mode", "grid") != "grid":
        raise UsageError(f"search.mode '{tree['mode']}' is not available; use 'grid'.")
    _check_keys(tree, {"mode"}, "search")
