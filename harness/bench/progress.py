"""The progress bar of a benchmark."""

from __future__ import annotations

import sys

from tqdm import tqdm


class Progress:
    """A bar on a terminal, elsewhere a line for every part that begins.

    Args:
        parts: how many parts there are.
        length: units in each; a part may end early.
        unit: what is counted.
    """

    def __init__(self, parts: int, length: int, unit: str) -> None:
        self._bar = tqdm(total=parts * length, unit=unit, disable=None, dynamic_ncols=True)
        self._parts, self._length, self._begun = parts, length, 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def begin(self, label: str) -> None:
        """Begin a new part."""
        self._begun += 1
        self._bar.set_postfix_str(label, refresh=False)
        self._bar.update((self._begun - 1) * self._length - self._bar.n)
        if self._bar.disable:
            print(f"[{self._begun}/{self._parts}] {label}", file=sys.stderr, flush=True)

    def note(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.write(line, file=sys.stderr)

    def advance(self) -> None:
        """Count one unit as done."""
        self._bar.update()
