"""The application, which checks the setting HOLDFAST."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from . import connect


class HoldfastConfig(AppConfig):
    """For INSTALLED_APPS."""

    name = "holdfast.contrib.django"
    label = "holdfast"
    verbose_name = "Holdfast"

    def ready(self) -> None:
        """Register the check."""
        checks.register(check_settings)


def check_settings(**_: Any) -> list[Any]:
    """Check the setting. Sends nothing."""
    try:
        connect(sending=False).close()
    except ImproperlyConfigured as wrong:
        return [checks.Error(str(wrong), id="holdfast.E001")]
    return []
