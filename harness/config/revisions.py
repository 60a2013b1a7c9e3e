"""Which version of the code makes a run's numbers: revisions above 1, and edits that are not released.

A part of a run (its optimizer, model, task, or the loop) has the revision of its row. `released.json` holds
the digests of the released code. Where a part differs from it, a digest of what it is now goes into the
config and so into the key: edited code makes runs of its own, and the released code keeps its runs. A change
that alters no numbers, or one whose row got a higher revision, is released by
`python -m htbench.harness.config.revisions --write`.
"""

import functools
import hashlib
import json
import sys
from collections.abc import Mapping

from htbench import models, optimizers
from htbench.harness.config import RunConfig, Value, digest
from htbench.harness.config import parts as outside
from htbench.harness.system.environment import HOME
from htbench.harness.tasks import TaskSpec
from htbench.imported import load
from htbench.models import ModelSpec
from htbench.optimizers.zoo.registry import OptimizerSpec

PLACE = HOME / "harness" / "config" / "released.json"

# The second is reached from the state of a checkpoint, which is no code that makes numbers.
_LOOP = ("htbench.harness.train.loop", "htbench.harness.train.divergence")
_ASSEMBLY = "htbench.optimizers.assemble"  # decides which parameter gets which rule


def current(config: RunConfig, task: TaskSpec, model: ModelSpec, rule: OptimizerSpec) -> dict[str, int | str]:
    """The revision of every part that is not at the first one as released, by "optimizer", "loop" and so on.

    A number above 1 is a released revision. "1+3fa1c2d4" is revision 1, edited: what follows is a digest of
    the code that the part needs now. A part from outside has no revision, but the word of
    `harness/config/parts.py` for its code.

    Args:
        config: resolved but for its `revisions`.
        task, model, rule: their rows.
    """
    edits = {
        "optimizer": _edit_of(rule, config.optimizer.routing, config.optimizer.hyper),
        "model": _edit((_module(model.target),), frozenset(), *_declared(model)),
        "task": _edit((_module(task.loader),)),
        "loop": _edit(_LOOP),
    }
    words: dict[str, int | str] = {"optimizer": rule.revision, "model": model.revision, "task": task.revision}
    for part, row in outside.of_groups(config).items():
        words[part] = row.revision
        edits[part] = _edit_of(row, "released", config.optimizer.groups[part.removeprefix("group ")])
    words |= {part: outside.source_word(place) for part, place in outside.parts(config).items()}
    found = {
        part: f"{words.get(part, 1)}+{edit}" if edit else words.get(part, 1) for part, edit in edits.items()
    }
    found["optimizer"] = _with_groups(found, rule.revision)
    return {part: word for part, word in found.items() if word != 1 and not part.startswith("group ")}


def _with_groups(found: dict[str, int | str], revision: int) -> int | str:
    """The word of the optimizer, in which those of its groups are told, too."""
    own = [f"{part} {word}" for part, word in found.items() if part.startswith("group ") and word != 1]
    main = found["optimizer"]
    if not own:
        return main
    if any("+" in str(word) for word in (main, *own)):  # edited: what is left of the sign is a number
        return f"{revision}+{_digest((main, *own))[:8]}"
    return "; ".join([str(main), *own])


def _module(place: str) -> str:
    return place.partition(":")[0]


def _modules_of(rule: OptimizerSpec) -> tuple[str, ...]:
    """The module of an optimizer; for one from outside those of the classes that it is derived from."""
    found = load(rule.target) if rule.outside else None
    return (
        tuple(base.__module__ for base in found.__mro__)
        if isinstance(found, type)
        else (_module(rule.target),)
    )


def _edit_of(rule: OptimizerSpec, routing: str, hyper: Mapping[str, Value]) -> str:
    return _edit((*_modules_of(rule), _ASSEMBLY), _words(rule, routing, hyper), *_declared(rule))


def _words(rule: OptimizerSpec, routing: str, hyper: Mapping[str, Value]) -> frozenset[str]:
    """The words by which its code looks up rows of tables, such as the map of the singular values."""
    if rule.outside:
        return frozenset()
    words = {word for word in (*rule.fixed.values(), *hyper.values()) if isinstance(word, str)}
    words.add(rule.released if routing == "released" else routing)
    if hyper.get("interval", 1) > 1:
        words.add("newton_schulz")  # of the steps in between
    return frozenset(words)


# --- what has been edited ---


@functools.cache
def _edit(starts: tuple[str, ...], words: frozenset[str] = frozenset(), name: str = "", row: str = "") -> str:
    """A digest of the code that is not the released one; empty if all of it is.

    Args:
        starts, words: as `digest.digests` takes them.
        name, row: what a row decides besides the settings that are in the key, as `_declared` gives it.
    """
    found = digest.digests(starts, words) | ({name: row} if name else {})
    return "" if found.items() <= _released().items() else _digest(sorted(found.items()))[:8]


@functools.cache
def _released() -> dict[str, str]:
    table: dict[str, str] = json.loads(PLACE.read_text(encoding="utf-8"))
    return table


def _declared(row: OptimizerSpec | ModelSpec) -> tuple[str, str]:
    """The name of a row of ours, and a digest of what it decides besides the settings that are in the key."""
    if row.outside:
        return "", ""
    if isinstance(row, ModelSpec):
        return f"model {row.name}", _digest((row.target, sorted(row.settings.items()), row.batch_norm))
    decided = (row.target, sorted(row.fixed.items()), row.released, row.has_aux, sorted(row.rest.items()))
    return f"optimizer {row.name}", _digest(decided)


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


def release() -> dict[str, str]:
    """The content of `released.json` for the code as it is now."""
    rows = (_declared(row) for table in (optimizers.ZOO, models.SIZES) for row in table.values())
    return dict(sorted({**digest.everything(), **dict(rows)}.items()))


if __name__ == "__main__":
    text = json.dumps(release(), indent=0) + "\n"
    if sys.argv[1:] == ["--write"]:
        PLACE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
