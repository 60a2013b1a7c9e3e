"""A digest of plain values, kept beside them in their file: a change by another hand, or by a disk, shows.

It finds accidents and edits. Who means to deceive can write a digest, too.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any

SEAL = "digest"  # the entry of an object that is the digest of all others
_LENGTH = len(f', "{SEAL}": "01234567"}}')


def digest(value: Any) -> str:
    """Eight hex digits of the value as JSON; the order of its entries counts."""
    return f"{zlib.crc32(json.dumps(value).encode()):08x}"


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its seal."""
    bare = opened(value)
    return bare | {SEAL: digest(bare)}


def opened(value: Mapping[str, Any]) -> dict[str, Any]:
    """The object without its seal."""
    return {name: entry for name, entry in value.items() if name != SEAL}


def is_broken(value: Mapping[str, Any]) -> bool:
    """Whether an object has a seal and was changed since; older code has set none."""
    return SEAL in value and value[SEAL] != digest(opened(value))


def is_whole(text: bytes) -> bool:
    """Whether JSON is a sealed object as `json.dumps` writes it. `is_broken` has to write the value again."""
    bare, seal = text[:-_LENGTH], text[-_LENGTH:]
    return seal == b', "%b": "%08x"}' % (SEAL.encode(), zlib.crc32(b"}", zlib.crc32(bare)))
