"""The table of routes: each module here has ``ROUTES``, and adding one is a module and a line."""

from __future__ import annotations

from typing import Final

from symd.server.http.routes import (
    about,
    assets,
    debuginfod,
    levels,
    listings,
    modules,
    places,
    samples,
    sources,
    symbolication,
)
from symd.server.http.site import WebRoute

ROUTES: Final[tuple[WebRoute, ...]] = (
    *about.ROUTES,
    *assets.ROUTES,
    *debuginfod.ROUTES,
    *levels.ROUTES,
    *listings.ROUTES,
    *modules.ROUTES,
    *places.ROUTES,
    *samples.ROUTES,
    *sources.ROUTES,
    *symbolication.ROUTES,
)
