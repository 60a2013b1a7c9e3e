"""The standard streams of a process: there are three, they take any text, and the loss of one ends no work.

What controls a terminal is shown, not obeyed (`harness/show/harmless.py`): a name in a store could hold it.

A run that was trained for hours must not end because the reader of its messages has. So what can't be written
is thrown away, from then on for good; `refusal` says so at the end, unless the reader left of its own accord.
"""

import contextlib
import io
import os
import re
import select
import sys
from typing import Any, TextIO

from htbench.harness.show.harmless import visible

# How bars of other libraries begin what they write: to the first column, up a line, clear the rest of it.
_BAR = re.compile(r"(\r|\n|\x1b\[[AK])+")


class _Output(io.FileIO):
    """Standard output or error: once a write fails, this and all later ones go to `os.devnull`.

    Attributes:
        failure: why; None as long as all is well.
    """

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        """The number of bytes that are dealt with."""
        try:
            while (written := super().write(data)) is None:  # a pipe that does not block, and is full
                select.select([], [self], [])
            return written
        except OSError as error:
            self.failure = error
            _open_nothing(self.fileno())
            return memoryview(data).nbytes


class _Text(io.TextIOWrapper):
    """Standard output or error as text.

    Attributes:
        obeys: whether the terminal obeys what is written (`harmless.obeyed`).
    """

    obeys = False

    def write(self, text: str, /) -> int:
        """As that of any stream; on stderr, bars of progress may begin their line anew."""
        begin = _BAR.match(text) if self.fileno() == 2 else None
        size = len(text) if self.obeys else begin.end() if begin else 0
        super().write(text[:size] + visible(text[size:]))
        return len(text)


def clear_screen() -> None:
    """Empty the terminal that standard output is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\x1b[H\x1b[2J")


def settle() -> None:
    """Give this process its three streams; later calls change nothing.

    A closed one is opened on `os.devnull`: otherwise the next file that is opened, perhaps a lock or a
    record, takes its number and gets what is printed. Stdout and stderr write `?` for a sign that their
    encoding lacks.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            _open_nothing(number)
    sys.stdin = sys.stdin or open(0, closefd=False)
    sys.stdout, sys.stderr = _settled(sys.stdout, 1), _settled(sys.stderr, 2)


def refusal() -> OSError | None:
    """Why a part of standard output is lost; None if nothing is, or if its reader has closed the pipe."""
    failure = _failure()
    return None if isinstance(failure, BrokenPipeError) else failure


def is_read() -> bool:
    """Whether standard output still reaches somebody."""
    return _failure() is None


def _failure() -> OSError | None:
    sys.stdout.flush()
    raw = _raw(sys.stdout)
    return None if raw is None else raw.failure


def _raw(stream: TextIO) -> _Output | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Output) else None


def _open_nothing(number: int) -> None:
    """Let a descriptor, open or not, lead nowhere; child processes inherit it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != number:
        os.dup2(nothing, number)
        os.close(nothing)
    os.set_inheritable(number, True)


def _settled(stream: TextIO | None, number: int) -> TextIO:
    """What is to stand in the place of a stream; one of another kind, as notebooks have, stays."""
    if stream is None:
        return _text(number, None, at_once=False)
    if not isinstance(stream, io.TextIOWrapper) or _raw(stream) or not _writes_to(stream, number):
        return stream
    with contextlib.suppress(OSError):
        stream.flush()
    return _text(number, stream.encoding, at_once=stream.line_buffering or stream.write_through)


def _text(number: int, encoding: str | None, *, at_once: bool) -> TextIO:
    raw = _Output(number, "wb", closefd=False)
    return _Text(io.BufferedWriter(raw), encoding, "replace", line_buffering=at_once)


def _writes_to(stream: TextIO, number: int) -> bool:
    with contextlib.suppress(OSError, ValueError):  # it may be in memory, or closed
        return stream.fileno() == number
    return False
