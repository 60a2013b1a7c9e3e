"""Known slips of the paper and of its release, and the published numbers that each touches.

`harness/paper/slips.csv` has them. A slip touches a number whose fields all have one of the values listed;
an empty cell lists all. It concerns `all` numbers of an optimizer or a data set, a `number` of one table, or
the learning `rate` of a number, which its table says to be the best and which is not.
"""

import functools
from collections.abc import Collection

from htbench.harness.paper import reported
from htbench.harness.paper.reported import Reported
from htbench.harness.show.note import Note, text

NOISE = 0.025  # sd of a perplexity on C4: the ten reruns of the table `wall_clock` against their first runs


def note_rate(line: Reported) -> tuple[Note, ...]:
    """The footnote to a number that is not that of the best learning rate, as its table says."""
    return note_line(line, ("rate",))


def note_line(line: Reported, concerns: Collection[str] = ("all", "number", "rate")) -> tuple[Note, ...]:
    """The footnotes to a published number."""
    names = ("table", "dataset", "model", "row", "optimizer", "metric", "lr", "p")
    values = {name: getattr(line, name) for name in names}
    fields = {name: "" if x is None else x if isinstance(x, str) else f"{x:g}" for name, x in values.items()}
    return tuple(
        text(slip["text"])
        for slip in _read_errata()
        if slip["concerns"] in concerns
        and all(fields[name] in slip[name].split("|") for name in fields if slip[name])
    )


def make_sentence(note: Note) -> Note:
    """A footnote as a sentence under a whole table."""
    words = str(note)
    return text(f"{words[:1].upper()}{words[1:]}.")


@functools.cache
def _read_errata() -> list[dict[str, str]]:
    return reported.rows("slips")
