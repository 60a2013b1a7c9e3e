"""YAML files and `key=value` words as settings, read safely. Torch-free.

What YAML 1.1 would silently read as something else, and what no file needs, is refused in the text itself.

PyYAML, which OmegaConf loads with, follows YAML 1.1, where `010` is 8 and `1:30` is 90. Once loaded, nothing
tells such a value from what its writer meant, so the events of the parser are looked through before.
Sources: https://yaml.org/type/int.html and https://yaml.org/type/float.html.
"""

import io
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

from htbench.harness.config import Value
from htbench.harness.config.names import flatten
from htbench.harness.errors import UsageError

DEEPEST = 50  # levels; a sweep file needs about six, and parsers above ours are recursive
_TOO_DEEP = f"It is nested more than {DEEPEST} levels deep; no setting is."
LONGEST = 100  # digits of a number; Python itself refuses to read 4300

_OCTAL = re.compile(r"[-+]?0[0-7_]+")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_WHOLE = re.compile(r"[-+]?(0x[0-9a-fA-F_]+|0b[01_]+|[0-9_]+)")


def read_yaml(path: Path, resolve: bool = True) -> dict[str, Any]:
    """The mapping in a YAML file, loaded safely.

    OmegaConf reads `1e-3` as a number, plain PyYAML as a word.

    Args:
        path: the file.
        resolve: interpolations such as `${oc.env:NAME}`; not those of a file in a store, which could ask for
            what this user's environment holds.

    Raises:
        UsageError: no such file, no YAML, or no mapping.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        text = path.read_text(encoding="utf-8")
        check(text)
        loaded = OmegaConf.to_container(OmegaConf.load(io.StringIO(text)), resolve=resolve)
    except UsageError as error:
        raise UsageError(f"'{path}' can't be taken: {error}") from None
    except FileNotFoundError:
        raise UsageError(f"There is no file '{path}'.") from None
    except IsADirectoryError:
        raise UsageError(f"'{path}' is a folder; a YAML file is needed.") from None
    except OSError as error:
        raise UsageError(f"'{path}' can't be read: {error.strerror or error}.") from None
    except (YAMLError, UnicodeDecodeError, OmegaConfBaseException) as error:
        raise UsageError(f"'{path}' is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(loaded, dict):
        raise UsageError(f"'{path}' must hold a mapping of settings, not a {type(loaded).__name__}.")
    return {str(name): value for name, value in loaded.items()}


def interpolated(tree: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """What `read_yaml` of a file has left unresolved. Raises UsageError as that does."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        found = OmegaConf.to_container(OmegaConf.create(dict(tree)), resolve=True)
    except OmegaConfBaseException as error:
        raise UsageError(f"'{path}' is not valid YAML: {' '.join(str(error).split())}") from None
    return cast("dict[str, Any]", found)


def read_words(words: Sequence[str]) -> dict[str, Value]:
    """`key=value` words of a command line as settings; the values are read as YAML, as in a file.

    Raises:
        UsageError: a word without `=`, or a value that is no YAML.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    for word in words:
        if "=" not in word or word.startswith("="):
            raise UsageError(f"'{word}' is not of the form key=value, for example optimizer.lr=1e-3.")
    try:
        for name, _, value in (word.partition("=") for word in words):
            try:
                check(value)
            except UsageError as error:
                raise UsageError(f"{name}: {error}") from None
            if re.split(r"[.\[]", name, maxsplit=DEEPEST)[DEEPEST:]:
                raise UsageError(f"Unknown setting '{name[:40]}...': it has more than {DEEPEST} parts.")
        return flatten(OmegaConf.to_container(OmegaConf.from_dotlist(list(words)), resolve=True))
    except (YAMLError, UnicodeError, OmegaConfBaseException) as error:
        raise UsageError(f"{' '.join(words)}: {' '.join(str(error).split())}") from None


# --- what is refused ---


def check(text: str) -> None:
    """Look through YAML text before it is loaded.

    Raises:
        UsageError: one sentence with the right spelling.
        yaml.YAMLError: it is no YAML.
    """
    import yaml

    depth = 0
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > DEEPEST:
                    raise UsageError(_TOO_DEEP)
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.ScalarEvent) and not event.style:  # plain: neither quoted nor a block
                _check_scalar(event.value)
    except yaml.YAMLError:
        # From 6.0.4 on, PyYAML's scanner, which runs ahead of the events, ends at 1,000 levels by itself.
        if max(accumulate((c in "[{") - (c in "]}") for c in text), default=0) > DEEPEST:
            raise UsageError(_TOO_DEEP) from None
        raise


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
