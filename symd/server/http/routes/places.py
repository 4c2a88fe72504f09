"""One place of a module: its frames, and what is in scope there; and names."""

from __future__ import annotations

from typing import Any, Final

from symd.errors import LimitExceeded, NotFound, SymdError
from symd.model.json.answers import answer_json, named_item_json, variable_json
from symd.model.names import Match, NameQuery
from symd.query.syntax import parse_query
from symd.server.http.routes.modules import checked
from symd.server.http.site import CostClass, HttpRequest, Reply, Site, WebRoute, json_reply

MOST_NAMES: Final = 200
"""Names of one answer."""
MOST_TEXT: Final = 1 << 20
"""Characters of their texts, give or take one: whoever made the module says how long those are, and each has its code object's path."""


def _place(site: Site, asked: HttpRequest) -> Reply:
    """The answer to a query as ``symd symbolize`` takes it, with the variables in scope; where those cannot be read, why."""
    digest, text, path = checked(site, asked), asked.required("query"), asked.only("object")
    query = parse_query(text)
    answer = site.symbolizer.symbolize_one(digest, query, path)
    most = site.limits.response_bytes
    if sum(len(text or "") for frame in answer.frames for text in frame[:3]) > most:
        what = f"the names of the frames have more than {most} bytes"
        raise LimitExceeded(what, metadata={"limit": "response_bytes", "value": str(most)})
    found: dict[str, Any] = answer_json(text, answer) | {"section_index": answer.section_index}
    try:
        visible = site.symbolizer.variables(digest, query, path).visible
        found |= {
            "variables": [variable_json(each) for each in visible.variables],
            "simd_width": visible.simd_width,
            "notes": list(visible.notes),
        }
    except SymdError as error:
        found |= {"variables": [], "simd_width": None, "notes": [str(error)]}
    return json_reply(found)


def _names(site: Site, asked: HttpRequest) -> Reply:
    pattern = asked.required("pattern")
    match = Match.GLOB if set("*?[") & set(pattern) else Match.PREFIX
    try:
        names = site.symbolizer.names(checked(site, asked), NameQuery(pattern, match), asked.only("object"))
    except NotFound:
        names = ()
    found: list[dict[str, Any]] = []
    room = MOST_TEXT
    for each in names:
        if len(found) == MOST_NAMES or room <= 0:
            return json_reply({"names": found, "more": True})
        found.append(named_item_json(each, each.name))
        room -= sum(len(text or "") for text in (each.name, each.linkage_name, each.path, each.section))
    return json_reply({"names": found, "more": False})


ROUTES = (
    WebRoute("/api/modules/{digest}/place", _place),
    WebRoute("/api/modules/{digest}/names", _names, effort=CostClass.LARGE),
)
