"""What the page has to know of the server before it asks anything else."""

from __future__ import annotations

from typing import Final

from symd.model.reasons import KNOWN
from symd.server.http.site import HttpRequest, Reply, Site, WebRoute, json_reply

PRESENCE: Final = "presence"
"""The fact of a site that ends when nobody looks any more."""


def _about(site: Site, _asked: HttpRequest) -> Reply:
    names = {reason.value: reason.name for reason in KNOWN}
    reasons = [names.get(number, "") for number in range(max(names) + 1)]
    return json_reply({"reasons": reasons, "presence": PRESENCE in site.facts})


ROUTES = (WebRoute("/api/about", _about),)
