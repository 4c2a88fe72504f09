"""The table of routes: each module here has ``ROUTES``, and adding one is a module and a line."""

from __future__ import annotations

from typing import Final

from symd.server.http.routes import debuginfod, listings, page, symbolication
from symd.server.http.site import WebRoute

ROUTES: Final[tuple[WebRoute, ...]] = (
    *debuginfod.ROUTES,
    *listings.ROUTES,
    *page.ROUTES,
    *symbolication.ROUTES,
)
