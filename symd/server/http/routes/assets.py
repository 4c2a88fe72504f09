"""The page's own files: HTML, modules of JavaScript and style, which lie in the package as they are served."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from symd.errors import NotFound
from symd.server.http.site import HttpRequest, Reply, Site, WebRoute

TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
FIRST: Final = "index.html"


@cache
def assets() -> Mapping[str, bytes]:
    """The files by name."""
    folder = files("symd.server.http") / "assets"
    return {each.name: each.read_bytes() for each in folder.iterdir() if _ending(each.name) in TYPES}


def asset(name: str) -> Reply:
    """One of the files. Raises NotFound."""
    data = assets().get(name)
    if data is None:
        raise NotFound("there is no such file of the page", where=name)
    return Reply(data, TYPES[_ending(name)])


def _ending(name: str) -> str:
    return name[name.rfind(".") :]


def _first(_site: Site, _asked: HttpRequest) -> Reply:
    return asset(FIRST)


def _named(_site: Site, asked: HttpRequest) -> Reply:
    return asset(asked.parts["name"])


ROUTES = (WebRoute("/", _first), WebRoute("/assets/{name}", _named))
