"""Small pictures as SVG text: axes, stacked areas, lines, bars and maps.

Nothing is loaded from anywhere: the text goes into the page as it is. Colours are given by classes
of the page's style, so that it can be dark or light; numbers have one decimal, so that the same
data give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

LEFT: Final = 62
RIGHT: Final = 14
TOP: Final = 10
BOTTOM: Final = 30
WIDTH: Final = 960
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A scale from data to the picture. low, high: in data; log: by powers of ten."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        if self.log:
            low, high = math.log10(self.low), math.log10(self.high)
            value = math.log10(max(value, self.low))
        else:
            low, high = self.low, self.high
        return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0

    def ticks(self, wanted: int = 6) -> list[float]:
        """Round values to write beside the axis."""
        if self.log:
            powers = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            return [10.0**power for power in powers]
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        rough = span / wanted
        magnitude = 10.0 ** math.floor(math.log10(rough))
        step = next(step * magnitude for step in _STEPS if step * magnitude >= rough * 0.999)
        first = math.ceil(self.low / step)
        return [index * step for index in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(slots=True, kw_only=True)
class Plot:
    """A picture with two axes. x_text, y_text: how ticks are written. title: for listeners."""

    title: str
    x: Axis
    y: Axis
    height: int = 240
    x_text: Callable[[float], str] = lambda value: f"{value:g}"
    y_text: Callable[[float], str] = lambda value: f"{value:g}"
    x_ticks: Sequence[float] = ()
    y_ticks: Sequence[float] = ()
    parts: list[str] = field(default_factory=list)

    def px(self, value: float) -> float:
        """The horizontal place of a value."""
        return LEFT + self.x.at(value) * (WIDTH - LEFT - RIGHT)

    def py(self, value: float) -> float:
        """The vertical place of a value."""
        return self.height - BOTTOM - self.y.at(value) * (self.height - TOP - BOTTOM)

    def area(
        self,
        xs: Sequence[float],
        low: Sequence[float],
        high: Sequence[float],
        *,
        css: str,
        label: str,
    ) -> None:
        """The surface between two lines."""
        if not xs:
            return
        there = [f"{self.px(x):.1f},{self.py(y):.1f}" for x, y in zip(xs, high, strict=True)]
        back = [f"{self.px(x):.1f},{self.py(y):.1f}" for x, y in zip(xs, low, strict=True)]
        points = " ".join([*there, *reversed(back)])
        self.parts.append(
            f'<polygon class="{css}" points="{points}"><title>{escape(label)}</title></polygon>'
        )

    def line(self, xs: Sequence[float], ys: Sequence[float], *, css: str, label: str) -> None:
        """A line through points."""
        points = " ".join(f"{self.px(x):.1f},{self.py(y):.1f}" for x, y in zip(xs, ys, strict=True))
        self.parts.append(
            f'<polyline class="line {css}" points="{points}">'
            f"<title>{escape(label)}</title></polyline>"
        )

    def rule(self, y: float, *, label: str) -> None:
        """A dashed line across at a height."""
        at = self.py(y)
        self.parts.append(
            f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text class="tick" x="{WIDTH - RIGHT - 4}" y="{at - 4:.1f}" text-anchor="end">'
            f"{escape(label)}</text>"
        )

    def cell(
        self, x0: float, x1: float, y0: float, y1: float, *, opacity: float, label: str
    ) -> None:
        """A rectangle of a map; the opacity is its value."""
        left, top = self.px(x0), self.py(y1)
        width, height = self.px(x1) - left, self.py(y0) - top
        self.parts.append(
            f'<rect class="heat" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" fill-opacity="{opacity:.2f}">'
            f"<title>{escape(label)}</title></rect>"
        )

    def svg(self) -> str:
        """The picture as text."""
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" '
            f'aria-label="{escape(self.title)}">{self._grid()}{"".join(self.parts)}'
            f"{self._frame()}</svg>"
        )

    def _grid(self) -> str:
        lines = []
        for tick in self.y_ticks or self.y.ticks(5):
            at = self.py(tick)
            lines.append(
                f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
                f'<text class="tick" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">'
                f"{escape(self.y_text(tick))}</text>"
            )
        return "".join(lines)

    def _frame(self) -> str:
        bottom = self.height - BOTTOM
        marks = [
            f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
        ]
        for tick in self.x_ticks or self.x.ticks(8):
            at = self.px(tick)
            marks.append(
                f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
                f'<text class="tick" x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">'
                f"{escape(self.x_text(tick))}</text>"
            )
        return "".join(marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A row of a bar picture: parts with class, length and what to say of them."""

    name: str
    parts: Sequence[tuple[str, float, str]]
    note: str = ""


def bars(rows: Sequence[Bar], *, title: str, most: float | None = None) -> str:
    """Horizontal bars, one a row, with a note at the end of each."""
    name_width, note_width, row_height = 150, 190, 26
    height = row_height * max(1, len(rows)) + 6
    room = WIDTH - name_width - note_width
    longest = most or max((sum(part[1] for part in row.parts) for row in rows), default=0) or 1.0
    out = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">']
    for index, row in enumerate(rows):
        top, left = index * row_height + 4, float(name_width)
        out.append(
            f'<text class="name" x="{name_width - 10}" y="{top + 14}" text-anchor="end">'
            f"{escape(row.name)}</text>"
        )
        for css, length, label in row.parts:
            width = length / longest * room
            out.append(
                f'<rect class="{css}" x="{left:.1f}" y="{top}" width="{width:.1f}" '
                f'height="{row_height - 8}"><title>{escape(label)}</title></rect>'
            )
            left += width
        out.append(
            f'<text class="note" x="{left + 8:.1f}" y="{top + 14}">{escape(row.note)}</text>'
        )
    return "".join(out) + "</svg>"


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """What the colours mean: class and words."""
    items = "".join(f'<li><i class="{css}"></i>{escape(words)}</li>' for css, words in entries)
    return f'<ul class="legend">{items}</ul>'
