"""What YAML 1.1 would silently read as something else, and what no file needs: refused in the text itself.

PyYAML, which OmegaConf loads with, follows YAML 1.1, where `010` is 8 and `1:30` is 90. Once loaded, nothing
tells such a value from what its writer meant, so the events of the parser are looked through before.
Sources: https://yaml.org/type/int.html and https://yaml.org/type/float.html.
"""

from __future__ import annotations

import re

from harness.errors import UsageError

DEEPEST = 50  # levels; a sweep file needs about six, and parsers above ours are recursive
LONGEST = 100  # digits of a number; Python itself refuses to read 4300

_OCTAL = re.compile(r"[-+]?0[0-7_]+")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_WHOLE = re.compile(r"[-+]?(0x[0-9a-fA-F_]+|0b[01_]+|[0-9_]+)")


def check(text: str) -> None:
    """Look through YAML text before it is loaded.

    Raises:
        UsageError: one sentence with the right spelling.
        yaml.YAMLError: it is no YAML.
    """
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise UsageError(f"It is nested more than {DEEPEST} levels deep; no setting is.")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent) and not event.style:  # plain: neither quoted nor a block
            _check_scalar(event.value)


def check_word(name: str, value: object) -> None:
    """Raise UsageError if YAML has made true or false of a word."""
    if isinstance(value, bool):
        raise UsageError(
            f"{name} must be a word, not {str(value).lower()}: YAML reads yes, no, on and off as true or "
            "false, so write the word in quotes."
        )


def _check_scalar(word: str) -> None:
    if len(word) > LONGEST and _WHOLE.fullmatch(word):
        raise UsageError(f"The number {word[:10]}... has {len(word)} digits; at most {LONGEST} make sense.")
    if _OCTAL.fullmatch(word):
        meant = word.replace("_", "").lstrip("+-0") or "0"
        sign = "-" if word.startswith("-") else ""
        _refuse(word, f"the octal number {int(word.replace('_', ''), 8)}", sign + meant)
    if _SEXAGESIMAL.fullmatch(word):
        _refuse(word, f"a number to the base 60, {_value(word)}", _value(word))


def _value(word: str) -> str:
    total = 0.0
    for digits in word.lstrip("+-").replace("_", "").split(":"):
        total = 60 * total + float(digits)
    return f"{'-' * word.startswith('-')}{total:.10g}"


def _refuse(word: str, read: str, meant: str) -> None:
    raise UsageError(f"YAML reads {word} as {read}: write {meant} for the number, '{word}' for the word.")
