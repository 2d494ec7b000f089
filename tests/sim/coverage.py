"""coverage.py BUILD: which lines of the core the simulation has reached, by gcov: for each floor
and file, with the lines that it has not reached.
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NOT_HERE = {"tls.c", "openssl.c"}  # the simulation has no TLS


def main() -> None:
    build = Path(sys.argv[1]).resolve()
    folder = build / "core" / "CMakeFiles" / "holdfast_simulated.dir" / "src"
    lines: dict[Path, dict[int, int]] = defaultdict(dict)
    for data in sorted(folder.rglob("*.gcda")):
        told = subprocess.run(
            ["gcov", "--json-format", "--stdout", data],
            check=True, capture_output=True, cwd=build, text=True,
        ).stdout  # fmt: skip
        for file in json.loads(told)["files"]:
            path = Path(file["file"])
            if not path.is_relative_to(ROOT / "core" / "src"):
                continue
            counts = lines[path.relative_to(ROOT / "core" / "src")]
            for line in file["lines"]:
                number = line["line_number"]
                counts[number] = counts.get(number, 0) + line["count"]
    floors: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, counts in sorted(lines.items()):
        missed = [number for number, count in sorted(counts.items()) if count == 0]
        if path.name not in NOT_HERE:
            floors[path.parts[0]][0] += len(counts) - len(missed)
            floors[path.parts[0]][1] += len(counts)
        percent = 100 * (len(counts) - len(missed)) / len(counts)
        print(f"{percent:5.1f} % {path}: {' '.join(map(str, missed))}")
    for floor, (reached, all_lines) in sorted(floors.items()):
        print(f"{floor}/: {100 * reached / all_lines:.1f} % of {all_lines} lines")


main()
