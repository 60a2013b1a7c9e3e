"""The fields of a document against those that docs/json.md promises."""

import json

from docs import json_page

TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "list"}


def promised(command, *documents):
    """Assert that documents of a command have the fields and types of the page.

    Args:
        command: a heading of the page, without `htbench`.
        documents: as read from JSON.
    """
    fields = {field.name: field for field in json_page.fields(command)}
    assert [line for document in documents for line in dict.fromkeys(wrong(document, fields))] == []


def wrong(value, fields, path=""):
    """What a document, or the part of it at a path, has otherwise than the fields promise."""
    free = f"{path}.*".lstrip(".")
    kind = "null" if value is None else TYPES[type(value)]
    if path:
        types = set(fields[path].types) if path in fields else set()
        # JSON has no NaN, so a number may be null, and it may be whole
        types |= {"null", "integer"} if "number" in types else set()
        if not {kind, "any"} & types:
            yield f"{path} is {kind}, on the page {fields[path].words if path in fields else None}"
        if "any" in types:
            return
    if isinstance(value, dict):
        if free not in fields:
            here = [
                name.removeprefix(f"{path}.")
                for name in fields
                if name.startswith(f"{path}." if path else "")
            ]
            own = {name for name in here if not set(name) & set(".[")}
            lacking = {
                name for name in own - value.keys() if not fields[f"{path}.{name}".lstrip(".")].may_lack
            }
            yield from (f"{path} lacks {name}" for name in sorted(lacking))
        for name, part in value.items():
            yield from wrong(part, fields, free if free in fields else f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for part in value:
            yield from wrong(part, fields, f"{path}[]" if path else "")


def read(text):
    """The only document of a text. JSON of ours has no NaN, which Python reads."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)
