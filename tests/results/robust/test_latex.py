"""The LaTeX of every table compiles, and nothing runs off the page."""

import shutil
import subprocess

import pytest

from htbench.harness.paper import experiments
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.registry import GENERAL, TABLES
from tests.helpers.miniature_store import Miniature
from tests.helpers.rendering import render

HEAD = r"""\documentclass[10pt]{article}
\usepackage[a4paper,margin=2.5cm]{geometry}
\usepackage{booktabs,graphicx}
\begin{document}
"""


def compiled(views, folder):
    """The log of a document with all tables, one page or more for each."""
    tables = [
        render(make(view), "latex") for view, names in views for name, make in TABLES.items() if name in names
    ]
    (folder / "tables.tex").write_text(HEAD + "\n\\clearpage\n".join(tables) + "\n\\end{document}\n")
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=120)
    return (folder / "tables.log").read_text(errors="replace")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex (texlive-latex-recommended)")
def test_all_tables_compile(tmp_path):
    store = Miniature(tmp_path / "store").add(experiments.experiments("quick")).write()
    published = (View(None, "published"), TABLES.keys() - GENERAL.keys() | {"main_result"})
    ours = (View(load_rows(store), "both", None, store), TABLES.keys())
    log = compiled([published, ours], tmp_path)
    assert "Overfull" not in log and "Float too large" not in log
