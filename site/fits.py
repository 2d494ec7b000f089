"""Does each page of the site fit a phone? Chromium lays it out in a frame of 375 and of 320 pixels.

fits.py SITE
"""

from __future__ import annotations

import functools
import http.server
import json
import queue
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

WIDTHS = (375, 320)
LOOK = """<!DOCTYPE html><body><script>
const wide = (page) => {
  const width = page.documentElement.clientWidth;
  const scrolls = (at) => at && at !== page.body &&
    (/auto|scroll|hidden/.test(getComputedStyle(at).overflowX) || scrolls(at.parentElement));
  const sticks = [...page.querySelectorAll(".md-content *")].filter((at) => {
    const box = at.getBoundingClientRect();
    return box.width > 0 && box.right > width + 1 && !scrolls(at.parentElement);
  });
  return sticks.length ? sticks[0].tagName + ": " + sticks[0].textContent.trim().slice(0, 60)
       : page.documentElement.scrollWidth > width + 1 ? "the page" : null;
};
(async () => {
  const found = [];
  for (const width of WIDTHS) for (const url of PAGES) {
    const frame = document.createElement("iframe");
    frame.width = width; frame.height = 800; frame.style.border = "none"; frame.src = url;
    const loaded = new Promise((resolve) => (frame.onload = resolve));
    document.body.append(frame);
    await loaded;
    const what = wide(frame.contentDocument);
    if (what) found.push(`${url}, ${width} pixels: ${what}`);
    frame.remove();
  }
  await fetch("/found", {method: "POST", body: JSON.stringify(found)});
})();
</script>"""


class Handler(http.server.SimpleHTTPRequestHandler):
    look = b""
    found: queue.Queue[list[str]] = queue.Queue()

    def do_GET(self) -> None:
        if self.path != "/look":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.look)

    def do_POST(self) -> None:
        self.found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    site = Path(sys.argv[1])
    pages = [str(page.relative_to(site)) for page in sorted(site.rglob("*.html"))]
    pages = [f"/{page}" for page in pages if not page.startswith("javadoc")]
    look = LOOK.replace("WIDTHS", json.dumps(WIDTHS)).replace("PAGES", json.dumps(pages))
    Handler.look = look.encode()
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(site))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/look"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        chromium = ["chromium", "--headless", "--no-sandbox", "--disable-gpu"]
        chromium += ["--remote-debugging-port=0", f"--user-data-dir={profile}", address]
        browser = subprocess.Popen(chromium, stderr=subprocess.DEVNULL)
        try:
            wide = Handler.found.get(timeout=120)
        finally:
            browser.kill()
            browser.wait()
    print(f"{len(pages)} pages looked at", *wide, sep="\n")
    sys.exit(1 if wide else 0)


if __name__ == "__main__":
    main()
