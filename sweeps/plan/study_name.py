"""Names of studies, which are names of files, too."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

LONGEST = 225  # bytes: of the 255 of a file's name, `.journal` and the marks of a temporary file need 30


def study_name(words: Iterable[str]) -> str:
    """The name of a study that its sweep, its block and what else tells it apart make up.

    Args:
        words: joined by dots; what does not belong into the name of a file becomes `_`. What is too long
            gets a digest in the place of its end.
    """
    name = re.sub(r"[^\w.=-]+", "_", ".".join(words))
    whole = name.encode()
    if len(whole) <= LONGEST:
        return name
    end = "." + hashlib.sha256(whole).hexdigest()[:12]
    return whole[: LONGEST - len(end)].decode(errors="ignore") + end


def replicas_of(study: str) -> str:
    """The name of the study of the replicas of another study's winner."""
    return study_name((f"{study}-replicas",))
