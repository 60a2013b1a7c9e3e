"""Templates of commands: words with the names of settings in braces. Torch-free.

It is no `str.format`: names may have dots, and an argument may be JSON.
"""

import ast
import functools
import json
import math
import operator
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from htbench.harness.errors import UsageError, nearest

# Words that stand for all settings which the template names nowhere else, and how each is written.
ALL = {"args": "--{}={}", "args_no_hyphens": "{}={}"}


def _power(base: float, exponent: float) -> float:
    """As `**`, but a whole number that is larger than a float can tell is an error, which takes no time."""
    value = math.pow(base, exponent)
    is_whole = type(base) is type(exponent) is int and exponent >= 0 and abs(value) < 2**53
    return int(value) if is_whole else value


_OPERATORS: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: _power,
    ast.USub: operator.neg,
}
_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.-]*)\}")


def names(text: str) -> set[str]:
    """The names that stand in braces."""
    return {match[1] for match in _PLACE.finditer(text) if match[1]}


def fill(text: str, values: Mapping[str, Any]) -> str:
    """The text with the value of each name; one that has no value stays as it is, `{{` is a brace."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        return as_text(values[name]) if name in values else match[0]

    return _PLACE.sub(value, text)


def words(template: str, settings: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """The words of a command, split as a shell would split them, but never given to one.

    Args:
        template: the command. The word `{args}` stands for `--name=value` of every setting that it names
            nowhere else, `{args_no_hyphens}` for `name=value`.
        settings: of the run.
        values: more that its braces may name.
    """
    rest = {name: value for name, value in settings.items() if name not in names(template)}
    made = []
    for word in _split(template):
        pattern = ALL.get(word[1:-1]) if word.startswith("{") and word.endswith("}") else None
        if pattern is None:
            made.append(fill(word, {**settings, **values}))
        else:
            made += [pattern.format(name, as_text(value)) for name, value in rest.items()]
    return made


@functools.lru_cache(100)  # ten thousand runs have one template
def _split(template: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(template))
    except ValueError as error:
        raise UsageError(f"The command '{template}' can't be split into words: {error}.") from None


def as_text(value: Any) -> str:
    """A value as a program reads it: a float keeps its point or exponent, a list is JSON."""
    return json.dumps(list(value)) if isinstance(value, list | tuple) else str(value)


def expression_names(expression: str) -> set[str]:
    """The settings that an expression may name."""
    return {*re.findall(r"[A-Za-z_]\w*", expression)}


def check_names(places: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise UsageError for the first name that stands for nothing, with the nearest one."""
    known = {*known}
    for name in sorted({*places} - known):
        raise UsageError(f"'{{{name}}}' in {where} stands for no setting; {nearest(name, known)}")


def compute(expression: str, settings: Mapping[str, Any]) -> Any:
    """The value of an expression of numbers and settings, such as `lr / 10`.

    Raises:
        UsageError: it is more than arithmetic, or names what is no number among the settings.
    """

    def value(node: ast.AST) -> Any:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        if isinstance(node, ast.Name) and type(settings.get(node.id)) in (int, float):
            return settings[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.operand))
        raise UsageError(
            f"The expression '{expression}' must be arithmetic with numbers and settings that are numbers; "
            f"'{ast.unparse(node)}' is neither."
        )

    try:
        result = value(ast.parse(expression, mode="eval").body)
        return float(f"{result:.12g}") if isinstance(result, float) else result  # 0.003 / 10 is 0.0003
    except (SyntaxError, ArithmeticError, ValueError, RecursionError) as error:
        raise UsageError(f"The expression '{expression}' has no value: {error}.") from None
