"""Django's settings, which a process can set only once."""

from __future__ import annotations

import django
from django.conf import settings

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    HOLDFAST={"URL": "redis://localhost"},
    INSTALLED_APPS=["holdfast.contrib.django"],
    ROOT_URLCONF="test_contrib_django",
)
django.setup()
