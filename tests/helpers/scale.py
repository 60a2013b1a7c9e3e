"""How large the house is: code lines, tokens and functions of each room, and those of its tests.

`python -m tests.helpers.scale` prints them. A line counts if it holds
code: none that is blank, a comment or a docstring. A token is one of Python's: a name, a number, a bracket.
"""

import ast
import io
import tokenize
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

from tests.helpers.architecture import PACKAGES, ROOT

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NO_TOKENS = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
HEAD = ("room", "files", "lines", "tokens", "functions", "test lines")


@dataclass(frozen=True)
class Size:
    """Sums over some files."""

    files: int = 0
    lines: int = 0
    tokens: int = 0
    functions: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))


def size_of(source: str) -> Size:
    """The size of one file."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    words: set[int] = set()
    for node in nodes:
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            words.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _NO_TOKENS and token.start[0] not in words
    ]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    functions = sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes)
    return Size(1, len(lines), len(tokens), functions)


def sizes(files: Iterable[Path], room_of: Callable[[Path], str]) -> dict[str, Size]:
    """The size of each room."""
    rooms: dict[str, Size] = {}
    for file in files:
        room = room_of(file)
        rooms[room] = rooms.get(room, Size()) + size_of(file.read_text(encoding="utf-8"))
    return rooms


def room_of(path: Path) -> str:
    """The room of a file: its folder within the package, or the package for files beside the rooms."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def of_packages(root: Path = ROOT) -> dict[str, Size]:
    """The size of each room of the packages."""
    return sizes((path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))), room_of)


def of_tests(root: Path = ROOT) -> dict[str, Size]:
    """The size of the tests of each room; their folders mirror the rooms."""
    tests = root / "tests"
    return sizes(sorted(tests.rglob("*.py")), lambda path: room_of(ROOT / path.relative_to(tests)))


def main() -> None:
    """Print the table, the largest room first."""
    rooms, tests = of_packages(), of_tests()
    rows = [(name, rooms.get(name, Size()), tests.get(name, Size())) for name in rooms | tests]
    rows.sort(key=lambda row: -row[1].lines)
    rows.append(("all", sum(rooms.values(), Size()), sum(tests.values(), Size())))
    print(f"{HEAD[0]:<24}" + "".join(f"{name:>12}" for name in HEAD[1:]))
    for name, room, test in rows:
        print(f"{name:<24}" + "".join(f"{number:>12,}" for number in (*astuple(room), test.lines)))


if __name__ == "__main__":
    main()
