"""Numbers that a user gives, and the least that they may be."""

from __future__ import annotations

import argparse

from harness.errors import UsageError


def at_least(args: argparse.Namespace, least: int, *names: str) -> None:
    """Raise UsageError if one of these options is smaller than `least`."""
    for name in names:
        if getattr(args, name) < least:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} must be at least {least}, not {getattr(args, name)}.")
