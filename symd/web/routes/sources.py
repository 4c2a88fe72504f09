"""Texts of source files with their colours."""

from __future__ import annotations

from typing import Any

from symd.model.sources import SourceText
from symd.web.colouring import coloured
from symd.web.routes.modules import checked
from symd.web.site import Asked, Effort, Reply, Site, WebRoute, json_reply


def _source(site: Site, asked: Asked) -> Reply:
    digest = checked(site, asked)
    (found,) = site.sources(digest, [asked.required("file")], asked.only("object"))
    return json_reply(source_json(found))


def source_json(source: SourceText) -> dict[str, Any]:
    """A text, or why there is none. ``runs`` are the colours of each line (``symd.web.colouring``), ``origin`` where the text is from."""
    text = None if source.text is None else "\n".join(source.text.splitlines())
    return {
        "file": source.file,
        "text": text,
        "runs": None if text is None else coloured(source.file, text),
        "origin": source.origin.name,
        "path": source.path,
        "md5": source.md5.hex() if source.md5 else None,
        "problem": source.problem or None,
    }


ROUTES = (WebRoute("/api/modules/{digest}/source", _source, effort=Effort.LARGE),)
