"""A profile's samples on the instructions of a module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from symd.profiles.placed import InstructionPlace, PlacedSamples
from symd.profiles.samples import Value
from symd.server.http.routes.modules import checked
from symd.server.http.site import CostClass, HttpRequest, Reply, Site, WebRoute, json_reply

PROFILE: Final = "profile"
"""The fact of a site that is its profile, a ``NamedProfile``."""
OTHER_MODULE: Final = "OTHER_MODULE"
"""Where samples lie in a module that is known and is not the one that is shown."""


@dataclass(frozen=True, slots=True)
class NamedProfile:
    """Samples on instructions, and what the user called the profile."""

    name: str
    samples: PlacedSamples


def _samples(site: Site, asked: HttpRequest) -> Reply:
    """null where there is no profile."""
    digest = checked(site, asked)
    profile: NamedProfile | None = site.facts.get(PROFILE)
    return json_reply(None if profile is None else samples_json(profile, digest))


def samples_json(profile: NamedProfile, digest: str) -> dict[str, Any]:
    """Columns for each code object of the module: where samples lie, and for each metric its values there. ``total`` of a metric is over
    the whole profile; ``left`` are samples that lie in no code of this module, by reason, a sum for each metric. ``default`` is the metric that is shown first."""
    samples = profile.samples
    objects: dict[str, dict[InstructionPlace, list[Value]]] = {}
    others = []
    for place, values in samples.values.items():
        if place.digest == digest:
            objects.setdefault(place.path, {})[place] = values
        else:
            others.append(values)
    left = {reason.name: values for reason, values in samples.left.items()}
    if others:
        left[OTHER_MODULE] = [sum(column) for column in zip(*others, strict=True)]
    return {
        "name": profile.name,
        "is_summable": samples.is_summable,
        "metrics": [
            {"name": kind.name, "unit": kind.unit, "total": total}
            for kind, total in zip(samples.columns, samples.totals(), strict=True)
        ],
        "objects": [{"object": path, **_columns(places, len(samples.columns))} for path, places in objects.items()],
        "default": samples.default,
        "left": left,
        "notes": list(samples.notes),
    }


def _columns(places: Mapping[InstructionPlace, list[Value]], width: int) -> dict[str, Any]:
    return {
        "section_index": [place.section_index for place in places],
        "offset": [place.offset for place in places],
        "values": [[values[number] for values in places.values()] for number in range(width)],
    }


ROUTES = (WebRoute("/api/modules/{digest}/samples", _samples, effort=CostClass.LARGE),)
