"""The section `program` of a sweep file: any training program in the place of our own loop. Torch-free.

A file with this section names settings as its program does. They become the settings of a run by a prefix:
those of `base` that of what all runs share, those of blocks and axes that of what is tuned.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from htbench.harness.config import template
from htbench.harness.config.names import flatten
from htbench.harness.config.programs import BASE, PREFIX, RULE
from htbench.harness.errors import UsageError
from htbench.harness.store.points import POINTS, SEED_FIELDS, SPEC
from htbench.sweeps.spec import keys
from htbench.sweeps.spec import program_folder as folder
from htbench.sweeps.spec.keys import key, kind, mapping, one_of, word

SECTION = "program"
_WORDS = ("task", "model")  # for tables; in every other way settings like others
_TAKEN = ("name", "hyper", "groups")  # of an optimizer: a setting of a block can't be called so
_OF_RUN = {"run_dir", "seed", "attempt", "key", *_WORDS}  # that every template may name


def _lines(name: str, value: Any) -> list[str]:
    """A list of regular expressions, at least one of whose groups has a name."""
    for text in value if isinstance(value, list) else [None]:
        try:
            named = isinstance(text, str) and re.compile(text).groupindex
        except re.error as error:
            raise UsageError(f"{name} has {text!r}, which is no regular expression: {error}.") from None
        if not named:
            raise UsageError(
                f"{name} must be a list of regular expressions with named groups, such as "
                rf"'step (?P<step>\d+): loss (?P<val_loss>\S+)', not {text!r}."
            )
    return list(value)


def _results(name: str, value: Any) -> list[dict[str, Any]]:
    """A list of files that the program leaves."""
    rows = value if isinstance(value, list) else [value]
    for row in rows:
        names = row.keys() if isinstance(row, Mapping) else set[str]()
        if not {"path"} <= names <= {"path", "list", "step", "names"}:
            raise UsageError(
                f"{name} must be a list such as [{{path: a.csv, step: step, names: {{val_loss: loss}}}}], "
                f"with `list` for the place of the rows in a JSON file, not {row!r}."
            )
    return [dict(row) for row in rows]


def _resume(name: str, value: Any) -> dict[str, str]:
    if value in ("self", "none"):
        return {"how": value}
    if isinstance(value, Mapping) and value.keys() == {"exists", "args"}:
        return {part: str(text) for part, text in value.items()}
    raise UsageError(f"{name} must be `self`, `none`, or a mapping with `exists` and `args`, not {value!r}.")


def _metric(name: str, value: Any) -> dict[str, Any]:
    whole = {"name": value} if isinstance(value, str) else value
    known = {"name", "direction", "take"}
    ways = {"direction": ("minimize", "maximize"), "take": ("last", "best")}
    if not isinstance(whole, Mapping) or "name" not in whole or whole.keys() - known:
        raise UsageError(f"{name} must be a word, or a mapping with name, direction and take, not {value!r}.")
    for part, choices in ways.items():
        one_of(choices)(f"{name}.{part}", whole.get(part, choices[0]))
    return dict(whole)


@dataclass(frozen=True)
class ProgramSection:
    """The section `program` of a sweep file."""

    command: str = key(
        kind(str, "the words that start the program, such as `python train.py {args}`"),
        None,
        "the words that start a run, split as a shell would, without one. `{NAME}` is a setting, `{args}` "
        "`--NAME=VALUE` of every setting that it names nowhere else, `{args_no_hyphens}` `NAME=VALUE`, "
        "`{run_dir}` the run's folder, `{seed}` its seed, `{{` a brace",
    )
    folder: str = key(
        kind(str, "a folder"),
        ".",
        "of the program, beside the sweep file: what git tracks or would add is copied into the store once",
    )
    link: list[str] = key(
        kind(list, "a list of files and folders"), (), "what git ignores and the program needs, such as data"
    )
    code: list[str] = key(
        kind(list, "a list of patterns of files"),
        ("*",),
        "files that make the numbers: other contents make other runs; default: all that is copied",
    )
    metric: Any = key(
        _metric,
        "val_loss",
        "by which settings are chosen: its last value, lower is better; or `{name: val_acc, direction: "
        "maximize, take: best}`",
    )
    report: str = key(
        word(), "", "the metric that tables show of fresh seeds; default: the same, and they say so"
    )
    seeds: str = key(
        one_of(("command", "env", "none")),
        None,
        "how it gets its seed: `command` (`{seed}` stands in it), `env` (HTBENCH_SEED), or `none`; default: "
        "`command` if `{seed}` stands there, else `env`",
    )
    resume: Any = key(
        _resume,
        None,
        "how a later attempt goes on: `self` (the program knows), `none` (from an empty folder), or "
        "`{exists: FILE, args: WORDS}` (with these words if there is the file); default: `none`",
    )
    derive: Mapping[str, str] = key(mapping, None, "settings computed of others, such as `{min_lr: lr / 10}`")
    env: Mapping[str, Any] = key(mapping, None, "variables of its environment; `{NAME}` as in `command`")
    log: list[str] = key(
        _lines, (), "regular expressions over its output; groups are named as metrics, and `step`"
    )
    files: list[dict[str, Any]] = key(
        _results,
        (),
        "files that it leaves in `{run_dir}`: `path` (JSON, JSON lines, CSV, or a folder of "
        "TensorBoard), `list` (where in the JSON), `step` (the column), `names` (of metrics, each with its "
        "column)",
    )
    data_version: str = key(word(), "", "a word for its data: another one makes other runs")
    pinned: Mapping[str, str] = key(mapping, None, "in the store's copy of a file: which files were copied")
    paired: bool = key(
        kind(bool, "true or false"), False, "whether equal seeds give equal data in equal order"
    )


def pin(raw: dict[str, Any], path: Path) -> dict[str, Any]:
    """A file as it goes into the store: it says where the program is, and what its files hold now.

    Args:
        raw: with a section `program`, interpolations as they are.
        path: of the file: the program's folder is relative to it.

    Raises:
        UsageError: there is no such folder.
    """
    section = dict(keys.mapping("'program'", raw[SECTION]))
    if "pinned" in section:
        return raw
    if path.name == SPEC and (path.parent / POINTS).exists():
        # A store may be anybody's: nothing else is read because its files say so.
        raise UsageError(
            "The store's copy does not say which files of the program were copied; give the file."
        )
    place = (path.parent / str(section.get("folder", "."))).resolve()
    files = folder.list_files(place)
    code = folder.digest(files, section.get("code") or ("*",))
    pinned = {"files": folder.digest(files), "code": code}
    return raw | {SECTION: section | {"folder": str(place), "pinned": pinned}}


def translate(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree of a pinned sweep file with the settings of its program as those of runs.

    Raises:
        UsageError: one sentence with the offending part.
    """
    given = keys.read(ProgramSection, keys.mapping("'program'", tree[SECTION]), SECTION, before="program.")
    if "command" not in given:
        raise UsageError("The section `program` needs `command`, such as `python train.py {args}`.")
    base = flatten(keys.mapping("'base'", tree.get("base") or {}))
    base.setdefault("task", Path(given["folder"]).name)
    base.setdefault("model", "program")
    texts = [given["command"], *map(str, given.get("env", {}).values())]
    places = set[str]().union(*map(template.names, texts))
    section = _settings(given, places)
    search = dict(tree.get("search") or {})
    if "pruner" in search:
        raise UsageError("search.pruner can't stop a program: it ends its runs itself.")
    if "rate" in search or search.get("mode") == "refine":
        search["rate"] = _tuned(str(search.get("rate", "lr")))
    blocks = [
        _block(number, row) for number, row in enumerate(tree.get("blocks") or [{"name": "program"}], 1)
    ]
    changed = {name: value for name, value in tree.items() if name not in (SECTION, "space", "exclude")}
    own = (*_WORDS, *SEED_FIELDS)
    changed["base"] = {name if name in own else f"{BASE}{name}": value for name, value in base.items()}
    changed["base"] |= {**section, "optimizer.name": RULE}
    changed["blocks"], changed["search"] = blocks, search
    changed["space"] = _of_block(tree.get("space") or {})
    if tree.get("exclude"):
        changed["exclude"] = [_of_block(row) for row in tree["exclude"]]
    whole = [row | {"space": changed["space"] | row["space"]} for row in blocks]
    _check_templates(given, places, base, whole)
    return changed


def _settings(given: Mapping[str, Any], places: set[str]) -> dict[str, Any]:
    """The section as settings of every run."""
    metric = given.get("metric") or {"name": "val_loss"}
    if given.get("seeds") == "command" and "seed" not in places:
        raise UsageError("program.seeds is `command`, but its command has no {seed}.")
    values = {
        "command": given["command"],
        "folder": given["folder"],
        **given["pinned"],
        "metric": metric["name"],
        "higher_is_better": metric.get("direction") == "maximize",
        "take": metric.get("take", "last"),
        "seeds": given.get("seeds") or ("command" if "seed" in places else "env"),
        "results": given.get("files", ()),
    }
    as_given = ("link", "report", "log", "data_version", "paired")
    values |= {name: given[name] for name in as_given if name in given}
    for name in ("resume", "derive", "env"):
        values |= {f"{name}.{part}": str(text) for part, text in given.get(name, {}).items()}
    return {f"{PREFIX}{name}": value for name, value in values.items() if value not in ((), [], "")}


def _block(number: int, row: Any) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise UsageError(f"Block {number} must be a mapping with name, set and space, not {row!r}.")
    if not row.get("name"):
        raise UsageError(f"Block {number} of a program needs a name: the word of its row in tables.")
    parts = {part: _of_block(row.get(part) or {}) for part in ("set", "space")}
    return {**row, **parts, "row": row.get("row") or row["name"]}


def _of_block(settings: Any) -> dict[str, Any]:
    named = keys.mapping("The settings of a block", settings)
    flat: dict[str, Any] = {}
    for name, value in named.items():
        is_nested = isinstance(value, Mapping) and not value.keys() & {"low", "high"}
        flat |= flatten(value, f"{name}.") if is_nested else {name: value}
    return {_tuned(name): value for name, value in flat.items()}


def _tuned(name: str) -> str:
    if name in _WORDS:
        return name
    if "." in name or name in _TAKEN:
        raise UsageError(
            f"A block's setting can't be called '{name}'; call it by another word and write "
            f"`--{name}={{word}}` into the command."
        )
    return f"optimizer.{name}"


def _check_templates(
    given: Mapping[str, Any], places: set[str], base: Mapping[str, Any], blocks: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse names in braces that stand for no setting, and settings that do not reach the program.

    Args:
        given: the section.
        places: the names that its command and its environment have in braces.
        base: the settings of every run.
        blocks: with `set` and `space` as runs have them.
    """
    derived = given.get("derive", {})
    named = {name.removeprefix("optimizer.") for row in blocks for name in (*row["set"], *row["space"])}
    known = {*base, *derived, *_OF_RUN} | named
    template.check_names(template.names(given["command"]), known | {*template.ALL}, "program.command")
    for part in ("env", "resume"):
        for text in given.get(part, {}).values():
            template.check_names(template.names(str(text)), known, f"program.{part}")
    reached = places | (known - {*_WORDS} if places & template.ALL.keys() else set())
    for name in derived.keys() & reached:
        reached |= template.expression_names(str(derived[name]))
    # Runs may differ in what is searched, and in what blocks set unlike.
    differing = {name.removeprefix("optimizer.") for block in blocks for name in block["space"]}
    for name in {name for block in blocks for name in block["set"]}:
        plain = name.removeprefix("optimizer.")
        if len({repr(block["set"].get(name, base.get(plain))) for block in blocks}) > 1:
            differing.add(plain)
    for name in sorted(differing - reached):
        raise UsageError(
            f"Its runs differ in {name}, which does not reach the program; write {{{name}}} or {{args}} into "
            f"`program.command`, or {{{name}}} into `program.env`."
        )
