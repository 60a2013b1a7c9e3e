"""Writes the sweep files of all experiments: `python -m htbench.sweeps.experiments.write`.

A test holds the files against this list, so that the scales cannot drift apart.
"""

from pathlib import Path

from htbench.sweeps.experiments import equal, ladder, miniature, paper, split, track3

_SWEEPS = Path(__file__).parents[1]


def files() -> dict[Path, str]:
    """The text of every file by its path."""
    folders = {
        "paper": paper.files(),
        "nano": miniature.files("nano"),
        "quick": miniature.files("quick"),
        "equal": equal.files(),
        "track3": track3.files(),
        "ladder": [*ladder.files(), *split.files()],
    }
    return {
        _SWEEPS / folder / f"{file.name}.yaml": file.text() for folder, own in folders.items() for file in own
    }


def main() -> None:
    """Write them."""
    for path, text in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
