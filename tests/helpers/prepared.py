"""The documents of Python, prepared once per session: every new store would take seconds to read them all."""

import os
import shutil
from pathlib import Path

from htbench.harness.data import pydocs, pysource
from htbench.harness.data.cache import MANIFEST, cached

FOLDER = "HTBENCH_TEST_PREPARED"
_fill, whole_library = pydocs._fill, pysource._fill
SOME = ("json/", "queue.py", "argparse.py", "ast.py", "inspect.py", "test/test_json/", "test/test_queue.py")


def share():
    """In this process stores get a copy of what the session's folder has, which the first of them fills.

    Of `pysource` they get a few modules.
    """
    if FOLDER in os.environ:
        pydocs._fill, pysource._fill = _copy, _some


def _copy(folder):
    made = cached(Path(os.environ[FOLDER], f"pydocs-{pydocs.fingerprint()}"), _fill)
    shutil.copytree(made, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(MANIFEST))


def _some(folder):
    sources = [(name, file) for name, file in pysource._sources() if name.startswith(SOME)]
    pydocs.write_tokens(folder, pysource.divide(sources, {"json": "test", "queue": "val"}), pydocs.VOCABULARY)
