"""The fields of a document against those that docs/json.md promises."""

import json

from docs import json_page


def promised(command, *documents, lacks=()):
    """Assert that the page has all fields of these documents, and that they have all of the page.

    Args:
        command: a heading of the page, without `htbench`.
        documents: as read from JSON.
        lacks: beginnings of the names of fields that these documents need not have.
    """
    for document in documents:
        assert json_page.wrong(command, document) == []
    missing = json_page.missing(command, *documents)
    assert [name for name in missing if not name.startswith(tuple(lacks))] == []


def read(text):
    """The only document of a text. JSON of ours has no NaN, which Python reads."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)
