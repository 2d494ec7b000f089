"""For tests of code that uses Holdfast: a Redis of their own, or clients that need none.

with holdfast.testing.redis_server() as url, holdfast.connect(url) as client:
    with client.lock("stock"):
        ...

with holdfast.testing.MemoryClient() as client, client.lock("stock"):
    ...

pytest also finds the fixtures holdfast_server, a URL, holdfast_client, and holdfast_trouble, which
makes trouble for that client.
"""

from ._memory import MemoryClient, MemoryServer
from ._redis import redis_server
from ._trouble import Struck, Trouble, trouble

__all__ = ["MemoryClient", "MemoryServer", "Struck", "Trouble", "redis_server", "trouble"]

for _name in __all__:
    globals()[_name].__module__ = __name__
