"""Pages of other origins: what they may send, read and change here."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from symd.errors import PermissionDenied
from symd.server.http.site import WebRoute

_SAFE: Final = frozenset(("GET", "HEAD"))
_OF_OTHERS: Final = frozenset(("cross-site", "same-site"))
_LINKED: Final = ("document", "")
"""What a link that is followed brings (w3.org/TR/fetch-metadata, Sec-Fetch-Dest), and browsers that do not say it; a frame is none."""


async def preflight(route: WebRoute, request: Request) -> Response:
    """What a page of another origin may send (fetch.spec.whatwg.org, CORS protocol)."""
    allowed = headers_for(route, request)
    if allowed:
        allowed |= {
            "access-control-allow-methods": f"{route.method}, OPTIONS",
            "access-control-allow-headers": "content-type, authorization",
            "access-control-max-age": "600",
        }
        if (
            request.headers.get("access-control-request-private-network") == "true"
        ):  # a page of the web asks a server of this machine
            allowed["access-control-allow-private-network"] = "true"
    return Response(status_code=204, headers=allowed)


def headers_for(route: WebRoute, request: Request) -> dict[str, str]:
    """Headers of an answer that let the page which asked for it read it; none where it may not."""
    origin = request.headers.get("origin", "")
    if not origin or not {"*", origin} & set(route.origins):
        return {}
    return {"access-control-allow-origin": origin, "vary": "origin", "cross-origin-resource-policy": "cross-origin"}


def check_origin(route: WebRoute, request: Request) -> None:
    """Raises PermissionDenied where a page of another origin wants something changed, or brought here, with what its visitor's browser shows by itself
    (a kept password): told by Origin, or by Fetch Metadata where a browser leaves that out. A link that is followed is no such thing."""
    told = request.headers
    origin = told.get("origin", "")
    if {"*", origin} & set(route.origins):
        return
    linked = (
        request.method in _SAFE
        and told.get("sec-fetch-mode") == "navigate"
        and told.get("sec-fetch-dest", "") in _LINKED
    )
    fetched = told.get("sec-fetch-site") in _OF_OTHERS and not linked
    if fetched or (origin and origin.partition("://")[2] != told.get("host")):
        raise PermissionDenied("a page of another origin may not do that", where=origin[:200])
