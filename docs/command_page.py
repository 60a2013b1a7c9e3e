"""The command line on its page: every command and action with its arguments, from the parsers themselves."""

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
            told = {choice.dest: choice.help for choice in action._choices_actions}
            for name, own in action.choices.items():
                own.description = own.description or f"{told[name][0].upper()}{told[name][1:]}."
                yield from _with_actions(own)


# What a command is about stands on a page of its own.
_PAGES = {
    **{"compare": "own", "judge": "judge", "figure": "figures", "report": "report", "zoo": "zoo"},
    **{"bench": "bench", "data": "data", "spectra": "spectra", "cost": "cost", "export": "export"},
    **{"reproduce": "paper", "sweep": "sweeps", "sweep submit": "slurm", "table": "read", "tasks": "data"},
    **{"ledger": "decides", "runs export": "trackers", "demo": "start", "doctor": "cluster"},
}


def listing() -> str:
    """A line for each command and action, with the page that is about it."""
    rows = []
    for parser in parsers():
        name = parser.prog.removeprefix("htbench ")
        page = f"[{_PAGES[name]}]({_PAGES[name]}.md)" if name in _PAGES else ""
        rows.append((f"`{parser.prog}`", parser.description or "", page))
    return table(("command", "what it does", "page"), rows)


def render() -> str:
    """A section for each, as Markdown."""
    return "\n\n".join(map(_section, parsers()))


def _section(parser: argparse.ArgumentParser) -> str:
    parts = [f"## {parser.prog}", parser.description or ""]
    rows = [_row(parser, action) for action in parser._actions if _is_told(action)]
    return "\n\n".join(filter(None, [*parts, table(("argument", "meaning"), rows) if rows else ""]))


def _is_told(action: argparse.Action) -> bool:
    kinds = argparse._HelpAction, argparse._SubParsersAction
    return action.help != argparse.SUPPRESS and not isinstance(action, kinds)


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str]:
    """An argument with its meaning. The words are put together here: each Python has a way of its own."""
    formatter = parser.formatter_class(parser.prog, width=200)
    default = action.dest if not action.option_strings else action.dest.upper()
    values = "" if action.nargs == 0 else formatter._format_args(action, default)
    words = f"{', '.join(action.option_strings)} {values}".strip()
    return f"`{words}`", formatter._expand_help(action) if action.help else ""
