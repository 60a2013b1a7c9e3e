"""Whether the texts of a drawn figure can be read: inside the canvas, and none on top of another."""

import itertools

_SLACK = 0.5  # pixels that two boxes may share: extents are rounded up


def problems(canvas):
    """Sentences on texts of a matplotlib figure that overlap or leave the canvas."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(canvas).get_renderer()
    canvas.draw(renderer)
    shown = [text for text in _texts(canvas) if text.get_visible() and text.get_text().strip()]
    outlines = [(text.get_text(), _outline(text, renderer)) for text in shown]
    inner = canvas.bbox.padded(_SLACK)
    found = [
        f"{name!r} leaves the canvas"
        for name, outline in outlines
        if not all(inner.contains(x, y) for x, y in outline.vertices)
    ]
    pairs = itertools.combinations(outlines, 2)
    return found + [f"{a!r} overlaps {b!r}" for (a, one), (b, other) in pairs if one.intersects_path(other)]


def _texts(canvas):
    for ax in canvas.axes:
        if not ax.axison:
            continue
        yield from (ax.title, ax._left_title, ax._right_title, *ax.texts)
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            if not axis.get_visible():  # of two axes that share it, one shows it
                continue
            yield from (axis.label, axis.offsetText)
            for tick in axis._update_ticks():
                if min(limits) <= tick.get_loc() <= max(limits):
                    yield from (tick.label1, tick.label2)
    for legend in canvas.legends:
        yield from legend.get_texts()


def _outline(text, renderer):
    """The rectangle of a text, which may be rotated about its centre, smaller by what two may share."""
    from matplotlib.path import Path
    from matplotlib.transforms import Affine2D

    box, rotation = text.get_window_extent(renderer), text.get_rotation()
    text.set_rotation(0)
    flat = text.get_window_extent(renderer).padded(-_SLACK / 2)
    text.set_rotation(rotation)
    centre, place = ((one.min + one.max) / 2 for one in (flat, box))
    turned = Affine2D().translate(*-centre).rotate_deg(rotation).translate(*place)
    return Path(turned.transform(flat.corners()[[0, 1, 3, 2, 0]]))
