"""Names beside the points of a scatter plot that cover neither points nor each other. Needs matplotlib.

The places are found when the figure is drawn, since only then the layout is known. Nothing is random:
packages that move labels step by step end elsewhere with another order, and may leave some on each other.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.transforms import Bbox, IdentityTransform

_DISTANCES = (3.5, 6.0, 9.0, 13.0, 18.0, 24.0)  # points between a point and its label
_DIRECTIONS = 16
_CLOSE = 7.0  # points; a label farther away gets a line to its point
_MARKER = 3.0  # points; half the width of a marker
_GAP = 1.0  # points between labels
_COVERED = 4.0  # what each sample of a line that is covered or crossed costs, in points of distance

Point = tuple[float, float]
Array = Any  # of numpy: points are rows of x and y; boxes rows of left, bottom, right and top


@dataclass(frozen=True)
class Label:
    """A name, its point in data coordinates, and its colour."""

    text: str
    x: float
    y: float
    colour: Any


class PointLabels(Artist):
    """The labels of one axes. One that finds no free place is left out: the legend has it.

    Args:
        labels: the most important first; it gets the best place.
        lines: in data coordinates, which labels should avoid if they can; a point is one of no length.
        size: of the font, in points.
    """

    def __init__(
        self, labels: Sequence[Label], lines: Sequence[Sequence[Point]] = (), size: float = 7
    ) -> None:
        super().__init__()
        self._labels, self._lines, self._size = labels, lines, size
        self.set_zorder(5)
        self.set_in_layout(False)

    def draw(self, renderer: Any) -> None:
        """Find the places and draw."""
        point = renderer.points_to_pixels(1.0)
        for label, place, box in self.places(renderer):
            end = _nearest(np.array(place), np.array([box.extents]))[0]
            if math.dist(place, end) > _CLOSE * point:
                line = Line2D([place[0], end[0]], [place[1], end[1]], color=label.colour, linewidth=0.5)
                self._prepared(line).draw(renderer)
            text = self._text(label)
            text.set_position((box.x0, box.y0))
            text.draw(renderer)

    def places(self, renderer: Any) -> Iterator[tuple[Label, tuple[float, float], Bbox]]:
        """Each label that has a place, its point and its box, in pixels."""
        assert self.axes is not None
        point, to_pixels = renderer.points_to_pixels(1.0), self.axes.transData.transform
        at = np.array([to_pixels((one.x, one.y)) for one in self._labels]).reshape(-1, 2)
        taken = np.hstack([at - _MARKER * point, at + _MARKER * point])
        lines = (np.array([to_pixels(one) for one in line]).reshape(-1, 2) for line in self._lines)
        samples = np.vstack([np.empty((0, 2)), *(_samples(line, 3 * point) for line in lines)])
        for label, place in zip(self._labels, at, strict=True):
            size = self._text(label).get_window_extent(renderer)
            distances, boxes = _candidates(place, size.width, size.height, point)
            low, high = np.array(self.axes.bbox.extents).reshape(2, 2)
            free = (boxes[:, :2] >= low).all(axis=1) & (boxes[:, 2:] <= high).all(axis=1)
            free &= ~_overlap(boxes, taken).any(axis=1)
            if not free.any():
                continue
            boxes, distances = boxes[free], distances[free]
            others = taken[~_contains(taken, place[None])[:, 0]]
            leaders = [_leader(place, box, point) for box in boxes]
            crossed = [int(_contains(others, leader).sum()) for leader in leaders]
            costs = distances + _COVERED * (_contains(boxes, samples).sum(axis=1) + np.array(crossed))
            best = int(np.argmin(costs))  # near ones come first, and of these those at the right
            taken = np.vstack([taken, boxes[best] + _GAP * point * np.array([-1, -1, 1, 1])])
            samples = np.vstack([samples, leaders[best]])
            yield label, (float(place[0]), float(place[1])), Bbox.from_extents(*boxes[best])

    def _text(self, label: Label) -> Text:
        text = Text(0, 0, label.text, size=self._size, color="0.15", va="bottom", ha="left")
        text.set_path_effects([withStroke(linewidth=1.5, foreground="white")])
        self._prepared(text).set_parse_math(False)
        return text

    def _prepared(self, artist: Any) -> Any:
        artist.set_figure(self.figure)
        artist.set_transform(IdentityTransform())
        return artist


def _candidates(place: Array, width: float, height: float, point: float) -> tuple[Array, Array]:
    """Distances in points, and boxes around a point: near ones first, those at the right first."""
    numbers = np.arange(_DIRECTIONS)
    turns = (numbers + 1) // 2 * (-1.0) ** numbers * 2 * math.pi / _DIRECTIONS
    distances = np.repeat(_DISTANCES, _DIRECTIONS)
    around = np.tile(np.column_stack([np.cos(turns), np.sin(turns)]), (len(_DISTANCES), 1))
    half = np.array([width, height]) / 2
    centres = place + around * (distances[:, None] * point + half)
    return distances, np.hstack([centres - half, centres + half])


def _samples(line: Array, apart: float) -> Array:
    """Points along a line of straight pieces, about so many pixels apart."""
    found = [np.empty((0, 2))]
    for start, end in zip(line, line[1:], strict=False):
        count = max(1, round(math.dist(start, end) / apart))
        found.append(start + (end - start) * np.arange(count + 1)[:, None] / count)
    return np.vstack(found)


def _leader(place: Array, box: Array, point: float) -> Array:
    """Samples of the line from a point to its label; none if it is close."""
    end = _nearest(place, box[None])[0]
    far = math.dist(place, end) > _CLOSE * point
    return _samples(np.array([place, end] if far else []).reshape(-1, 2), 2 * point)


def _nearest(place: Array, boxes: Array) -> Array:
    """The point of each box that is nearest to a point."""
    return np.clip(place, boxes[:, :2], boxes[:, 2:])


def _contains(boxes: Array, points: Array) -> Array:
    """Whether each box (rows) contains each point (columns)."""
    inside = (boxes[:, None, :2] <= points) & (points <= boxes[:, None, 2:])
    return inside.all(axis=2)


def _overlap(boxes: Array, others: Array) -> Array:
    """Whether each box (rows) overlaps each of the others (columns)."""
    apart = (boxes[:, None, :2] >= others[:, 2:]) | (boxes[:, None, 2:] <= others[:, :2])
    return ~apart.any(axis=2)
