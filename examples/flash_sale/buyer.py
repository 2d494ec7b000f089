"""The flash sale's Python buyers; run.py describes the sale and starts them.

Every line on standard input is a buyer, "locked 17" or "unlocked 17", which gets a thread and
prints its result as one line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time

import holdfast
from shop import Shop

STOCK = os.environ["SHOP_STOCK"]
ORDER = os.environ["SHOP_ORDER"]


def tell(**what: object) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")  # one write, so that lines of threads do not mix


def buy(lock: holdfast.Lock, number: int, locked: bool) -> None:
    shop = Shop()
    with lock.hold(timeout=60) if locked else contextlib.nullcontext() as hold:
        order = shop.ask("INCR", ORDER)
        stock = shop.ask("GET", STOCK)
        if stock > 0:
            time.sleep(0.003)  # the buyer thinks about the price
            shop.ask("SET", STOCK, stock - 1)

    fence = hold.fence if hold else 0
    tell(buyer=number, language="python", order=order, stock=stock, bought=stock > 0, fence=fence)
    shop.close()


def give_up(failure: threading.ExceptHookArgs) -> None:
    threading.__excepthook__(failure)
    os._exit(1)


def main() -> None:
    threading.excepthook = give_up  # a sale with a missing buyer proves nothing
    with holdfast.connect(os.environ["SHOP_URL"]) as client:
        lock = client.lock(os.environ["SHOP_LOCK"])
        tell(ready=True)
        buyers = []
        for line in sys.stdin:
            mode, number = line.split()
            buyers.append(threading.Thread(target=buy, args=(lock, int(number), mode == "locked")))
            buyers[-1].start()
        for buyer in buyers:
            buyer.join()


if __name__ == "__main__":
    main()
