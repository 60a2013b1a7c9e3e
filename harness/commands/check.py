"""`htbench zoo --check`: whether an optimizer does what a training loop expects of it."""

from __future__ import annotations

import optimizers
from harness.display import document
from harness.errors import EXIT_OK, EXIT_RUN_FAILED, UsageError


def show(name: str, as_json: bool) -> int:
    """Print a line for every property of the contract; the exit status is 1 if one does not hold."""
    try:
        optimizers.spec(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    from harness.contract import checkup  # imports torch

    found = {}
    for words, wrong in checkup.check(name):
        found[words] = wrong
        if not as_json:
            print(f"wrong  {words}: {wrong}" if wrong else f"ok     {words}", flush=True)
    if as_json:
        print(document(found))
    return EXIT_RUN_FAILED if any(found.values()) else EXIT_OK
