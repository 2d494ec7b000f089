"""rename.py IMPORTS OUTPUT [--wrap=SYMBOL…] OBJECT…: link these objects into one, in which each
import of the system is the simulation's, and static data is in the section hf_data.

Coverage counters stay where they are: they belong to no simulated process.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def symbols(imports: Path) -> str:
    """Return the input of objcopy --redefine-syms."""
    pairs = []
    for line in imports.read_text().splitlines():
        name, *new = line.split("#")[0].split() or [""]
        if name:
            pairs.append(f"{name} {new[0] if new else 'sim_' + name}\n")
    return "".join(pairs)


def data_sections(file: Path) -> list[str]:
    """Return the sections of variables of which each simulated process has its own."""
    listing = subprocess.run(
        ["objdump", "-h", "-w", file], check=True, capture_output=True, text=True
    ).stdout
    names = re.findall(r"^\s*\d+ (\.(?:data|bss)\S*)", listing, re.MULTILINE)
    return [name for name in names if ".ro" not in name and "__gcov" not in name]


def check(file: Path, known: Path) -> None:
    """Check that the object imports nothing of the real system; it may read files."""
    asks = {line.split()[0] for line in known.read_text().splitlines() if " " in line}
    asks -= {"#", "access", "fclose", "ferror", "fopen", "fread", "getenv", "stat"}
    left = subprocess.run(["nm", "-u", file], check=True, capture_output=True, text=True).stdout
    real = asks & {re.sub("^__(.*)_chk$", r"\\1", name) for name in left.split()}
    if real:
        sys.exit(f"not renamed: {', '.join(sorted(real))}; each needs a line in imports")


def main() -> None:
    wraps = [word for word in sys.argv if word.startswith("--wrap=")]
    imports, output, *objects = (Path(word) for word in sys.argv[1:] if word not in wraps)
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        names, one = Path(folder, "names"), Path(folder, "one.o")
        names.write_text(symbols(imports))
        archives = [o for o in objects if o.suffix == ".a"]
        plain = [o for o in objects if o.suffix != ".a"]
        subprocess.run(
            ["ld", "-r", *wraps, "--unique=.data.*", "--unique=.bss.*", "-o", one, *plain]
            + (["--whole-archive", *archives] if archives else []),
            check=True,
        )
        flags = []
        for section in sorted(set(data_sections(one))):
            flags += [f"--set-section-flags={section}=alloc,load,data,contents"]
            flags += [f"--rename-section={section}=hf_data,alloc,load,data,contents"]
        new = Path(folder, "new.o")
        subprocess.run(["objcopy", f"--redefine-syms={names}", *flags, one, new], check=True)
        check(new, imports.parent.parent / "imports")
        os.replace(new, output)


main()
