"""The page's own files (HTML, JavaScript modules and style, served as they are in the package), and its questions about
modules: the list of them, the contents of one, one place with its frames and what is in scope there, names, a profile's
samples on its instructions, and source texts with their colors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from symd.errors import LimitExceeded, ModuleNotFound, NotFound, SymdError
from symd.model.addresses import parse_query
from symd.model.cancellation import check_cancelled
from symd.model.json.answers import answer_json, named_item_json, variable_json
from symd.model.json.modules import module_json
from symd.model.names import Match, NameKind, NameQuery
from symd.model.reasons import KNOWN
from symd.model.sources import SourceText
from symd.model.summaries import ModuleRecord, ModuleSummary
from symd.model.texts import utf8_size
from symd.profiles.placed import InstructionPlace, PlacedSamples
from symd.profiles.samples import Value
from symd.server.http.colouring import Rows
from symd.server.http.site import CostClass, HttpRequest, Reply, Site, WebRoute, json_reply

PRESENCE: Final = "presence"
"""The fact of a site that ends when nobody looks any more."""


def _about(site: Site, _asked: HttpRequest) -> Reply:
    names = {reason.value: reason.name for reason in KNOWN}
    reasons = [names.get(number, "") for number in range(max(names) + 1)]
    return json_reply({"reasons": reasons, "presence": PRESENCE in site.facts})


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


MANGLED: Final = "_Z"
"""How mangled names begin (Itanium C++ ABI)."""
MAX_READABLE: Final = 2_000
"""Kernels of a module whose readable names are looked for."""
MAX_MODULES: Final = 10_000
"""Modules of one answer."""


def _list(site: Site, _asked: HttpRequest) -> Reply:
    records = [*islice(_shown(site), MAX_MODULES + 1)]
    return json_reply(
        {"modules": [_record_json(each) for each in records[:MAX_MODULES]], "more": len(records) > MAX_MODULES}
    )


def _shown(site: Site) -> Iterator[ModuleRecord]:
    return site.symbolizer.modules() if site.only is None else map(site.symbolizer.record, site.only)


def _record_json(record: ModuleRecord) -> dict[str, Any]:
    return {
        "sha256": record.sha256,
        "label": record.label,
        "format": record.format,
        "size": record.size,
        "create_time": record.create_time,
        "failure": record.failure or None,
    }


def _one(site: Site, asked: HttpRequest) -> Reply:
    digest = checked(site, asked)
    record = site.symbolizer.record(digest)
    summary = site.symbolizer.module(digest)
    return json_reply(
        _record_json(record)
        | {"summary": module_json(record.label, summary), "readable": _readable(site, digest, summary)}
    )


def _readable(site: Site, digest: str, summary: ModuleSummary) -> dict[str, str]:
    """The names of kernels as they were written, by the names that their symbols have, where both are known."""
    kernels = {kernel.name for each in summary.objects for kernel in each.kernels}
    if not any(name.startswith(MANGLED) for name in kernels) or len(kernels) > MAX_READABLE:
        return {}
    kinds = frozenset((NameKind.KERNEL, NameKind.FUNCTION))
    named = site.symbolizer.names(digest, NameQuery("*", Match.GLOB, kinds))
    return {each.linkage_name: each.name for each in named if each.linkage_name and each.linkage_name in kernels}


def checked(site: Site, asked: HttpRequest) -> str:
    """The module that the path names, if it is shown here. Raises InvalidInput and ModuleNotFound."""
    digest = asked.digest()
    if site.only is not None and digest not in site.only:
        raise ModuleNotFound("this module is not shown here", where=digest)
    return digest


MAX_NAMES: Final = 200
"""Names of one answer."""
MAX_PAGE_NAMES_TEXT: Final = 1 << 20
"""Bytes of their texts, give or take one: a module may make them of any length, and each has its code
object's path."""


def _place(site: Site, asked: HttpRequest) -> Reply:
    """The answer to a query as ``symd symbolize`` takes it, with the variables in scope; where those cannot be read,
    why."""
    digest, text, path = checked(site, asked), asked.required("query"), asked.query.get("object")
    query = parse_query(text)
    answer = site.symbolizer.symbolize_one(digest, query, path)
    most = site.limits.response_bytes
    if sum(utf8_size(text) for frame in answer.frames for text in frame[:3]) > most:
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
        names = site.symbolizer.names(checked(site, asked), NameQuery(pattern, match), asked.query.get("object"))
    except NotFound:
        names = ()
    found: list[dict[str, Any]] = []
    room = MAX_PAGE_NAMES_TEXT
    for each in names:
        if len(found) == MAX_NAMES or room <= 0:
            return json_reply({"names": found, "more": True})
        found.append(named_item_json(each, each.name))
        room -= sum(map(utf8_size, (each.name, each.linkage_name, each.path, each.section)))
    return json_reply({"names": found, "more": False})


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
    """Columns for each code object of the module: where samples lie, and for each metric its values there. ``total`` of
    a metric is over the whole profile; ``left`` are samples that lie in no code of this module, by reason, a sum for
    each metric. ``default`` is the metric that is shown first."""
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


def _source(site: Site, asked: HttpRequest) -> Reply:
    digest = checked(site, asked)
    (found,) = site.sources(digest, [asked.required("file")], asked.query.get("object"))
    check_cancelled()
    text = None if found.text is None else "\n".join(found.lines())
    return json_reply(source_json(found, text, None if text is None else site.colour(found.file, text)))


def source_json(source: SourceText, text: str | None, runs: Rows | None) -> dict[str, Any]:
    """A text, or why there is none. ``runs`` are the colours of each line (``symd.server.http.colouring``), ``origin``
    where the text is from."""
    return {
        "file": source.file,
        "text": text,
        "runs": runs,
        "origin": source.origin.name,
        "path": source.path,
        "md5": source.md5.hex() if source.md5 else None,
        "problem": source.problem or None,
    }


ROUTES = (
    WebRoute("/api/about", _about),
    WebRoute("/", _first),
    WebRoute("/assets/{name}", _named),
    WebRoute("/api/modules", _list),
    WebRoute("/api/modules/{digest}", _one),
    WebRoute("/api/modules/{digest}/place", _place),
    WebRoute("/api/modules/{digest}/names", _names, effort=CostClass.LARGE),
    WebRoute("/api/modules/{digest}/samples", _samples, effort=CostClass.LARGE),
    WebRoute("/api/modules/{digest}/source", _source, effort=CostClass.LARGE),
)
