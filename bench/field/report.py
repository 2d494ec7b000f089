"""Turns results.json of run.py into the plots and the tables of docs/benchmarks/.

    report.py [--check] [FOLDER]

All plots and tables depend on results.json alone. --check writes nothing, and fails if the tables
are not those of the results.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

BEGIN = "<!-- Made by scripts/bench: change bench/field/report.py instead. -->\n"
END = "<!-- The end of what scripts/bench makes. -->\n"
LANGUAGES = {"c": "C", "python": "Python", "java": "Java", "go": "Go"}


def of_crowd(each: dict, waiters: int | str, what: str) -> float:
    """Return the rate a second of `what` in the crowds of that size."""
    rounds = each["crowds"].get(str(waiters), [])
    return sum(r[what] for r in rounds) / max(1e-9, sum(r["seconds"] for r in rounds))


def per_change(each: dict, waiters: int | str, what: str) -> float | None:
    """Return the count of `what` for each owner change."""
    rounds = each["crowds"].get(str(waiters), [])
    changes = sum(r["changes"] for r in rounds)
    return sum(r[what] for r in rounds) / changes if changes else None


def longest_ms(each: dict, waiters: int) -> float | None:
    """Return the longest wait; a waiter that never got the lock waited for its whole round."""
    return max((max(r["longest_ms"]) for r in each["crowds"].get(str(waiters), [])), default=None)


def shares(each: dict, waiters: int) -> list[float]:
    """Return each waiter's turns in each round, relative to an even share."""
    found = []
    for r in each["crowds"].get(str(waiters), []):
        even = max(1, sum(r["turns"])) / len(r["turns"])
        found += [turns / even for turns in r["turns"]]
    return found


# ---------------------------------------------------------------------- Tables


def number(value: float | None) -> str:
    """Return the number with three significant digits."""
    if value is None:
        return "-"
    if value >= 100:
        return f"{round(value, 2 - len(str(int(value)))):,.0f}"
    return f"{value:.3g}"


def row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def table(head: list[str], rows: list[list[object]]) -> str:
    lines = [row(*head), row(*("---" if i == 0 else "--:" for i in range(len(head))))]
    return "\n".join([*lines, *(row(*cells) for cells in rows)]) + "\n"


def tables(results: dict) -> str:
    """Return everything that depends on the results, as Markdown."""
    contenders, fair = results["contenders"], results["fair_crowd"]
    about = "; ".join(f"{name} {what}" for name, what in results["machine"].items())
    text = [
        f"{results['date']}, `{results['command']}` in {results['seconds']} s, load before it "
        f"{results['load_before']}. {about}.\n"
    ]
    for what, why in results["missing"].items():
        text.append(f"Without {what}: {why}.\n")
    for each in contenders:
        if each["failed"]:
            text.append(f"{each['title']} failed: {' '.join(each['failed'].split())[:120]}\n")
    text.append("### The contenders\n")
    what = ["", "version", "waits by", "order", "renews by itself", "fence"]
    lines = [row(*what), row(*["---"] * len(what))]
    lines += [
        row(*(each[key] for key in ("title", "version", "waits", "order", "renews", "fence")))
        for each in contenders
    ]
    text.append("\n".join(lines) + "\n")

    text.append("### Handoffs\n")
    rows = []
    for each in contenders:
        took = sorted(each["handoff_us"])
        pairs = each["pair_us"]
        rows.append(
            [
                each["title"],
                number(statistics.median(pairs) if pairs else None),
                *(
                    number(took[round(q * (len(took) - 1))] if took else None)
                    for q in (0.5, 0.9, 1)
                ),
                each["violations"],
            ]
        )
    samples = max(len(each["handoff_us"]) for each in contenders)
    text.append(
        table(["", "a pair, µs", "a handoff, µs: p50", "p90", "longest", "violations"], rows)
    )
    text.append(
        f"Handoffs: {samples} of each. A lock that locks nothing had "
        f"{results['violations_of_nothing']} violations in 0.3 s, so that they are noticed.\n"
    )

    text.append("### Owner changes a second\n")
    crowds = [int(waiters) for waiters in max((e["crowds"] for e in contenders), key=len)]
    text.append(
        table(
            ["waiters:", *map(str, crowds)],
            [
                [each["title"], *(number(of_crowd(each, n, "changes")) for n in crowds)]
                for each in contenders
            ],
        )
    )

    text.append(f"### {fair} waiters: fairness, and what a change costs the server\n")
    rows = []
    for each in contenders:
        of_all = shares(each, fair)
        cpu = per_change(each, fair, "cpu")
        rows.append(
            [
                each["title"],
                f"{min(of_all):.2f} to {max(of_all):.2f}" if of_all else "-",
                number(longest_ms(each, fair)),
                number(per_change(each, fair, "commands")),
                number(per_change(each, fair, "reads")),
                number(None if cpu is None else cpu * 1e6),
            ]
        )
    head = ["", "turns of a waiter, of an even share", "longest wait, ms"]
    text.append(table([*head, "commands", "reads", "µs of the server"], rows))

    held = [each for each in contenders if "held" in each]
    if held:
        first = held[0]["held"]
        text.append(f"### {first['locks']:,} held locks\n")
        text.append(
            table(
                ["", "locks", "client, % of a core", "server, %", "commands/s", "reads/s", "lost"],
                [
                    [
                        each["title"],
                        f"{each['held']['locks']:,}",
                        f"{each['held']['client_percent']:.1f}",
                        f"{each['held']['server_percent']:.1f}",
                        number(each["held"]["commands_per_second"]),
                        number(each["held"]["reads_per_second"]),
                        each["held"].get("lost", 0),
                    ]
                    for each in held
                ],
            )
        )
        text.append(
            f"Each with a lease of {first['lease_s']} s. An idle server uses "
            f"{results['idle_server_percent']:.1f} %.\n"
        )
    return "\n".join(text)


def place(page: str, made: str) -> str:
    """Put the text between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        sys.exit("bench: the marks of the generated part are missing")
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


# ----------------------------------------------------------------------- Plots

# A colour for each language; Holdfast's are the strong ones. A white background, so that a dark
# page shows the same picture.
OURS = {"c": "#0b5cad", "python": "#c77700", "java": "#a61b29"}
THEIRS = {"c": "#7fa8d0", "python": "#dfb877", "java": "#d98d94", "go": "#7fb59a"}


def start() -> None:
    """Set up matplotlib so that it writes the same bytes each time."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(
        {
            "svg.hashsalt": "holdfast",
            "svg.fonttype": "path",
            "font.size": 11,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#dddddd",
            "axes.edgecolor": "#555555",
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
        }
    )


def save(figure, to: Path) -> None:
    import matplotlib.pyplot as plt

    figure.savefig(to, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    plt.close(figure)
    to.write_text("".join(line.rstrip() + "\n" for line in to.read_text().splitlines()))


def colour(each: dict) -> str:
    return (OURS if each["ours"] else THEIRS)[each["language"]]


def short(value: float, unit: str) -> str:
    return f"{number(value)} {unit}"


def per_row(contenders: list[dict], width: float = 8.4):
    """Return axes with a row for each contender, the first one on top."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(width, 0.9 + 0.32 * len(contenders)))
    axes.set_yticks(range(len(contenders)), [each["title"] for each in contenders])
    for label, each in zip(axes.get_yticklabels(), contenders, strict=True):
        label.set_fontweight("bold" if each["ours"] else "normal")
    axes.set_ylim(len(contenders) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    return figure, axes


def headline(axes, text: str) -> None:
    axes.set_title(text, loc="left", fontweight="bold")


def microseconds(value: float, _position: object = None) -> str:
    for limit, unit in ((1e6, "s"), (1e3, "ms")):
        if value >= limit:
            return f"{value / limit:g} {unit}"
    return f"{value:g} µs"


def plot_handoff(results: dict, to: Path) -> None:
    """Draw each handoff as a dot, and the median as a line."""
    found = [each for each in results["contenders"] if each["handoff_us"]]
    found.sort(key=lambda each: statistics.median(each["handoff_us"]))
    figure, axes = per_row(found)
    most = max(max(each["handoff_us"]) for each in found)
    for i, each in enumerate(found):
        took = each["handoff_us"]
        spread = [i + 0.36 * (k / max(1, len(took) - 1) - 0.5) for k in range(len(took))]
        axes.scatter(took, spread, s=9, color=colour(each), alpha=0.55, linewidths=0)
        middle = statistics.median(took)
        axes.plot([middle] * 2, [i - 0.33, i + 0.33], color=colour(each), linewidth=3)
        text = microseconds(float(f"{middle:.2g}"))
        weight = "bold" if each["ours"] else "normal"
        axes.text(most * 1.5, i, text, va="center", ha="left", fontsize=10, fontweight=weight)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(microseconds)
    axes.set_xlabel(
        "from the release in one process to the acquire in another that waits; right: the median"
    )
    headline(axes, "Handoff latency (less is better)")
    save(figure, to)


def plot_changes(results: dict, to: Path) -> None:
    """Draw owner changes a second over the number of waiters."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8.4, 5))
    found = [each for each in results["contenders"] if each["crowds"]]
    found.sort(key=lambda each: -of_crowd(each, max(each["crowds"], key=int), "changes"))
    dashes = {"c": "-", "python": "--", "java": "-.", "go": ":"}
    markers = iter("osD^v<>Pp*Xdh8H" * 2)
    crowds: set[int] = set()
    for each in found:
        waiters = sorted(map(int, each["crowds"]))
        crowds.update(waiters)
        axes.plot(
            waiters,
            [max(of_crowd(each, n, "changes"), 0.5) for n in waiters],
            label=each["title"],
            color=colour(each),
            linestyle="-" if each["ours"] else dashes[each["language"]],
            linewidth=3 if each["ours"] else 1.6,
            marker=next(markers),
            markersize=7 if each["ours"] else 5,
            zorder=3 if each["ours"] else 2,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sorted(crowds), [str(n) for n in sorted(crowds)])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else "0")
    axes.set_xlabel("waiters, in two processes")
    headline(axes, "Owner changes a second (more is better)")
    legend = axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=10)
    for text, each in zip(legend.get_texts(), found, strict=True):
        text.set_fontweight("bold" if each["ours"] else "normal")
    save(figure, to)


def plot_fairness(results: dict, to: Path) -> None:
    """Draw each waiter as a dot: its turns, relative to an even share."""
    fair = results["fair_crowd"]
    found = [each for each in results["contenders"] if each["crowds"].get(str(fair))]
    figure, axes = per_row(found)
    end = 0.0
    for i, each in enumerate(found):
        of_all = sorted(shares(each, fair))
        end = max(end, of_all[-1])
        places = [i + 0.5 * ((k * 7 % 11) / 10 - 0.5) for k in range(len(of_all))]
        axes.scatter(of_all, places, s=12, color=colour(each), alpha=0.6, linewidths=0)
    for i, each in enumerate(found):
        wait = microseconds(float(f"{1000 * longest_ms(each, fair):.2g}"))
        axes.text(end * 1.06 + 0.3, i, wait, va="center", fontsize=10)
    axes.axvline(1, color="#555555", linewidth=0.8, zorder=0)
    axes.set_xlim(left=-0.1, right=end * 1.03 + 0.1)
    axes.set_xlabel(
        f"turns of each of {fair} waiters, of an even share: 1 is fair; right: the longest wait"
    )
    headline(axes, "Fairness")
    save(figure, to)


def plot_commands(results: dict, to: Path) -> None:
    """Draw the cost of an owner change for the server."""
    fair = results["fair_crowd"]
    found = [
        each for each in results["contenders"] if (per_change(each, fair, "commands") or 0) > 0
    ]
    figure, axes = per_row(found)
    for i, each in enumerate(found):
        commands = per_change(each, fair, "commands")
        cpu = (per_change(each, fair, "cpu") or 0) * 1e6
        axes.barh(i, commands, color=colour(each), height=0.62)
        axes.text(
            commands * 1.1, i, f"{number(commands)};  {microseconds(float(f'{cpu:.2g}'))}",
            va="center", fontsize=10,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(right=axes.get_xlim()[1] * 5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set_xlabel("commands, those that a script calls included; beside it the server's time")
    headline(axes, f"Commands for an owner change, {fair} waiters (less is better)")
    save(figure, to)


def plot_held(results: dict, to: Path) -> None:
    """Draw the cost of holding many locks."""
    found = [each for each in results["contenders"] if "held" in each]
    if not found:
        return
    found.sort(key=lambda e: e["held"]["client_percent"] + e["held"]["server_percent"])
    most = max(each["held"]["locks"] for each in found)
    lease = found[0]["held"]["lease_s"]

    def titled(each: dict) -> dict:
        count = each["held"]["locks"]
        return each if count == most else each | {"title": f"{each['title']} ({count:,})"}

    figure, axes = per_row([titled(each) for each in found])
    for i, each in enumerate(found):
        client, server = each["held"]["client_percent"], each["held"]["server_percent"]
        axes.barh(i, client, color=colour(each), height=0.62)
        axes.barh(i, server, left=client, color="#999999", height=0.62)
        axes.text(client + server, i, f"  {client:.1f} + {server:.1f} %", va="center", fontsize=10)
    axes.set_xlim(right=axes.get_xlim()[1] * 1.2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} %")
    axes.set_xlabel("of a core: the client (in colour) and the server (grey)")
    headline(axes, f"To keep {most:,} locks with a lease of {lease} s (less is better)")
    save(figure, to)


PLOTS = {
    "handoff": plot_handoff,
    "changes": plot_changes,
    "fairness": plot_fairness,
    "commands": plot_commands,
    "held": plot_held,
}


def main() -> None:
    """Read the results, and write or check the output."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
    parser.add_argument("folder", type=Path, nargs="?", default=default)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    results = json.loads((arguments.folder / "results.json").read_text())
    page = arguments.folder / "README.md"
    text = page.read_text()
    made = place(text, tables(results))
    if arguments.check:
        if made != text:
            sys.exit(f"bench: {page} is not made of results.json")
        return
    page.write_text(made)
    start()
    for name, plot in PLOTS.items():
        plot(results, arguments.folder / f"{name}.svg")


if __name__ == "__main__":
    main()
