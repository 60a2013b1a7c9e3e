"""Whether the texts of a drawn figure can be read: inside the canvas, and none on top of another."""

import itertools
import math

_SLACK = 0.5  # pixels that two boxes may share: extents are rounded up


def problems(canvas):
    """Sentences on texts of a matplotlib figure that overlap or leave the canvas."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(canvas).get_renderer()
    canvas.draw(renderer)
    shown = [text for text in _texts(canvas) if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), _corners(text, renderer)) for text in shown]
    width, height = canvas.bbox.size
    found = [f"{name!r} leaves the canvas" for name, own in boxes if not _inside(own, width, height)]
    pairs = itertools.combinations(boxes, 2)
    return found + [f"{a!r} overlaps {b!r}" for (a, one), (b, other) in pairs if _overlap(one, other)]


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


def _corners(text, renderer):
    """The corners of the rectangle of a text, which may be rotated about its centre."""
    box = text.get_window_extent(renderer)
    angle = text.get_rotation() % 180
    if angle in (0, 90):
        return [(x, y) for x in (box.x0, box.x1) for y in (box.y0, box.y1)]
    rotation = text.get_rotation()
    text.set_rotation(0)
    flat = text.get_window_extent(renderer)
    text.set_rotation(rotation)
    x, y = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
    turn = math.radians(rotation)
    sides = [(dx * flat.width / 2, dy * flat.height / 2) for dx in (-1, 1) for dy in (-1, 1)]
    return [
        (x + dx * math.cos(turn) - dy * math.sin(turn), y + dx * math.sin(turn) + dy * math.cos(turn))
        for dx, dy in sides
    ]


def _inside(corners, width, height):
    return all(-_SLACK <= x <= width + _SLACK and -_SLACK <= y <= height + _SLACK for x, y in corners)


def _overlap(one, other):
    """By separating axes: two rectangles are apart if they are along a side of one of them."""
    for corners in (one, other):
        (x, y), *others = corners
        for x2, y2 in others:
            length = math.hypot(x2 - x, y2 - y)
            if length == 0:
                continue
            axis = ((x2 - x) / length, (y2 - y) / length)
            a, b = ([p[0] * axis[0] + p[1] * axis[1] for p in own] for own in (one, other))
            if max(a) <= min(b) + _SLACK or max(b) <= min(a) + _SLACK:
                return False
    return True
