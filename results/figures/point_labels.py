"""Names beside the points of a scatter plot that cover neither points nor each other. Needs matplotlib.

The places are found when the figure is drawn, since only then the layout is known. Nothing is random.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
        line: points in data coordinates of a line that labels should avoid if they can.
        size: of the font, in points.
    """

    def __init__(
        self, labels: Sequence[Label], line: Sequence[tuple[float, float]] = (), size: float = 6
    ) -> None:
        super().__init__()
        self._labels, self._line, self._size = labels, line, size
        self.set_zorder(5)
        self.set_in_layout(False)

    def draw(self, renderer: Any) -> None:
        """Find the places and draw."""
        point = renderer.points_to_pixels(1.0)
        for label, (x, y), box in self.places(renderer):
            away = math.hypot(*_between((x, y), box))
            if away > _CLOSE * point:
                dx, dy = _between((x, y), box)
                self._add(Line2D([x, x + dx], [y, y + dy], color=label.colour, linewidth=0.5), renderer)
            text = self._text(label)
            text.set_position((box.x0, box.y0))
            self._add(text, renderer)

    def places(self, renderer: Any) -> Iterator[tuple[Label, tuple[float, float], Bbox]]:
        """Each label that has a place, its point and its box, in pixels."""
        assert self.axes is not None
        point = renderer.points_to_pixels(1.0)
        at = [tuple(self.axes.transData.transform((one.x, one.y))) for one in self._labels]
        marker = _MARKER * point
        taken = [Bbox.from_bounds(x - marker, y - marker, 2 * marker, 2 * marker) for x, y in at]
        line = [tuple(self.axes.transData.transform(one)) for one in self._line]
        samples = _samples(line, 3 * point)
        for label, place in zip(self._labels, at, strict=True):
            size = self._text(label).get_window_extent(renderer)
            candidates = _candidates(place, size.width, size.height, point)
            within = (one for one in candidates if _is_within(one[1], self.axes.bbox))
            best = _best(place, within, taken, samples, point)
            if best is not None:
                taken.append(best.padded(_GAP * point))
                samples += _leader(place, best, point)
                yield label, place, best

    def _text(self, label: Label) -> Text:
        text = Text(0, 0, label.text, size=self._size, color="0.15", va="bottom", ha="left")
        text.set_path_effects([withStroke(linewidth=1.5, foreground="white")])
        self._prepare(text)
        return text

    def _add(self, artist: Artist, renderer: Any) -> None:
        self._prepare(artist)
        artist.draw(renderer)

    def _prepare(self, artist: Artist) -> None:
        assert self.figure is not None
        artist.set_figure(self.figure)
        artist.set_transform(IdentityTransform())


def _candidates(
    place: tuple[float, ...], width: float, height: float, point: float
) -> Iterator[tuple[float, Bbox]]:
    """Boxes around a point and their distance in points: near ones first, those at the right first."""
    for distance in _DISTANCES:
        for number in range(_DIRECTIONS):
            turn = (number + 1) // 2 * (-1) ** number * 2 * math.pi / _DIRECTIONS
            x = place[0] + math.cos(turn) * (distance * point + width / 2)
            y = place[1] + math.sin(turn) * (distance * point + height / 2)
            yield distance, Bbox.from_bounds(x - width / 2, y - height / 2, width, height)


def _samples(line: Sequence[Sequence[float]], apart: float) -> list[tuple[float, float]]:
    """Points along a line of straight pieces, about so many pixels apart."""
    found = []
    for (x0, y0), (x1, y1) in zip(line, line[1:], strict=False):
        count = max(1, round(math.hypot(x1 - x0, y1 - y0) / apart))
        found += [(x0 + (x1 - x0) * i / count, y0 + (y1 - y0) * i / count) for i in range(count + 1)]
    return found


def _best(
    place: tuple[float, ...],
    candidates: Iterable[tuple[float, Bbox]],
    taken: Sequence[Bbox],
    samples: Sequence[tuple[float, float]],
    point: float,
) -> Bbox | None:
    """The free box with the least cost: its distance, what it covers, what its line crosses."""
    best, least = None, math.inf
    for distance, box in candidates:
        if distance >= least:
            break
        if not any(_overlap(box, other) for other in taken):
            cost = distance + _COVERED * _crossings(place, box, taken, samples, point)
            best, least = (box, cost) if cost < least else (best, least)
    return best


def _crossings(
    place: tuple[float, ...],
    box: Bbox,
    taken: Sequence[Bbox],
    samples: Sequence[tuple[float, float]],
    point: float,
) -> int:
    """How much of other lines a box covers, and how much of other things its own line to its point."""
    own = _leader(place, box, point)
    others = [one for one in taken if not one.contains(*place)]
    return sum(box.contains(*one) for one in samples) + sum(
        other.contains(*one) for one in own for other in others
    )


def _leader(place: tuple[float, ...], box: Bbox, point: float) -> list[tuple[float, float]]:
    """Samples of the line from a point to its label; none if it is close."""
    dx, dy = _between(place, box)
    if math.hypot(dx, dy) <= _CLOSE * point:
        return []
    return _samples([place, (place[0] + dx, place[1] + dy)], 2 * point)


def _between(place: tuple[float, ...], box: Bbox) -> tuple[float, float]:
    """From a point to the nearest one of a box."""
    x, y = min(max(place[0], box.x0), box.x1), min(max(place[1], box.y0), box.y1)
    return x - place[0], y - place[1]


def _is_within(box: Bbox, outer: Any) -> bool:
    return bool(outer.x0 <= box.x0 and box.x1 <= outer.x1 and outer.y0 <= box.y0 and box.y1 <= outer.y1)


def _overlap(a: Bbox, b: Bbox) -> bool:
    return bool(a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1)
