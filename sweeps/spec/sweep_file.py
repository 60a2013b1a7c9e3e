"""Reads a sweep file; every mistake in it is one clear sentence. Torch-free.

A file that a user gives may name optimizers, models and tasks of his own; to plan it runs their code. A copy
in a store may be anybody's: only who trains its runs imports what it names, and never from beside it.
"""

import copy
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from htbench.harness.config import Value, parts, yaml_text
from htbench.harness.config.names import flatten
from htbench.harness.config.settings import FIELDS, is_setting, known_settings
from htbench.harness.config.yaml_text import interpolated, read_words, read_yaml
from htbench.harness.errors import UsageError, nearest
from htbench.harness.store import naming
from htbench.harness.store.layout import sweeps_folder
from htbench.harness.store.points import POINTS, SEED_FIELDS, SPEC, is_sweep_name, is_tuned
from htbench.sweeps.spec import compiling, keys, program, resources
from htbench.sweeps.spec.search import REFINE, Range, Search, read_axis, read_search
from htbench.sweeps.spec.sweep import Axes, Block, Replicate, SweepSpec, whole_seeds


def load_all(
    words: Sequence[str], settings: Sequence[str], root: Path, *, trains: bool = False
) -> list[SweepSpec]:
    """Read the sweeps and allow their parts.

    Modules are looked for in the folders of the files, then in the working folder.

    Args:
        words: sweep files, folders or names.
        settings: `key=value` words that override settings of their base.
        root: the store.
        trains: whether the command trains runs, so that parts in a stored file are allowed, too.

    Raises:
        UsageError: there is no such file, or it is wrong.
    """
    paths = [path for word in words for path in naming.files(word, root)]
    loaded = [(path, load(path, list(settings))) for path in paths]
    from_user = [(path, spec) for path, spec in loaded if not _is_stored(path, root)]
    for path, spec in from_user:  # a stored one may have been submitted already
        for block in spec.blocks:
            block.resources.check_written(path)
    allowed = [spec for _, spec in (loaded if trains else from_user)]
    parts.allow({name for spec in allowed for name in spec.parts()}, *(path.parent for path, _ in from_user))
    return [spec for _, spec in loaded]


def _is_stored(path: Path, root: Path) -> bool:
    """Whether a sweep file is the copy that a store keeps beside a plan."""
    below = path.resolve().is_relative_to(sweeps_folder(root).resolve())
    return path.name == SPEC and (below or (path.parent / POINTS).exists())


def load(path: Path, words: list[str] | None = None) -> SweepSpec:
    """Read a sweep file.

    Args:
        path: YAML, always read through OmegaConf.
        words: `key=value` words from the command line: settings of the base, and `name`.

    Raises:
        UsageError: one sentence that names the file and the offending part.
    """
    from omegaconf import OmegaConf

    chosen = read_words(words or [])
    name = {key: chosen.pop(key) for key in ("name",) if key in chosen}
    try:
        raw = read_yaml(path, resolve=False)
        text = path.read_text(encoding="utf-8")
        is_program = program.SECTION in raw
        overrides = chosen if is_program else _settings(chosen, "the command line")
        raw = program.pin(raw, path) if is_program else raw
        if overrides or name or is_program:
            # The store keeps the file with the words in it: a stored sweep means what was planned.
            base = raw.get("base") or {}  # as a whole it may be an interpolation
            base = base if isinstance(base, Mapping) else interpolated(raw, path).get("base")
            base = copy.deepcopy(dict(keys.mapping("'base'", base)))
            for setting, value in overrides.items():  # each in its place, however it is nested there
                if not _replace(base, setting, value):
                    base[setting] = value
            raw = raw | name | {"base": base}
            text = OmegaConf.to_yaml(OmegaConf.create(raw))  # interpolations as they are
        return _parse(_resolved(raw, path), path, text)
    except UsageError as error:
        message = str(error)
        raise UsageError(message if str(path) in message else f"{path}: {message}") from None


def _replace(tree: dict[str, Any], path: str, value: Value) -> bool:
    """Put a value in the place of the one that the file has; whether there was one."""
    if path in tree:
        tree[path] = value
        return True
    return any(
        path.startswith(f"{key}.")
        and isinstance(inner, dict)
        and _replace(inner, path.removeprefix(f"{key}."), value)
        for key, inner in tree.items()
    )


def _resolved(raw: dict[str, Any], path: Path) -> dict[str, Any]:
    """A file with its interpolations resolved, but not where the store would keep a secret."""
    search, blocks = raw.get("search"), raw.get("blocks")
    for part in (raw, *(blocks if isinstance(blocks, list) else ())):
        wants = part.get("resources") if isinstance(part, dict) else None
        if isinstance(wants, dict) and "${oc.env:" in str(wants.get("setup")):
            raise UsageError(
                "${oc.env:NAME} in `setup` would write what it stands for into the store, with the script of "
                "the jobs; write $NAME: their shell knows the variables of the one that submits."
            )
    storage = search.pop("storage", None) if isinstance(search, dict) else None
    tree = interpolated(raw, path)
    return tree if storage is None else tree | {"search": tree["search"] | {"storage": storage}}


def _parse(tree: dict[str, Any], path: Path, text: str) -> SweepSpec:
    if not tree:
        raise UsageError(f"'{path}' is empty; a sweep needs at least `base`, with task, model and steps.")
    if program.SECTION in tree:
        tree = program.translate(tree)
    given = keys.read(SweepSpec, tree, "the sweep", before="'", after="'")
    yaml_text.check_word("The name", given.get("name"))
    name = naming.name_of(path, given)
    if not is_sweep_name(name):
        raise UsageError(
            f"The name '{name}' must consist of letters, digits, '.', '_' and '-', at most 100 of them, and "
            f"begin with a letter, a digit or '_'."
        )
    base = _settings(given.get("base", {}), "base")
    every = base.get("evaluation.every")
    search = read_search(given.get("search", {}), every if type(every) is int else 0)
    space = _axes(given.get("space", {}), "space", search)
    wanted = given.get("resources", {})
    of_all = resources.read(wanted, "resources")
    replicate = keys.read(Replicate, given.get("replicate", {}), "replicate", before="replicate.")
    spec = SweepSpec(
        name=name,
        base=base,
        seeds=whole_seeds("'seeds'", given.get("seeds", [base.get("seed", 0)])),
        data_seeds=given.get("data_seeds", []),
        blocks=[
            _block(row, number, space, search, wanted)
            for number, row in enumerate(given.get("blocks") or [{"name": name}], 1)
        ],
        space=space,
        exclude=[_settings(row, "exclude") for row in given.get("exclude", [])],
        search=search,
        replicate=Replicate(**replicate),
        resources=of_all,
        stack=given.get("stack", "auto"),
        compile=given.get("compile", False),
        text=text,
    )
    names = [block.name for block in spec.blocks]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"Two blocks have the same name '{twice[0]}'.")
    if search.has_slots and len(spec.seeds) > 1:
        raise UsageError(
            f"A search runs each setting on one seed, not on {spec.seeds}; winners get more by 'replicate'."
        )
    _check_hyperparameters(spec)
    if search.mode == REFINE:
        _check_rates(spec)
    spec.check_size()
    if not spec.compile:
        return spec
    if spec.is_program:
        raise UsageError("A program compiles what it likes; 'compile' is for runs of our training loop.")
    is_compiled = compiling.pays(spec) if spec.compile == "auto" else True
    return replace(spec, base={"compile": is_compiled} | spec.base)


def _block(row: Any, number: int, space: Axes, search: Search, wanted: Mapping[str, Any]) -> Block:
    if not isinstance(row, Mapping):
        raise UsageError(f"Block {number} must be a mapping with name, set and space, not {row!r}.")
    given = keys.read(Block, row, f"block {number}", before="The ", after=f" of block {number}")
    fixed = _settings(given.get("set", {}), f"block {number}")
    name = given.get("name") or fixed.get("optimizer.name") or number
    row_name = given.get("row") or ""
    for what, word in {"name": name, "row": row_name}.items():
        yaml_text.check_word(f"The {what} of block {number}", given.get(what))
        if not isinstance(word, str | int) or not str(word).isprintable():
            raise UsageError(f"The {what} of block {number} must be a word, not {word!r}.")
    where = f"block '{name}'"
    axes = space | _axes(given.get("space", {}), where, search)
    of_block = resources.read({**wanted, **given.get("resources", {})}, where)
    return Block(str(name), str(row_name), fixed, axes, of_block)


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
    name, rules_of = "optimizer.name", dict[str, list[Value]]()
    for block in spec.blocks:
        axis = block.space.get(name)
        fixed = (spec.base | block.set).get(name, FIELDS[name].default)
        rules_of[block.name] = axis if isinstance(axis, list) else [fixed]
    all_rules = [rule for rules in rules_of.values() for rule in rules]
    for name in (*spec.base, *(name for row in spec.exclude for name in row)):
        _check_name(name, "base" if name in spec.base else "exclude", all_rules)
    for block in spec.blocks:
        for name in (*block.set, *block.space):
            _check_name(name, f"block '{block.name}'", rules_of[block.name])


def _check_rates(spec: SweepSpec) -> None:
    """Refuse what can't be refined: no rates, others than octaves, or more settings than trials."""
    rate, trials = spec.search.rate, spec.search.trials
    if any(rate in row for row in spec.exclude):
        raise UsageError(f"'exclude' can't hold {rate}, which is refined; narrow its axis instead.")
    for block in spec.blocks:
        if rate not in block.space:
            raise UsageError(
                f"Block '{block.name}' has no rate to refine: mode 'refine' needs an axis {rate}, "
                f"such as [0.01, 0.02, 0.04]."
            )
        values = cast(list[Any], block.space[rate])
        numbers = sorted(value for value in values if type(value) in (int, float) and value > 0)
        octaves = [high / low for low, high in itertools.pairwise(numbers)]
        if len(numbers) < len(values) or not octaves or not all(1.85 < ratio < 2.15 for ratio in octaves):
            raise UsageError(
                f"{rate} of block '{block.name}' must be two rates or more, each twice the one before, "
                f"such as [0.01, 0.02, 0.04], not {values}."
            )
        first = math.prod(len(values) for name, values in block.listed.items() if is_tuned(name))
        if first > trials:
            raise UsageError(
                f"The first round of block '{block.name}' has {first} settings, "
                f"more than search.trials={trials}."
            )


def _axes(tree: Mapping[str, Any], where: str, search: Search, prefix: str = "") -> Axes:
    """The settings to try, by their dotted names: lists of values, and ranges if they are searched."""
    axes: Axes = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and not value.keys() & keys.declared(Range).keys():
            axes |= _axes(value, where, search, f"{name}.")
            continue
        _check_name(name, where)
        if name in SEED_FIELDS:
            raise UsageError(f"'{name}' in {where} is no axis to choose from; list seeds under 'seeds'.")
        if isinstance(value, Mapping):
            tried = read_axis(name, value, search)
            axes[name] = tried if isinstance(tried, Range) else list(tried)
        elif not isinstance(value, list):
            raise UsageError(
                f"{name} in {where} must be a list or a range {{low, high, log, num}}, not {value!r}."
            )
        elif not value:
            raise UsageError(f"{name} in {where} has no values.")
        else:
            axes[name] = value
    return axes
