"""A cache backend of django-redis whose locks are Holdfast's.

    CACHES = {
        "default": {
            "BACKEND": "holdfast.contrib.django.cache.RedisCache",
            "LOCATION": "redis://localhost/1",
        }
    }

    with cache.lock("report", timeout=60): ...

Everything else is django_redis.cache.RedisCache. The lock connects as the cache does, has the
methods of redis-py's Lock and the same key, and excludes processes that still use django-redis's
own lock: holdfast.compat.redis lists the differences.
"""

from __future__ import annotations

from typing import Any

try:
    import django_redis.cache
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "holdfast.contrib.django.cache needs django-redis, which comes with"
        " holdfast-lock[django-redis]",
        name=missing.name,
    ) from missing

import holdfast.compat.redis


class RedisCache(django_redis.cache.RedisCache):
    """django_redis.cache.RedisCache with Holdfast's locks."""

    def lock(self, *args: Any, **kwargs: Any) -> holdfast.compat.redis.Lock:
        """Make a lock; the arguments are those of django-redis. Sends nothing."""
        # It knows the server and the key of this cache's client class and version.
        theirs = super().lock(*args, **kwargs)
        return holdfast.compat.redis.Lock(
            theirs.redis,
            theirs.name,
            timeout=theirs.timeout,
            sleep=theirs.sleep,
            blocking=theirs.blocking,
            blocking_timeout=theirs.blocking_timeout,
            thread_local=theirs.thread_local,
        )
