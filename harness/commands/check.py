"""`htbench zoo --check`: whether an optimizer does what a training loop expects of it."""

from __future__ import annotations

from collections.abc import Sequence

import optimizers
from harness.config import parts
from harness.config.settings import read_words
from harness.display import document
from harness.errors import EXIT_OK, EXIT_RUN_FAILED, UsageError


def show(words: Sequence[str], as_json: bool) -> int:
    """Print a line for every property of the contract, tested on `OPTIMIZER [key=value ...]`.

    Returns:
        the exit status: 1 if a property does not hold.

    Raises:
        UsageError: there is no such optimizer, or it can't be built with these settings.
    """
    name, settings = words[0], read_words(words[1:])
    parts.allow([name])
    try:
        optimizers.spec(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    from harness.bench import checkup  # imports torch

    try:
        build = checkup.builder(name, {key.removeprefix("optimizer."): x for key, x in settings.items()})
    except ValueError as error:
        raise UsageError(f"{error}; arguments follow the name as key=value.") from None
    found = {}
    for property_, wrong in checkup.check(build):
        found[property_] = wrong
        if not as_json:
            print(f"wrong  {property_}: {wrong}" if wrong else f"ok     {property_}", flush=True)
    if as_json:
        print(document(found))
    return EXIT_RUN_FAILED if any(found.values()) else EXIT_OK
