"""Brings pages and files from outside docs/ into the site, and keeps links to them right."""

from __future__ import annotations

import posixpath
import re
import subprocess
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[1]
HEADER = "core/include/holdfast/holdfast.h"
MANUAL = "cli/holdfast.1"

# Files of the repository, and the pages that they are in the site.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/by_hand/README.md": "guides/by_hand.md",
    "SECURITY.md": "security.md",
    HEADER: "reference/c.md",
    MANUAL: "reference/cli.md",
}
FROM = {page: file for file, page in PAGES.items()}

# Not in the repository: scripts/docs puts them there.
BUILT = {
    "mermaid.js": "build/mermaid/mermaid.js",
    "javadoc": "java/target/reports/apidocs",
    "javadoc-spring": "java/spring-boot-starter/target/reports/apidocs",
}

# What people look for, and the page that is to come first; and pages that are to come last.
LOCKS = [
    "semaphore",
    "rate limit",
    "rate limiter",
    "throttle",
    "mutex",
    "idempotency",
    "idempotent",
]
SOUGHT = {
    "guides/asyncio.md": ["asyncio", "coroutine"],
    "guides/fences.md": ["fence", "fencing", "fencing token"],
    "guides/leader.md": ["leader election"],
    "guides/periodic.md": ["cron", "scheduler"],
    "guarantees.md": ["safety"],
    "java.md": LOCKS,
    "python.md": LOCKS,
    "start.md": ["tutorial", "mutex"],
}
LAST = 0.2
LATER = {
    "changelog.md",
    "design.md",
    "interleavings.md",
    "performance.md",
    "protocol.md",
    "reference/c.md",
}

# A link or a picture, to a path: [text](path#anchor)
LINK = re.compile(r"(!?\[[^\[\]]*\])\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def content(file: str) -> str:
    if file == HEADER:
        about = "The header `holdfast.h` is the manual. [Holdfast in C](../../../docs/guides/c.md)"
        text = (ROOT / file).read_text()
        return f"# C reference\n\n{about} shows how to use it.\n\n```c\n{text}```\n"
    if file == MANUAL:
        command = ["mandoc", "-T", "html", "-O", "fragment", ROOT / file]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return f"# holdfast(1)\n\n<div class='manual'>\n{text}</div>\n"
    return (ROOT / file).read_text()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for file, page in PAGES.items():
        files.append(File.generated(config, page, content=content(file)))
    for name, built in BUILT.items():
        source = ROOT / built
        inside = sorted(source.rglob("*")) if source.is_dir() else [source]
        for each in inside:
            if each.is_dir() or each.suffix == ".md":
                continue
            uri = posixpath.join(name, each.relative_to(source).as_posix()).removesuffix("/.")
            files.append(File.generated(config, uri, abs_src_path=str(each)))
    files.append(File.generated(config, "site.css", abs_src_path=str(ROOT / "site/site.css")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links within the repository links within the site."""
    uri = page.file.src_uri
    if uri == "index.md":
        page.meta["hide"] = ["toc"]  # a wide page: more of it is seen at once
    if uri in SOUGHT:
        page.meta["tags"] = SOUGHT[uri]
    if uri in LATER:
        page.meta["search"] = {"boost": LAST}
    here = FROM.get(uri, f"docs/{uri}")

    def moved(link: re.Match[str]) -> str:
        text, path, anchor = link.groups(default="")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
        if not (ROOT / there).exists():
            return link[0]  # which the site has, or --strict refuses
        if there in PAGES:
            target = PAGES[there]
        elif there.startswith("docs/"):
            target = there.removeprefix("docs/")
        else:  # a source file, which the site has not: the text names it
            return text[1:-1]
        return f"{text}({posixpath.relpath(target, posixpath.dirname(uri) or '.')}{anchor})"

    if uri == "reference/java.md":
        markdown = markdown.replace("The Javadoc", "The [Javadoc](../javadoc/index.html)", 1)
        starter = "starter's own [Javadoc](../javadoc-spring/index.html)"
        markdown = markdown.replace("starter's own Javadoc", starter, 1)
    return LINK.sub(moved, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Draw diagrams with the site's own copy of Mermaid, and not with another host's."""
    if 'class="mermaid"' not in output:
        return output
    script = get_relative_url("mermaid.js", page.url)
    return output.replace("</head>", f'<script src="{script}"></script></head>')
