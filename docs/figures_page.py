"""The gallery of docs/figures.md: a small picture of each figure, and when to look at it.

    python -m docs.figures_page          draws the pictures; `docs.pages --write` writes the table

The pictures are made of the compact records of the demo, else of those of the image experiments, else of what
the paper has published. Figures for which none of them has the data have none.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from docs import reproduction_records as records
from htbench.harness.store import Store
from htbench.results.compare.view import View
from htbench.results.figures.files import draw_figure
from htbench.results.figures.registry import FIGURES
from htbench.results.frames.load import load_rows

FOLDER = Path(__file__).with_name("figures")
WIDTH, COLOURS = 690, 128  # pixels and colours of a picture: at most 60 kB
WHEN = {
    "seed_spread": "Which optimizer is better, and how sure is that? Every run, and the 95 % interval.",
    "lr_curve": "Is the best learning rate inside of what was tried? The metric against the learning rate.",
    "lr_width": "How far may the learning rate be off? The range of rates that cost less than 1 % and 5 %.",
    "best_of_k": "Who wins with a smaller budget? The best to expect of 3, 10 or 30 settings.",
    "pareto": "Is it worth its time? The metric against training time and operations, with the front.",
    "to_target": "Who gets there first? Steps and time until a run is as good as Muon in the end.",
    "loss": "Is training sound? The training loss against steps, mean and range.",
    "p_curve": "Which power of the singular values is best? The metric against p.",
    "interval": "What does a rarer spectral update cost, and what does it save? HTMuon.",
    "normuon_interval": "The same of HTMuon+NorMuon.",
    "muon_variants": "Muon, NorMuon and AdaMuon, and HTMuon with and without NorMuon.",
    "optimizer_variants": "Muon and HTMuon beside other recent optimizers.",
    "muon_ns_vs_svd": "Does Newton-Schulz matter? Muon with it and with an exact SVD, and their updates.",
    "alpha_teaser": "Do heavier tails go with a better model? Mean alpha, and perplexity.",
    "alpha_layers": "Which layers are heavy-tailed? Alpha of each layer, ResNet-50 and LLaMA.",
    "alpha_layers_more": "The same of ResNet-18, and of HTMuon_HT.",
    "alpha_bars": "Whose weights are heavier-tailed on the whole? Mean alpha of each optimizer.",
    "norms": "Do weights grow? Spectral and Frobenius norm of each layer.",
    "update_spectra": "What does an update look like? Its singular values, early and late.",
    "multiplier": "Does the gain survive size? How many times the tokens AdamW would need, over parameters.",
    "horizon": "Does the gain survive length? Loss against tokens per parameter, and the law of AdamW.",
}


def main() -> int:
    """Draw the pictures."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.png"):
        old.unlink()
    for name, png in pictures().items():
        (FOLDER / f"{name}.png").write_bytes(png)
    return 0


def gallery() -> str:
    """A row per figure, with its picture if there is one."""
    rows = ["| picture | figure | when to look at it |", "| --- | --- | --- |"]
    for name, when in WHEN.items():
        picture = f"![{name}](figures/{name}.png)" if (FOLDER / f"{name}.png").exists() else ""
        rows.append(f"| {picture} | `{name}` | {when} |")
    return "\n".join(rows)


def pictures() -> dict[str, bytes]:
    """The first picture of each figure that can be drawn, as a small PNG."""
    found = {}
    with tempfile.TemporaryDirectory() as place:
        records.unpacked(Path(place), records.sweeps())
        store = Store(Path(place))
        demo, runs = load_rows(store, list(records.DEMO)), load_rows(store)
        sources = [View(demo, store=store), View(runs, "runs", store=store), View(None, "published")]
        for name in FIGURES:
            for number, view in enumerate(sources):
                if drawn := draw_figure(name, view, Path(place) / str(number)):
                    found[name] = small(next(iter(drawn)).read_bytes())
                    break
    return found


def small(png: bytes) -> bytes:
    """The picture in a size for a page."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    size = (min(WIDTH, picture.width // 2), min(WIDTH, picture.width // 2) * picture.height // picture.width)
    out = io.BytesIO()
    smaller = picture.resize(size, Image.Resampling.LANCZOS)
    # Other methods give the colours of thin lines away.
    smaller.quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
