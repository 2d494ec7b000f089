"""The vendor: checks an identity, takes its time, and charges for every call.

An HTTP server on a free port of this machine. POST /check charges, and answers after 200 ms.
"""

from __future__ import annotations

import http.server
import json
import threading
import time

SECONDS = 0.2  # the time for a check


class Vendor(http.server.ThreadingHTTPServer):
    """An HTTP server that counts its charges."""

    daemon_threads = True
    request_queue_size = 1024  # enough for callers without the lock

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self._counting = threading.Lock()
        self.charges = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def charge(self) -> int:
        with self._counting:
            self.charges += 1
            return self.charges


class Request(http.server.BaseHTTPRequestHandler):
    server: Vendor

    def do_POST(self) -> None:
        identity = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        charge = self.server.charge()
        time.sleep(SECONDS)
        valid = all(identity.get(field) for field in ("name", "number", "born"))
        answer = json.dumps({"valid": valid, "charge": charge}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
