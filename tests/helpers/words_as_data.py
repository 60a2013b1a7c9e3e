"""Places where code reads a sentence that was made for people: `in`, `split`, `startswith`, a regex on it.

`python -m tests.helpers.words_as_data [FOLDER]` lists them in this checkout or in another one.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.architecture import PACKAGES, ROOT

# What words for people are called where they are a name, an attribute, a key or the result of a call.
WORDS = re.compile(
    r"(^|_)(sentences?|messages?|notes?|hints?|advice|remarks?|caveats?|footnotes?|title|label|setting|variant"
    r"|how|why|said|reason|in_words|words_for|describe|legend|basis|conflict)$"
)
MAKERS = {"describe", "in_words", "duration", "memory", "counted", "hours", "listing", "three_digits"}
READERS = {
    *("split", "rsplit", "partition", "rpartition", "startswith", "endswith", "removeprefix", "removesuffix"),
    *("find", "index", "count"),
}
REGEX = {"search", "match", "fullmatch", "findall", "finditer", "split"}


def places(root: Path = ROOT) -> Iterator[str]:
    """Each place as "file:line: code"."""
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        for number in reads(source):
            yield f"{path.relative_to(root)}:{number}: {lines[number - 1].strip()}"


def reads(source: str) -> list[int]:
    """The lines of a source in which a sentence is read, ascending."""
    return sorted({node.lineno for node in ast.walk(ast.parse(source)) if _is_read(node)})


def _is_read(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        pairs = zip(node.ops, node.comparators, strict=True)
        return any(isinstance(op, ast.In | ast.NotIn) and _is_words(right) for op, right in pairs) and (
            _is_literal(node.left) or isinstance(node.left, ast.Name)
        )
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner, name = node.func.value, node.func.attr
    if isinstance(owner, ast.Name) and owner.id == "re":
        return name in REGEX and any(map(_is_words, node.args[1:]))
    if name in REGEX and any(map(_is_words, node.args)):  # of a compiled pattern
        return True
    return name in READERS and _is_words(owner)


def _is_literal(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_words(node: ast.AST) -> bool:
    """Whether an expression is words for people, as far as its name tells."""
    if isinstance(node, ast.Name):
        return bool(WORDS.search(node.id))
    if isinstance(node, ast.Attribute):
        return bool(WORDS.search(node.attr)) or (node.attr == "iloc" and _is_words(node.value))
    if isinstance(node, ast.Subscript):
        name = node.slice.value if _is_literal(node.slice) else ""
        return bool(WORDS.search(name)) if name else _is_words(node.value)
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        inside = node.args[0] if called in ("str", "get") and node.args else None
        if isinstance(inside, ast.Constant) and isinstance(inside.value, str):
            return bool(WORDS.search(inside.value))
        if called in READERS | {"strip", "lower"}:
            return isinstance(node.func, ast.Attribute) and _is_words(node.func.value)
        return called in MAKERS or bool(WORDS.search(called)) or (inside is not None and _is_words(inside))
    return False


if __name__ == "__main__":
    print("\n".join(places(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)))
