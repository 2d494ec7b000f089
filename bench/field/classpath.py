"""The libraries that pom.xml names: other locks in Java, from Maven."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")


def class_path(build_dir: Path) -> str:
    """Download what is missing; return the class path."""
    path = build_dir.resolve() / "peers.classpath"
    if not path.exists() or path.stat().st_mtime < POM.stat().st_mtime:
        goal = "dependency:build-classpath"
        fetch = ["mvn", "-B", "-ntp", "-q", "-f", POM, goal, f"-Dmdep.outputFile={path}"]
        fetched = subprocess.run(fetch, capture_output=True, text=True)
        if fetched.returncode != 0:
            sys.exit(f"Redisson and Jedis cannot be fetched\n{fetched.stdout}")
    return path.read_text().strip()
