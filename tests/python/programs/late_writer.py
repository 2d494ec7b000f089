"""A holder that is paused by a signal before it writes: SERVER DRIVER URL LOCK [guard]."""

from __future__ import annotations

import sys
from pathlib import Path

import holdfast
import holdfast.sql

sys.path.insert(0, str(Path(__file__).parents[1]))
from databases import Database

server, driver, url, name, *guard = sys.argv[1:]
with (
    holdfast.connect(server) as client,
    Database(driver, url).opened() as (connection, cursor),
):
    hold = client.lock(name, lease=0.3, renew=False).hold()
    print("held", flush=True)
    sys.stdin.readline()  # the lease ends here
    try:
        if guard:
            holdfast.sql.guard(cursor, name, hold.fence)
        cursor.execute("UPDATE item SET stock = 1")
        connection.commit()
        print("written")
    except holdfast.StaleFence as stale:
        print(stale)
