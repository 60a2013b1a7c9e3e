"""Task `pysource`: language modelling on the sources of Python's standard library with its tests.

It has twenty times the text of `pydocs`, for models that would read that too often. The modules that `pydocs`
holds out are held out here, too, with their tests, so what was learnt on one is never asked by the other.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from htbench.harness.data import pydocs
from htbench.harness.data.cache import cached
from htbench.harness.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from htbench.harness.data.text import TextTask

HELD_OUT_TOKENS = 131_072  # of validation, spread evenly over it
GRAM = 13  # words in a row that only copies have in common
REPEATED = 0.05  # a document with more of its grams in those before it is left out
TESTS = "test"  # the package with most tests; some modules have theirs in a folder of their own
# Generated tables, and the topics, which are no source.
_GENERATED = {"encodings", "stringprep", pydocs.TOPICS}
_GENERATED_FILES = {"html/entities.py"}


@functools.cache
def fingerprint() -> str:
    """Sixteen hex digits over the sources, the Python release and all that shapes the splits and the tokens.

    Raises:
        UsageError: this Python has no tests.
    """
    digest = hashlib.sha256()
    shape = (platform.python_version(), GRAM, REPEATED, pydocs.fingerprint())
    digest.update(repr(shape).encode())
    for name, path in _sources():
        content = path.read_bytes()
        digest.update(f"{name}:{len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


@functools.cache
def train_size(
    cache: Path, seq_len: int, protocol: str = "honest", held_out_tokens: int | None = None
) -> int:
    """The number of training sequences; before they are prepared, a bound by the size of all sources."""
    return pydocs.rows_of(cache / f"pysource-{fingerprint()}", seq_len, protocol, _sources())


def load(
    cache: Path, *, held_out_tokens: int | None = None, protocol: str = "honest", **settings: int
) -> TextTask:
    """The task, from token files below `cache`, made if missing (about a minute, once)."""
    from htbench.harness.data.text import TextTask

    folder = cached(cache / f"pysource-{fingerprint()}", _fill)
    return TextTask.open(
        folder, protocol=protocol, held_out_tokens=held_out_tokens or HELD_OUT_TOKENS, **settings
    )


def _fill(folder: Path) -> None:
    homes = pydocs.held_out(pydocs.modules(), pydocs.topics())
    pydocs.write_tokens(folder, divide(_sources(), homes), pydocs.VOCABULARY)


def divide(sources: Iterable[tuple[str, Path]], homes: dict[str, str]) -> dict[str, list[str]]:
    """The documents of `train`, `val` and `test`, one of each file, without those that repeat others.

    Held-out documents come first: a training document that has text of theirs is the one that is left out.

    Args:
        sources: name below the library, and file; one that is not UTF-8 is left out.
        homes: the split of each held-out module.
    """
    documents: dict[str, list[str]] = {"test": [], "val": [], "train": []}
    for name, path in sources:
        try:
            documents[split_of(name, homes)].append(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue  # a test of encodings
    fresh = iter(unrepeated(text for texts in documents.values() for text in texts))
    return {split: [text for text in texts if next(fresh)] for split, texts in documents.items()}


def split_of(name: str, homes: dict[str, str]) -> str:
    """The split of a file: that of its module, or of the longest module that the name of a test mentions.

    Args:
        name: below the library, such as "json/decoder.py", "test/test_json/test_dump.py".
        homes: the split of each held-out module. `_json` and `_pyjson` go with `json`.
    """
    top, _, rest = name.removesuffix(".py").partition("/")
    if top != TESTS:
        return homes.get(top) or homes.get(re.sub("^_(py)?", "", top), "train")
    stem = rest.partition("/")[0].lower()
    modules = sorted(homes, key=lambda module: (-len(module), module))
    return next((homes[m] for m in modules if re.search(_mention(m), stem)), "train")


def _mention(module: str) -> str:
    return rf"(^|_){re.escape(module.strip('_').lower())}(_|\d|tests?|$)"


def unrepeated(documents: Iterable[str]) -> list[bool]:
    """Which documents have grams, and at most REPEATED of them are in the kept ones before."""
    import numpy as np

    numbers: dict[str, int] = {}
    grams = [_grams([numbers.setdefault(w, len(numbers)) for w in re.findall(r"\w+", d)]) for d in documents]
    distinct, places = np.unique(np.concatenate(grams), return_inverse=True)
    seen, kept = np.zeros(len(distinct), dtype=bool), list[bool]()
    for own in np.split(places, np.cumsum([len(some) for some in grams])[:-1]):
        kept.append(len(own) > 0 and bool(seen[own].mean() <= REPEATED))
        if kept[-1]:
            seen[own] = True
    return kept


def _grams(words: list[int]) -> npt.NDArray[np.uint64]:
    """A hash of each GRAM words in a row: a polynomial modulo 2^64."""
    import numpy as np

    numbers = np.array(words, dtype=np.uint64)
    hashes = np.zeros(max(0, len(words) - GRAM + 1), dtype=np.uint64)
    for first in range(GRAM):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + numbers[first : first + len(hashes)]
    return hashes


def _sources() -> list[tuple[str, Path]]:
    """(name below the library, file) of every source file used, in the order of the modules' names."""
    library = pydocs._library()
    if not any((library / TESTS).glob("test_*.py")):
        raise UsageError(
            f"no tests of the standard library in {library / TESTS}: task pysource reads them; take a Python "
            "that is installed with its tests (on Debian the package libpython3-testsuite), or task pydocs"
        )
    names = sorted(({TESTS} | sys.stdlib_module_names) - _GENERATED)
    files = [file for name in names for file in _files(library / name)]
    found = [(file.relative_to(library).as_posix(), file) for file in files]
    return [(name, file) for name, file in found if name not in _GENERATED_FILES]


def _files(module: Path) -> list[Path]:
    file = module.with_suffix(".py")
    return [file] * file.is_file() + sorted(module.rglob("*.py"))
