"""Finds a user's own part by its name: `module:attribute`, or the entry point of an installed package.

To import a part is to run its code, so only parts that somebody has allowed by name are found: who calls a
command allows what he names. A name that is only read from a store allows nothing.

Standard library only.
"""

import difflib
import importlib
import importlib.metadata

PACKAGES = ("harness", "sweeps", "optimizers", "models", "results")  # which once were packages of their own

allowed: set[str] = set()  # the names of parts that this process may import


def target(name: str, group: str) -> str | None:
    """The "module:attribute" behind a name that is in no table of ours; None if there is none.

    Args:
        name: "module:attribute" itself, or the name of an entry point.
        group: of the entry points, for example `htbench.optimizers`.

    Raises:
        ValueError: nobody has allowed the name, so it is not looked for.
    """
    if name not in allowed:
        raise ValueError(
            f"'{name}' is no part of htbench, and others are imported only if the command line, or a file "
            f"that it gives, names them"
        )
    if ":" in name:
        return name
    found = sorted(point.value for point in importlib.metadata.entry_points(group=group, name=name))
    return found[0] if found else None


def load(target: str) -> object:
    """Import what "module:attribute" names; dots after the colon lead into classes.

    Raises:
        ValueError: one sentence: it is written wrongly, there is no such module or attribute, or its import
            fails.
    """
    module_name, _, path = target.partition(":")
    if not all(word.isidentifier() for word in [*module_name.split("."), *path.split(".")]):
        raise ValueError(f"'{target}' must have the form module:Name, for example mypkg.opt:MyOpt")
    found = _import(module_name, target)
    for name in path.split("."):
        if not hasattr(found, name):
            close = difflib.get_close_matches(name, dir(found), n=1, cutoff=0.5)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise ValueError(f"'{target}' is not found: {_place(found, module_name)} has no '{name}'{hint}")
        found = getattr(found, name)
    return found


def _import(name: str, target: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or str(error)
        if f"{name}.".startswith(f"{missing}."):
            raise ValueError(f"'{target}' is not found: {_why_missing(missing)}") from None
        why = f"which is called htbench.{missing} now" if missing in PACKAGES else "which is missing"
        raise ValueError(f"'{target}' can't be imported: it needs '{missing}', {why}") from None
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())
        raise ValueError(f"'{target}' can't be imported: {type(error).__name__}: {said}") from None


def _why_missing(name: str) -> str:
    return f"there is no module '{name}' beside the file, in the working folder, on PYTHONPATH or installed"


def _place(found: object, module_name: str) -> str:
    return f"the class '{found.__name__}'" if isinstance(found, type) else f"the module '{module_name}'"
