"""mutants.py [--seeds N] [--seconds S] [--only-tests] [--new] [--table | --check] [NAME…]: puts
each fault of mutants/ into a copy of the source, builds the simulation, and runs the scenarios
that the mutant names, which must fail, and then seeds until one is red. A mutant that survives
both is a fault of the simulation. The results are kept for --table, which writes mutants.md,
and for --new, which leaves out the mutants that were judged before. --check builds nothing: it
only checks that each mutant fits the source, and that its scenarios exist.

A mutant's file has a sentence that describes the fault, and for each change the file's path,
the text of the source between <<<< and ====, and the mutant's text between ==== and >>>>.
Before the changes it may have lines of these kinds:

    test: PROGRAM [WORDS]    a scenario that must fail
    run: WORDS               how the program sim is called, if not as usual
    seeds: REASON            random seeds do not find it
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "mutants"
SOURCE = BUILD / "source"
PROGRAMS = BUILD / "tests" / "sim"
UNCHANGED = BUILD / "unchanged"  # the simulation without a mutant
FOUND = BUILD / "found.json"
CHANGE = re.compile(r"^(\S+/\S+)\n<<<<\n(.*?)\n====\n(.*?)\n?>>>>$", re.MULTILINE | re.DOTALL)


class Mutant(NamedTuple):
    name: str
    says: str
    run: list[str]
    tests: list[str]
    no_seeds: str
    changes: list[tuple[str, str, str]]


def read(file: Path) -> Mutant:
    says, rest = file.read_text().split("\n", 1)
    head, *between = CHANGE.split(rest)[::4]
    words: dict[str, list[str]] = {"test": [], "run": [], "seeds": []}
    changes = CHANGE.findall(rest)
    for line in head.splitlines():
        kind, _, what = line.partition(": ")
        if kind not in words:
            sys.exit(f"{file}: what is {line!r}?")
        words[kind].append(what)
    if not changes or "".join(between).strip():
        sys.exit(f"{file}: no change, or more than changes")
    return Mutant(
        file.name,
        says,
        " ".join(words["run"]).split(),
        words["test"],
        " ".join(words["seeds"]),
        changes,
    )


def copy_source() -> None:
    """Copy the source; a copy that is the same keeps its time, so that it is not built again."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        check=True, capture_output=True, cwd=ROOT, text=True,
    ).stdout.splitlines()  # fmt: skip
    files = {ROOT / name for name in listed if (ROOT / name).is_file()}
    for file in files:
        copy = SOURCE / file.relative_to(ROOT)
        if not copy.exists() or copy.read_bytes() != file.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    for copy in SOURCE.rglob("*"):
        if copy.is_file() and ROOT / copy.relative_to(SOURCE) not in files:
            copy.unlink()


def put(path: str, before: str, after: str) -> str:
    file = SOURCE / path
    text = file.read_text()
    if text.count(before) != 1:
        raise LookupError(f"{path} has {text.count(before)} times, not once:\n{before}")
    file.write_text(text.replace(before, after))
    return path


def misfits(mutant: Mutant) -> list[str]:
    """Return why the mutant does not fit the source."""
    wrong = []
    for path, before, _ in mutant.changes:
        file = ROOT / path
        count = file.read_text().count(before) if file.is_file() else 0
        if count != 1:
            wrong.append(f"{path} has {count} times, not once:\n{before}")
    for test in mutant.tests:
        program, *patterns = test.split()
        label, name = program.split("_", 1)
        file = (HERE if label == "scenarios" else ROOT / "tests") / label / f"{name}.c"
        tests = re.findall(r"\bTEST\((\w+)", file.read_text()) if file.is_file() else []
        if not any(fnmatchcase(found, one) for found in tests for one in patterns or ["*"]):
            wrong.append(f"there is no test {test}")
    if not mutant.tests and mutant.no_seeds:
        wrong.append("nothing would find it")
    return wrong


def check() -> None:
    mutants = [read(file) for file in sorted((HERE / "mutants").iterdir())]
    wrong = [f"{mutant.name}: {why}" for mutant in mutants for why in misfits(mutant)]
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(mutants)} mutants fit the source")


def build(*targets: str) -> None:
    if not targets:
        return
    if not (BUILD / "build.ninja").exists():
        subprocess.run(
            ["cmake", "-G", "Ninja", "-S", SOURCE, "-B", BUILD, "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
             "-DHOLDFAST_TESTS=ON", "-DHOLDFAST_CLI=OFF"],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    subprocess.run(
        ["cmake", "--build", BUILD, "--target", *targets], check=True, capture_output=True
    )


def fails(program: Path, *words: str, seconds: int = 300, always: bool = False) -> str:
    """Return the output of a program that fails or takes too long; empty: it passes. always: return
    the output in any case."""
    environment = {**os.environ, "SIM_SEEDS": "5"}  # as ctest runs a scenario
    try:
        done = subprocess.run(
            [program, *words], capture_output=True, text=True, errors="replace", timeout=seconds,
            env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "it does not end"
    if done.returncode != 0:
        return f"{done.stdout}\nends with {done.returncode}"
    return done.stdout if always else ""


def red_seed(mutant: Mutant, seeds: int, seconds: int) -> tuple[int, str, int]:
    """Return the first seed that is red, but not without the mutant (or 0), its verdict, and how
    many seeds ran."""
    first, until = 1, time.monotonic() + seconds
    while first <= seeds and time.monotonic() < until:
        left = max(1, int(until - time.monotonic()))
        text = fails(
            PROGRAMS / "sim", "--seeds", f"{first}-{seeds}", "--seconds", str(left), *mutant.run,
            seconds=left + 300, always=True,
        )  # fmt: skip
        found = re.search(r"^seed (\d+).*?: WRONG (.*)$", text, re.MULTILINE)
        if found is None:
            ran = re.search(r"^(\d+) seeds in", text, re.MULTILINE)
            return (0, "", first - 1 + int(ran[1])) if ran else (first, text.strip(), first)
        first = int(found[1])
        if not fails(UNCHANGED, "--seeds", f"{first}-{first}", *mutant.run):
            return first, found[2], first
        first += 1
    return 0, "", first - 1


def judge(mutant: Mutant, words: argparse.Namespace) -> dict[str, object]:
    programs = [f"sim_{test.split()[0]}" for test in mutant.tests]
    wants_seeds = not words.only_tests and not mutant.no_seeds
    build(*programs, *(["sim"] if wants_seeds else []))
    found: dict[str, object] = {"says": mutant.says, "no_seeds": mutant.no_seeds}
    tests = found["tests"] = {
        test: bool(fails(PROGRAMS / program, *test.split()[1:]))
        for test, program in zip(mutant.tests, programs, strict=True)
    }
    if wants_seeds:
        seconds = words.seconds // 3 if any(tests.values()) else words.seconds
        found["seed"], found["verdict"], found["ran"] = red_seed(mutant, words.seeds, seconds)
    return found


def tell(found: dict[str, object]) -> str:
    tests: dict[str, bool] = found["tests"]  # type: ignore[assignment]
    parts = [test for test, red in tests.items() if red]
    parts += [f"NOT by {test}" for test, red in tests.items() if not red]
    if found.get("seed"):
        parts.append(f"seed {found['seed']}: {found['verdict']}")
    elif "seed" in found:
        parts.append(f"NOT by {found['ran']} seeds")
    return "; ".join(parts) or "SURVIVES"


def survives(found: dict[str, object]) -> bool:
    tests: dict[str, bool] = found["tests"]  # type: ignore[assignment]
    caught = found.get("seed") or any(tests.values())
    return not all(tests.values()) or not caught


def write_table() -> None:
    kept = json.loads(FOUND.read_text())
    mutants = [read(file) for file in sorted((HERE / "mutants").iterdir())]
    rows, seeded = [], 0
    for mutant in mutants:
        found = kept.get(mutant.name)
        if found is None or survives(found):
            sys.exit(f"{mutant.name} was not found by what it should be found by, or never run")
        seed = found.get("seed") or mutant.no_seeds or f"none of {found['ran']}"
        if mutant.run and not mutant.no_seeds:
            seed = f"{seed} with `{' '.join(mutant.run)}`"
        seeded += bool(found.get("seed"))
        tests = "; ".join(f"`{test}`" for test in mutant.tests)
        rows.append(f"| `{mutant.name}` | {mutant.says} | {seed} | {tests} |")
    lines = [
        "# Mutants: faults that the simulation must find",
        "",
        "Each is a file of `mutants/`, which `mutants.py NAME` puts into a copy of the source.",
        "*Seed*: the first seed of `sim --seeds 1-N` that is red, and so also how many it took; or",
        "why no seed finds the mutant; or how many seeds did not find it: if a scenario does, the",
        "search ends after seconds.",
        "*Scenario*: a test in virtual time, by program and name, that fails. With another core or",
        "workload the seeds are others. `mutants.py --table` writes this page.",
        "",
        f"{len(rows)} mutants: {seeded} found by a seed, {len(rows) - seeded} by scenarios only.",
        "",
        "| Mutant | What it does | Seed | Scenario |",
        "|---|---|---|---|",
        *rows,
    ]
    (HERE / "mutants.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3000)
    parser.add_argument("--seconds", type=int, default=300, help="a third, if a scenario fails")
    parser.add_argument("--only-tests", action="store_true")
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    words = parser.parse_args()
    if words.table or words.check:
        write_table() if words.table else check()
        return
    copy_source()
    if not words.only_tests:
        build("sim")
        shutil.copyfile(PROGRAMS / "sim", UNCHANGED)
        UNCHANGED.chmod(0o755)
    kept = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    survivors = []
    for file in sorted((HERE / "mutants").iterdir()):
        if words.names and not any(name in file.name for name in words.names):
            continue
        if words.new and file.name in kept and not survives(kept[file.name]):
            continue
        mutant = read(file)
        changed = sorted({path for path, _, _ in mutant.changes})
        began = time.monotonic()
        try:
            for change in mutant.changes:
                put(*change)
            found = judge(mutant, words)
        except (LookupError, subprocess.CalledProcessError) as error:
            output = getattr(error, "stdout", None)
            print(f"{mutant.name} is of no use: {output.decode()[-3000:] if output else error}")
            survivors.append(mutant.name)
            continue
        finally:
            for path in changed:
                shutil.copyfile(ROOT / path, SOURCE / path)
        print(f"{mutant.name}: {tell(found)} ({time.monotonic() - began:.0f} s)", flush=True)
        kept[mutant.name] = {**kept.get(mutant.name, {}), **found}
        FOUND.write_text(json.dumps(kept, indent=1))
        if survives(kept[mutant.name]):
            survivors.append(mutant.name)
    if survivors:
        sys.exit(f"{len(survivors)} survive: {', '.join(survivors)}")


if __name__ == "__main__":
    main()
