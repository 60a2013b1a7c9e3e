"""The command line on the site: every command and action with its arguments, from the parsers themselves."""

import argparse
from collections.abc import Iterator

from docs.config_page import table
from htbench.harness import cli


def parsers() -> Iterator[argparse.ArgumentParser]:
    """The parser of every command, then those of its actions."""
    for name in cli.COMMANDS:
        yield from _with_actions(cli._command(name)[1])


def _with_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for own in action.choices.values():
                yield from _with_actions(own)


def render() -> str:
    """A section for each, as Markdown."""
    return "\n\n".join(map(_section, parsers()))


def _section(parser: argparse.ArgumentParser) -> str:
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    parts = [f"## {parser.prog}", parser.description or "", f"```text\n{usage}\n```"]
    rows = [_row(parser, action) for action in parser._actions if _is_told(action)]
    return "\n\n".join(filter(None, [*parts, table(("argument", "meaning"), rows) if rows else ""]))


def _is_told(action: argparse.Action) -> bool:
    kinds = argparse._HelpAction, argparse._SubParsersAction
    return action.help != argparse.SUPPRESS and not isinstance(action, kinds)


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str]:
    formatter = parser.formatter_class(parser.prog, width=200)
    words = formatter._format_action_invocation(action)
    return f"`{words}`", formatter._expand_help(action) if action.help else ""
