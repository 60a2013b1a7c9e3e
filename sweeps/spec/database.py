"""The URL of a database in a sweep file: postgresql://USER@HOST/NAME, with ${oc.env:NAME} for any part.

The store keeps the text as the file has it. What the environment says is known only to the process that
connects, and is never printed.
"""

import re
from typing import Any
from urllib.parse import unquote

from htbench.harness.errors import UsageError

_SHAPE = re.compile(r"\w+(\+\w+)?://")
_FROM_ENVIRONMENT = re.compile(r"\$\{oc\.env:\w+\}")  # without a default, which would stand in the file
_PASSWORD = re.compile(r"(://[^:/@]*):(.+)@")  # as SQLAlchemy divides a URL, but to the last @
_QUERY = re.compile(r"([?&][^=&]*)=([^&]*)")
_SECRET = re.compile(r"password|passwd|pwd|secret|token|credential|api_?key", re.IGNORECASE)


def check(name: str, value: Any) -> str:
    """The URL as written, without a connection or a look at the environment.

    Raises:
        UsageError: it is none, has a password, or is of SQLite.
    """
    if not value:
        return ""
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a database URL such as postgresql://host/name, in one word.")
    if _secrets(_FROM_ENVIRONMENT.sub("", value)):
        raise UsageError(
            f"{name} '{masked(value)}' has a password, and what stands in the file also stands in "
            "the store; put it into ~/.pgpass or PGPASSWORD, or write ${oc.env:NAME} for it."
        )
    if "${" not in value:
        _check_kind(value, value)
    return value


def check_driver(storage: str) -> None:
    """Raise UsageError if no database driver takes the URL of a search. No connection is made.

    Args:
        storage: as written; empty: a search needs no database.
    """
    if not storage:
        return
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    url = resolved(storage)
    _check_kind(url, storage)
    begins = f"search.storage begins with '{url.partition(':')[0]}'"
    try:
        make_url(url).get_dialect().import_dbapi()
    except (NoSuchModuleError, ArgumentError, ValueError):
        raise UsageError(f"{begins}, which is no kind of database; use postgresql://host/name.") from None
    except ImportError as error:
        raise UsageError(
            f"{begins}, whose driver is missing ({error}); PostgreSQL's: `pip install 'htbench[postgres]'`."
        ) from None


def resolved(text: str) -> str:
    """The URL with what the environment says, as SQLAlchemy takes it.

    Raises:
        UsageError: the environment does not say it.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        url = OmegaConf.create({"url": text}).url
    except OmegaConfBaseException as error:
        why = str(error).partition("\n")[0]
        raise UsageError(f"search.storage '{masked(text)}' means nothing here: {why}.") from None
    return with_driver(str(url))


def with_driver(url: str) -> str:
    """A URL such that SQLAlchemy does not choose a driver that is not installed."""
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def masked(text: str) -> str:
    """A URL to be shown: without its password and the values of its options."""
    return _QUERY.sub(r"\1=***", _PASSWORD.sub(r"\1:***@", text))


def without_secrets(message: str, url: str) -> str:
    """What a driver says of a URL, to be shown."""
    for secret in (url, *_secrets(url)):
        message = message.replace(secret, "***").replace(unquote(secret), "***")
    return message


def _secrets(url: str) -> list[str]:
    """The parts of a URL that nobody shall see."""
    password = _PASSWORD.search(url)
    options = [value for name, value in _QUERY.findall(url) if value and _SECRET.search(unquote(name))]
    return [password[2], *options] if password else options


def _check_kind(url: str, text: str) -> None:
    """Raise UsageError if a URL, written in the file as `text`, is none of a database for many workers."""
    if not _SHAPE.match(url):
        raise UsageError(
            f"search.storage must be a database URL such as postgresql://host/name, not '{masked(text)}'."
        )
    if url.lower().startswith("sqlite"):
        raise UsageError(
            f"search.storage '{masked(text)}' can't be used: SQLite is not made for several machines; "
            "leave the key out for a journal file, or use PostgreSQL."
        )
