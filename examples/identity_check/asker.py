"""The askers in Python; run.py describes the question and starts them.

A line on standard input, "once 33 NAME" or "each 33 NAME", gives the way to ask, the number of
callers, and the name of the call, which is also the vendor's idempotency key. Each caller prints
its answer as a line of JSON. With "most" the vendor is called at most once, whichever process dies:
docs/guides/payment.md.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import sys
import urllib.error
import urllib.request

import holdfast

IDENTITY = {field: os.environ[f"IDENTITY_{field.upper()}"] for field in ("name", "number", "born")}


def tell(**what: object) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")  # one write, so that lines of threads do not mix


class Declined(Exception):
    """The vendor refuses: this is an answer as well, and all other callers get it."""


def ask_vendor(name: str) -> dict[str, object]:
    body = json.dumps(IDENTITY).encode()
    request = urllib.request.Request(os.environ["VENDOR"], body, {"Idempotency-Key": name})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code != 402:
            raise
        raise Declined(error.read().decode()) from None


def pay(client: holdfast.Client, name: str) -> None:
    try:
        answer = client.once(
            name,
            lambda: ask_vendor(name),
            ttl=60,
            timeout=60,
            at_most_once=True,
            keep=Declined,
        )
    except holdfast.OutcomeUnknown:
        tell(language="python", unknown=True)
    except Declined as refused:
        error = {"type": "Declined", "message": str(refused), "data": None}
        tell(language="python", error=error)
    else:
        tell(language="python", answer=answer)


def main() -> None:
    with holdfast.connect(os.environ["REDIS"]) as client:

        def check(how: str, name: str) -> None:
            if how == "once":
                answer = client.once(name, lambda: ask_vendor(name), ttl=60, timeout=60)
                tell(language="python", answer=answer)
            elif how == "most":
                pay(client, name)
            else:
                tell(language="python", answer=ask_vendor(name))

        tell(ready=True)
        for line in sys.stdin:
            how, askers, name = line.split()
            with concurrent.futures.ThreadPoolExecutor(int(askers)) as pool:
                for each in [pool.submit(check, how, name) for _ in range(int(askers))]:
                    each.result()


if __name__ == "__main__":
    main()
