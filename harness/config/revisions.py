"""Which version of the code makes a run's numbers: revisions above 1, and edits that are not released.

A part of a run (its optimizer, model, task, or the loop) has the revision of its row. `released.json` holds
the digests of the released code. Where a part differs from it, a digest of what it is now goes into the
config and so into the key: edited code makes runs of its own, and the released code keeps its runs. A change
that alters no numbers, or one whose row got a higher revision, is released by
`python -m harness.config.revisions --write`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping

import models
import optimizers
from harness import tasks
from harness.config import OptimizerConfig, RunConfig, digest
from harness.config import parts as outside
from harness.errors import UsageError
from harness.system.environment import HOME
from optimizers.zoo.imported import load

PLACE = HOME / "harness" / "config" / "released.json"

# The second is made from a checkpoint, which the search for definitions does not follow.
_LOOP = ("harness.train.loop:Training", "harness.train.divergence:Divergence")
_ASSEMBLY = "optimizers.assemble:assemble"  # decides which parameter gets which rule


def current(config: RunConfig) -> dict[str, int | str]:
    """The revision of every part that is not at the first one as released, by "optimizer", "loop" and so on.

    A number above 1 is a released revision. "1+3fa1c2d4" is revision 1, edited: what follows is a digest of
    the code that the part needs now. A part from outside has no revision, but the word of
    `harness/config/parts.py` for its code.

    Args:
        config: resolved but for its `revisions`.
    """
    name, model, task = config.optimizer.name, config.model, config.task
    parts = {
        "optimizer": (optimizers.spec(name).revision, _optimizer(name, _words(config.optimizer))),
        "model": (models.spec(model).revision, _model(model)),
        "task": (tasks.spec(task).revision, _task(task)),
        "loop": (1, _loop()),
    }
    found = {part: revision if not edit else f"{revision}+{edit}" for part, (revision, edit) in parts.items()}
    for part, place in outside.parts(config).items():
        edit = parts[part][1]
        found[part] = outside.source_word(place) + (f"+{edit}" if edit else "")
    return {part: word for part, word in found.items() if word != 1}


def check(config: RunConfig) -> None:
    """Raise UsageError if a config was made by other code than this."""
    now = current(config)
    for part in sorted({*config.revisions, *now}):
        then, today = config.revisions.get(part, 1), now.get(part, 1)
        if then != today:
            raise UsageError(
                f"This config is of other code: its {part} has revision {then}, here it is {today}; "
                f"remove revisions.{part} to train it as a new run."
            )


def _words(rule: OptimizerConfig) -> frozenset[str]:
    """The words by which its code looks up rows of tables, such as the map of the singular values."""
    row = optimizers.spec(rule.name)
    if row.outside:
        return frozenset()
    words = {word for word in (*row.fixed.values(), *rule.hyper.values()) if isinstance(word, str)}
    words.add(row.released if rule.routing == "released" else rule.routing)
    if rule.hyper.get("interval", 1) > 1:
        words.add("newton_schulz")  # of the steps in between
    return frozenset(words)


# --- what has been edited, as a digest; empty for the released code ---


@functools.cache
def _optimizer(name: str, words: frozenset[str]) -> str:
    row = optimizers.spec(name)
    if row.outside:  # of ours it needs what it is derived from
        bases = [f"{base.__module__}:{base.__name__}" for base in type.mro(_class(row.target))]
        return _edit(digest.digests((*bases, _ASSEMBLY)))
    found = digest.digests((row.target, _ASSEMBLY), words)
    return _edit(found | _declared_optimizer(name))


def _class(target: str) -> type:
    found = load(target)
    assert isinstance(found, type)
    return found


@functools.cache
def _model(name: str) -> str:
    row = models.spec(name)
    declared = {} if row.outside else _declared_model(name)
    return _edit(digest.digests((row.target,)) | declared)


@functools.cache
def _task(name: str) -> str:
    return _edit(digest.digests((tasks.spec(name).loader,)))


@functools.cache
def _loop() -> str:
    return _edit(digest.digests(_LOOP))


def _edit(found: Mapping[str, str]) -> str:
    if found.items() <= _released().items():
        return ""
    return _digest(sorted(found.items()))[:8]


@functools.cache
def _released() -> dict[str, str]:
    table: dict[str, str] = json.loads(PLACE.read_text(encoding="utf-8"))
    return table


def _declared_optimizer(name: str) -> dict[str, str]:
    """What the row of an optimizer decides besides the settings that are in the key."""
    row = optimizers.spec(name)
    decided = (row.target, sorted(row.fixed.items()), row.released, row.has_aux, sorted(row.rest.items()))
    return {f"optimizer {name}": _digest(decided)}


def _declared_model(name: str) -> dict[str, str]:
    row = models.spec(name)
    return {f"model {name}": _digest((row.target, sorted(row.settings.items()), row.batch_norm))}


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


def release() -> dict[str, str]:
    """The content of `released.json` for the code as it is now."""
    rows: Iterable[dict[str, str]] = (
        *map(_declared_optimizer, optimizers.ZOO),
        *map(_declared_model, models.SIZES),
    )
    found = digest.everything()
    for row in rows:
        found |= row
    return dict(sorted(found.items()))


if __name__ == "__main__":
    text = json.dumps(release(), indent=0) + "\n"
    if sys.argv[1:] == ["--write"]:
        PLACE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
