"""Texts of source files with their colours."""

from __future__ import annotations

from typing import Any

from symd.model.sources import SourceText
from symd.server.http.colouring import Rows
from symd.server.http.routes.modules import checked
from symd.server.http.site import CostClass, HttpRequest, Reply, Site, WebRoute, json_reply


def _source(site: Site, asked: HttpRequest) -> Reply:
    digest = checked(site, asked)
    (found,) = site.sources(digest, [asked.required("file")], asked.only("object"))
    asked.check_cancelled()
    text = None if found.text is None else "\n".join(found.text.splitlines())
    return json_reply(source_json(found, text, None if text is None else site.colour(found.file, text)))


def source_json(source: SourceText, text: str | None, runs: Rows | None) -> dict[str, Any]:
    """A text, or why there is none. ``runs`` are the colours of each line (``symd.server.http.colouring``), ``origin`` where the text is from."""
    return {
        "file": source.file,
        "text": text,
        "runs": runs,
        "origin": source.origin.name,
        "path": source.path,
        "md5": source.md5.hex() if source.md5 else None,
        "problem": source.problem or None,
    }


ROUTES = (WebRoute("/api/modules/{digest}/source", _source, effort=CostClass.LARGE),)
