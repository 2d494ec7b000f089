"""Draws the timeline of a fault run: the holds of each lock, and the faults above them.

    draw.py TIMELINE.json PICTURE.svg [--around FAULT]... [--seconds N] [--cut SHORTER.json]

run.py writes the timeline, and draws all of it. --around draws only some seconds, those beside the
first such fault (or any, if there was none), and --cut writes down what was drawn.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

COLOURS = {"c": "#0b5cad", "python": "#c77700", "java": "#a61b29"}
NAMES = {"c": "C", "python": "Python", "java": "Java"}
STRIP = 12.0  # seconds, if that makes no more than STRIPS
STRIPS = 10


def cut(timeline: dict, since: float, to: float) -> dict:
    """Return the part between these milliseconds, shifted to begin with 0."""

    def inside(begin: float, end: float) -> list[float] | None:
        if end < since or begin > to:
            return None
        return [round(max(begin, since) - since, 3), round(min(end, to) - since, 3)]

    return timeline | {
        "ms": round(to - since, 3),
        "faults": [
            [round(at - since, 3), what] for at, what in timeline["faults"] if since <= at <= to
        ],
        "losses": [part for each in timeline["losses"] if (part := inside(*each))],
        "holds": [
            [lock, who, *part, shared]
            for lock, who, begin, end, shared in timeline["holds"]
            if (part := inside(begin, end))
        ],
    }


def around(timeline: dict, faults: list[str], seconds: float) -> dict:
    """Return that many seconds, a third of them before the first such fault."""
    found = [at for at, what in timeline["faults"] if what in faults]
    found = found or [at for at, _ in timeline["faults"]] or [0.0]
    length = min(1000 * seconds, timeline["ms"])
    since = min(max(0.0, found[0] - length / 3), timeline["ms"] - length)
    return cut(timeline, since, since + length)


def overlaps(holds: list[list]) -> list[tuple[str, float, float]]:
    """Return when two processes held one lock at once, each by its own clock, unless both shared
    it."""
    found = []
    last: dict[tuple[str, bool], float] = {}  # of the shared holds, and of the exclusive ones
    for lock, _who, begin, end, shared in sorted(holds, key=lambda hold: hold[2]):
        if end <= begin:
            continue  # it was never certain
        others = [last.get((lock, False), begin)]
        if not shared:
            others.append(last.get((lock, True), begin))
        if begin < max(others):
            found.append((lock, begin, min(end, max(others))))
        last[lock, shared] = max(end, last.get((lock, shared), end))
    return found


def _draw_strip(axes, timeline: dict, since: float, to: float, lanes: dict[str, int]) -> None:
    part = cut(timeline, since, to)
    for begin, end in part["losses"]:
        axes.axvspan(since + begin, since + end, color="#f3e3e3", linewidth=0, zorder=0)
    least = (to - since) / 3000  # otherwise it could not be seen
    bars: dict[tuple[int, str, bool], list] = defaultdict(list)
    for lock, who, begin, end, shared in part["holds"]:
        span = since + begin, max(end - begin, least)
        bars[lanes[lock], who.split("-")[0], shared].append(span)
    for (lane, language, shared), spans in bars.items():
        where = (lane - 0.2, 0.4) if shared else (lane - 0.4, 0.8)
        axes.broken_barh(spans, where, color=COLOURS[language], linewidth=0)
    for lock, begin, end in overlaps(part["holds"]):
        span = [(since + begin, max(end - begin, least))]
        axes.broken_barh(span, (lanes[lock] - 0.4, 0.3), color="black", linewidth=0, zorder=3)
    kinds = sorted({what for _, what in timeline["faults"]})
    for at, what in part["faults"]:
        row = -1 - len(kinds) + kinds.index(what)
        axes.axvline(since + at, color="#888888", linewidth=0.6, zorder=1)
        axes.plot(since + at, row, marker="v", color="black", markersize=5, zorder=4, clip_on=False)
    rows = [(-1 - len(kinds) + i, what) for i, what in enumerate(kinds)]
    rows += [(lane, lock) for lock, lane in lanes.items()]
    axes.set_yticks([y for y, _ in rows], [label for _, label in rows])
    axes.set_ylim(len(lanes) - 0.4, -1.8 - len(kinds))
    axes.set_xlim(since, to)
    axes.xaxis.set_major_formatter(lambda ms, _: f"{ms / 1000:g} s")
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def draw(timeline: dict, to: Path) -> None:
    """Write the same SVG for the same timeline."""
    mpl.rcParams.update({"svg.hashsalt": "holdfast", "svg.fonttype": "path", "font.size": 10.5})
    lanes = {lock: i for i, lock in enumerate(sorted({each[0] for each in timeline["holds"]}))}
    strip = max(1000 * STRIP, timeline["ms"] / STRIPS)
    count = max(1, math.ceil(timeline["ms"] / strip))
    strip = timeline["ms"] / count
    rows = len(lanes) + len({what for _, what in timeline["faults"]})
    figure, all_axes = plt.subplots(
        count, figsize=(9, 1 + count * (0.5 + 0.25 * rows)), squeeze=False, facecolor="white"
    )
    for i, axes in enumerate(all_axes[:, 0]):
        _draw_strip(axes, timeline, i * strip, (i + 1) * strip, lanes)
    legend = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in COLOURS.values()]
    words = [f"held by {NAMES[language]}" for language in COLOURS]
    words[-1] += " (low: shared)" if any(each[4] for each in timeline["holds"]) else ""
    if timeline["losses"]:
        legend.append(plt.Rectangle((0, 0), 1, 1, color="#f3e3e3"))
        words.append("holds may be forgotten")
    if overlaps(timeline["holds"]):
        legend.append(plt.Rectangle((0, 0), 1, 1, color="black"))
        words.append("two at once")
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.35 / figure.get_figheight()))
    figure.legend(legend, words, loc="upper center", ncols=len(words), frameon=False, fontsize=9)
    figure.savefig(to, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    to.write_text("".join(line.rstrip() + "\n" for line in to.read_text().splitlines()))


def dump(timeline: dict) -> str:
    """Return the timeline with a line for each hold and fault."""
    lists = {
        key: "[\n" + ",\n".join(f"  {json.dumps(each)}" for each in timeline[key]) + "\n ]"
        for key in ("faults", "losses", "holds")
    }
    rest = {key: json.dumps(value) for key, value in timeline.items() if key not in lists}
    return "{\n" + ",\n".join(f' "{key}": {text}' for key, text in (rest | lists).items()) + "\n}\n"


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("timeline", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--around", metavar="FAULT", action="append")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--cut", type=Path)
    arguments = parser.parse_args()
    timeline = json.loads(arguments.timeline.read_text())
    if arguments.around:
        timeline = around(timeline, arguments.around, arguments.seconds)
    if arguments.cut:
        arguments.cut.write_text(dump(timeline))
    draw(timeline, arguments.picture)


if __name__ == "__main__":
    main()
