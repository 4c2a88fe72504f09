"""The table of routes: each module here has ``ROUTES``, and adding one is a module and a line."""

from __future__ import annotations

from typing import Final

from symd.web.routes import assets, modules, sources
from symd.web.site import WebRoute

ROUTES: Final[tuple[WebRoute, ...]] = (*assets.ROUTES, *modules.ROUTES, *sources.ROUTES)
