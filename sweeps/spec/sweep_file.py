"""Reads a sweep file; every mistake in it is one clear sentence. Torch-free."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.config import Value, yaml_text
from harness.config.names import flatten
from harness.config.settings import FIELDS, is_setting, known_settings
from harness.config.yaml_text import interpolated, read_words, read_yaml
from harness.errors import UsageError, nearest
from harness.store.points import SEED_FIELDS, SOURCE, SPEC, is_sweep_name, sweep_folder, sweep_names
from sweeps.spec import limits, resources
from sweeps.spec.search import RANGE_KEYS, Search, read_range, read_search
from sweeps.spec.shape import check_keys, mapping
from sweeps.spec.sweep import Axes, Block, SweepSpec
from sweeps.spec.words import to_text, with_words

_TOP_KEYS = {"name", "base", "seeds", "space", "blocks", "exclude", "search", "replicate", "resources"}
_BLOCK_KEYS = {"name", "set", "space", "resources"}


def find(word: str, root: Path) -> Path:
    """Find the sweep file that a word on the command line names.

    It is a path, a folder with a spec.yaml, a sweep of the store, or a sweep of this package.

    Raises:
        UsageError: it is none of them.
    """
    path = Path(word)
    stored = sweep_folder(root, word) / SPEC if is_sweep_name(word) else path
    shipped = [file for file in _shipped() if file.stem == word]
    for candidate in (path / SPEC if path.is_dir() else path, stored, *shipped):
        if candidate.is_file():
            return candidate
    check_own(root, word)
    if path.is_dir():
        raise UsageError(f"The folder '{word}' holds no sweep file, neither spec.yaml nor another *.yaml.")
    raise UsageError(f"There is no sweep file or folder '{word}'; {_alike(path, root)}")


def _alike(path: Path, root: Path) -> str:
    """The end of a sentence on a file that is not there: what is called almost so."""
    shipped = [file.stem for file in _shipped()]
    beside = {file.stem: str(path.with_name(file.name)) for file in path.parent.glob("*.yaml")}
    known = {name: name for name in [*shipped, *sweep_names(root)]} | beside
    if near := difflib.get_close_matches(path.stem, known, n=1):
        return f"did you mean '{known[near[0]]}'?"
    return f"no other file there, sweep of the store or shipped sweep, such as {shipped[0]}, is like it."


def check_own(root: Path, name: str) -> None:
    """Raise UsageError if the store has runs of other trainers under the name of a sweep."""
    if is_sweep_name(name) and (sweep_folder(root, name) / SOURCE).exists():
        raise UsageError(
            f"'{name}' was imported from files of another trainer, so there is nothing to run; "
            f"`htbench runs ls --sweep {name}` lists its runs, and tables show them."
        )


def _shipped() -> list[Path]:
    """The sweep files of this package, sorted by name."""
    return sorted(Path(__file__).parents[1].glob("*/*.yaml"), key=lambda file: file.stem)


def find_all(word: str, root: Path) -> list[Path]:
    """Like `find`, but a folder means every sweep file in it."""
    files = sorted(Path(word).glob("*.yaml"))
    return files if files and not Path(word, SPEC).is_file() else [find(word, root)]


def load(path: Path, words: list[str] | None = None) -> SweepSpec:
    """Read a sweep file.

    Args:
        path: YAML, always read through OmegaConf.
        words: `key=value` words from the command line: settings of the base, and `name`.

    Raises:
        UsageError: one sentence that names the file and the offending part.
    """
    given = read_words(words or [])
    name = {key: given.pop(key) for key in ("name",) if key in given}
    overrides = _settings(given, "the command line")
    try:
        raw = read_yaml(path, resolve=False)
        text = path.read_text(encoding="utf-8")
        if given or name:
            base = raw.get("base")  # as a whole it may be an interpolation
            own = base if isinstance(base, Mapping) else mapping(interpolated(raw, path), "base")
            raw = raw | name | {"base": with_words(own, overrides)}
            text = to_text(raw)
        return _parse(_resolved(raw, path), path, text)
    except UsageError as error:
        message = str(error)
        raise UsageError(message if str(path) in message else f"{path}: {message}") from None


def _resolved(raw: dict[str, Any], path: Path) -> dict[str, Any]:
    """A file with its interpolations resolved, but not where the store would keep a secret."""
    search = raw.get("search")
    storage = search.pop("storage", None) if isinstance(search, dict) else None
    _check_setup(raw, *(raw["blocks"] if isinstance(raw.get("blocks"), list) else []))
    tree = interpolated(raw, path)
    return tree if storage is None else tree | {"search": tree["search"] | {"storage": storage}}


def _check_setup(*parts: Any) -> None:
    """Refuse what would write our environment into the script of jobs, which the store keeps."""
    for part in parts:
        wants = part.get("resources") if isinstance(part, dict) else None
        if isinstance(wants, dict) and "${oc.env:" in str(wants.get("setup")):
            raise UsageError(
                "${oc.env:NAME} in `setup` would write what it stands for into the store, with the script of "
                "the jobs; write $NAME: their shell knows the variables of the one that submits."
            )


def _parse(tree: dict[str, Any], path: Path, text: str) -> SweepSpec:
    if not tree:
        raise UsageError(f"'{path}' is empty; a sweep needs at least `base`, with task, model and steps.")
    check_keys(tree, _TOP_KEYS, "the sweep")
    given = tree.get("name")
    yaml_text.check_word("The name", given)
    own = path.resolve().parent.name if path.name == SPEC else path.stem  # the former in the store
    name = own if given is None else str(given)
    if not is_sweep_name(name):
        raise UsageError(
            f"The name '{name}' must consist of letters, digits, '.', '_' and '-', at most 100 of them, and "
            f"begin with a letter, a digit or '_'."
        )
    base = _settings(mapping(tree, "base"), "base")
    search = read_search(mapping(tree, "search"), _evaluation_every(base))
    common = _axes(mapping(tree, "space"), "space", search)
    rows = tree.get("blocks") or [{"name": name}]
    if not isinstance(rows, list):
        raise UsageError(f"'blocks' must be a list of blocks, not {rows!r}.")
    shared = mapping(tree, "resources")
    resources.read(shared, "resources")
    blocks = [_block(row, number, common, search, shared) for number, row in enumerate(rows, 1)]
    names = [block.name for block in blocks]
    if len(set(names)) < len(names):
        raise UsageError(f"Two blocks have the same name '{next(n for n in names if names.count(n) > 1)}'.")
    seeds = _seeds(tree.get("seeds", [base.get("seed", 0)]))
    if not search.is_grid and len(seeds) > 1:
        raise UsageError(
            f"A search runs each trial on one seed, not on {seeds}; winners get more by 'replicate'."
        )
    spec = SweepSpec(
        name=name,
        base=base,
        seeds=seeds,
        blocks=blocks,
        exclude=_exclude(tree.get("exclude")),
        search=search,
        fresh_seeds=_fresh_seeds(mapping(tree, "replicate")),
        text=text,
    )
    _check_hyperparameters(spec)
    limits.check_size(spec)
    return spec


def _exclude(value: Any) -> list[dict[str, Value]]:
    if value is not None and not isinstance(value, list):
        raise UsageError(
            f"'exclude' must be a list of mappings, such as [{{optimizer.lr: 1}}], not {value!r}."
        )
    return [_settings(row, "exclude") for row in value or []]


def _evaluation_every(base: Mapping[str, Value]) -> int:
    value = base.get("evaluation.every", 0)
    return value if type(value) is int else 0


def _block(row: Any, number: int, common: Axes, search: Search, shared: dict[str, Any]) -> Block:
    if not isinstance(row, Mapping):
        raise UsageError(f"Block {number} must be a mapping with name, set and space, not {row!r}.")
    check_keys(row, _BLOCK_KEYS, f"block {number}")
    fixed = _settings(mapping(row, "set"), f"block {number}")
    name = row.get("name") or fixed.get("optimizer.name") or number
    yaml_text.check_word(f"The name of block {number}", row.get("name"))
    if not isinstance(name, str | int) or not str(name).isprintable():
        raise UsageError(f"The name of block {number} must be a word, not {name!r}.")
    name = str(name)
    where = f"block '{name}'"
    own = resources.read(shared | mapping(row, "resources"), where)
    return Block(name, fixed, common | _axes(row.get("space") or {}, where, search), own)


def _settings(tree: Any, where: str) -> dict[str, Value]:
    if not isinstance(tree, Mapping):
        raise UsageError(f"{where} must be a mapping of settings, not {tree!r}.")
    flat = flatten(tree)
    for name in flat:
        _check_name(name, where)
    return flat


def _check_name(name: str, where: str, rules: Iterable[Value] = ("any",)) -> None:
    """Refuse a name that no config has. Each point is checked later against its own optimizer."""
    if not is_setting(name, rules):
        raise UsageError(f"Unknown setting '{name}' in {where}; {nearest(name, known_settings())}")


def _check_hyperparameters(spec: SweepSpec) -> None:
    """Refuse settings that no optimizer of their block has; those of an outside optimizer are not known."""
    rules = {block.name: _rules(spec.base, block) for block in spec.blocks}
    all_rules = [rule for found in rules.values() for rule in found]
    for name in (*spec.base, *(name for row in spec.exclude for name in row)):
        _check_name(name, "base" if name in spec.base else "exclude", all_rules)
    for block in spec.blocks:
        for name in (*block.set, *block.space):
            _check_name(name, f"block '{block.name}'", rules[block.name])


def _rules(base: dict[str, Value], block: Block) -> list[Value]:
    """The optimizers of a block."""
    name = "optimizer.name"
    axis = block.space.get(name)
    return axis if isinstance(axis, list) else [(base | block.set).get(name, FIELDS[name].default)]


def _axes(tree: Any, where: str, search: Search, prefix: str = "") -> Axes:
    if not isinstance(tree, Mapping):
        raise UsageError(f"{where} must be a mapping from settings to values, not {tree!r}.")
    axes: Axes = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and not value.keys() & RANGE_KEYS:
            axes |= _axes(value, where, search, f"{name}.")
            continue
        _check_name(name, where)
        if name in SEED_FIELDS:
            raise UsageError(f"'{name}' in {where} is no axis to choose from; list seeds under 'seeds'.")
        if isinstance(value, Mapping):
            found = read_range(name, value, search.is_grid)
            axes[name] = found.points() if search.is_grid else found
        else:
            axes[name] = _choices(name, value, where)
    return axes


def _choices(name: str, value: Value, where: str) -> list[Value]:
    if not isinstance(value, list):
        raise UsageError(
            f"{name} in {where} must be a list or a range {{low, high, log, num}}, not {value!r}."
        )
    if not value:
        raise UsageError(f"{name} in {where} has no values.")
    return value


def _seeds(value: Any) -> list[int]:
    if not isinstance(value, list) or not value or not all(type(seed) is int and seed >= 0 for seed in value):
        raise UsageError(f"'seeds' must be a list of whole numbers from 0, such as [0, 1, 2], not {value!r}.")
    return value


def _fresh_seeds(tree: Mapping[str, Any]) -> int:
    check_keys(tree, {"seeds"}, "replicate")
    count = tree.get("seeds", 0)
    if type(count) is not int or count < 0:
        raise UsageError(f"replicate.seeds must be a number of seeds, such as 3, not {count!r}.")
    return count
