"""The page as one file: its modules of JavaScript joined, and the answers that it would ask for laid inside.

Every name and text comes from strangers. The answers are in a block of data, in which "<" is escaped, so that nothing
inside ends it; scripts and style are named by their SHA-256 in the file's own content security policy, so that nothing
else runs or is loaded."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from starlette.datastructures import Headers, QueryParams

from symd.errors import KernelNotFound
from symd.model.identities import ObjectPath
from symd.model.line_tables import ListingPart
from symd.model.summaries import KernelSummary, ModuleSummary
from symd.server.http.app import ROUTES
from symd.server.http.page import FIRST, PROFILE, NamedProfile, assets
from symd.server.http.principals import READER, HttpPrincipal
from symd.server.http.site import HttpRequest, Reply, Site, WebRoute

MAX_KERNELS: Final = 64
"""Kernels of one report, where none is named."""
ENTRY: Final = "main.js"
_IMPORT: Final = re.compile(r'^import (?:\{ ([^}]*) \}|\* as (\w+)) from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.MULTILINE)
_AUTHOR: Final = HttpPrincipal("report", READER, "report", "report")

Chosen = tuple[str, KernelSummary | None]
"""A code object's path, and a kernel in it (None: all of its code)."""


def kernels_of(site: Site, digest: str, names: Sequence[str] = ()) -> tuple[list[Chosen], int]:
    """Which kernels a report shows: those of these names, or with a profile those with the most samples, or the first;
    and how many of the module are left out. Raises KernelNotFound."""
    summary = site.symbolizer.module(digest)
    found = [*_all_kernels(summary)]
    if names:
        wanted = [each for each in found if each[1] is not None and each[1].name in names]
        missing = set(names) - {kernel.name for _, kernel in wanted if kernel is not None}
        if missing:
            raise KernelNotFound(f"there is no kernel {min(missing)!r}", hint="symd info FILE lists them")
        return wanted, 0
    profile: NamedProfile | None = site.facts.get(PROFILE)
    if profile is not None:
        found.sort(key=lambda each: -_samples_of(profile, digest, each))
    return found[:MAX_KERNELS], len(found[MAX_KERNELS:])


def _all_kernels(summary: ModuleSummary) -> Iterator[Chosen]:
    machine = [each for each in summary.objects if not (each.target or "").startswith("spirv")]
    for each in machine or summary.objects:
        yield from ((each.path, kernel) for kernel in each.kernels or (None,))


def _samples_of(profile: NamedProfile, digest: str, chosen: Chosen) -> float:
    path, kernel = chosen
    return sum(
        sum(values)
        for place, values in profile.samples.values.items()
        if (place.digest, place.path) == (digest, path)
        and (
            kernel is None
            or (place.section_index == kernel.section_index and 0 <= place.offset - kernel.offset < kernel.size)
        )
    )


def answers_of(
    site: Site, digest: str, chosen: Sequence[Chosen], variables: int = 0
) -> tuple[dict[str, Any], Counter[str]]:
    """What the page asks of these kernels, by the keys that it looks answers up by; with the variables of so many
    instructions of each kernel, the hottest ones where there is a profile. And why kernels have no instructions in it,
    with how many they are. Raises what the disassemblers raise where no kernel has even its lines."""
    asking = _Asking(site)
    asking("api/modules")
    asking("api/about")
    module = asking(f"api/modules/{digest}")
    _keep_kernels(module["summary"], chosen)
    asking(f"api/modules/{digest}/samples")
    problems: Counter[str] = Counter()
    empty = 0
    for path, kernel in chosen:
        named = {"object": path, **({"kernel": kernel.name} if kernel is not None else {})}
        listing = asking(f"api/modules/{digest}/listing", **named)
        if listing["problem"]:
            problems[listing["problem"]] += 1
            empty += not listing["offset"]
        asking(f"api/modules/{digest}/level", **named)
        for file in dict.fromkeys(listing["strings"][number] for number in listing["locations"]["file"] if number):
            asking(f"api/modules/{digest}/source", file=file, object=path)
        for place in _places(listing, kernel, variables, asking.answers[f"api/modules/{digest}/samples"]):
            asking(f"api/modules/{digest}/place", query=place, object=path)
    if chosen and empty == len(chosen):
        path, kernel = chosen[0]
        part = ListingPart(ObjectPath(path), None if kernel is None else kernel.name)
        next(site.symbolizer.listing(digest, part))  # raises the error itself
    return asking.answers, problems


class _Asking:
    """Asks the routes as the page would, and keeps the answers. Raises what they raise."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.answers: dict[str, Any] = {}

    def __call__(self, path: str, **query: str) -> Any:
        key = "\n".join([path, *(f"{name}={value}" for name, value in query.items())])
        if key not in self.answers:
            route, parts = _route(path)
            asked = HttpRequest(_AUTHOR, parts, QueryParams(query), Headers(), b"")
            self.answers[key] = _json(route.handle(self._site, asked))
        return self.answers[key]


def _json(reply: Reply) -> Any:
    assert isinstance(reply.body, bytes)  # noqa: S101 - answers in JSON are
    return json.loads(reply.body)


def _route(path: str) -> tuple[WebRoute, Mapping[str, str]]:
    for route in ROUTES:
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route.path.removeprefix("/"))
        found = re.fullmatch(pattern, path)
        if found:
            return route, found.groupdict()
    raise AssertionError(path)


def _keep_kernels(summary: dict[str, Any], chosen: Sequence[Chosen]) -> None:
    """Take the kernels that the report does not hold out of the module's description."""
    kept = {(path, kernel.name if kernel is not None else None) for path, kernel in chosen}
    paths = {path for path, _ in chosen}
    summary["objects"] = [each for each in summary["objects"] if each["object"] in paths]
    for each in summary["objects"]:
        each["kernels"] = [kernel for kernel in each["kernels"] if (each["object"], kernel["name"]) in kept]


def _places(listing: Mapping[str, Any], kernel: KernelSummary | None, most: int, samples: Any) -> list[str]:
    """Instructions as KERNEL+OFFSET, the hottest first."""
    if kernel is None or not most:
        return []
    heat: dict[tuple[int, int], float] = {}
    for each in (samples or {}).get("objects", ()):
        if each["object"] == listing["object"]:
            for number, (section, offset) in enumerate(zip(each["section_index"], each["offset"], strict=True)):
                heat[section, offset] = sum(column[number] for column in each["values"])
    places = [
        (section, offset)
        for section, offset in _offsets(listing)
        if section == kernel.section_index and offset >= kernel.offset
    ]
    places.sort(key=lambda place: -heat.get(place, 0))
    return [f"{kernel.name}+{offset - kernel.offset:#x}" for _, offset in places[:most]]


def _offsets(listing: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Section and offset of each instruction (``symd.server.http.listings``)."""
    steps = iter(listing["offset"])
    for section, length in zip(listing["sections"], listing["runs"], strict=True):
        offset = 0
        for _ in range(length):
            offset += next(steps)
            yield section["section_index"], offset


def report(answers: Mapping[str, Any], title: str) -> bytes:
    """The file. ``title`` is what the user called the module."""
    style, script = assets()["page.css"].decode(), joined_script()
    policy = f"default-src 'none'; img-src data:; style-src '{_source(style)}'; script-src '{_source(script)}'; base-uri 'none'; form-action 'none'"
    data = json.dumps(answers, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    replaced = {
        '    <link rel="icon" href="assets/icon.svg" type="image/svg+xml">\n': '    <link rel="icon" href="data:,">\n',
        '    <link rel="stylesheet" href="assets/page.css">\n': f"    <style>{style}</style>\n",
        '    <script type="module" src="assets/main.js"></script>\n': (
            f'    <script type="application/json" id="answers">{data}</script>\n    <script type="module">{script}</script>\n'
        ),
        '    <meta charset="utf-8">\n': f'    <meta charset="utf-8">\n    <meta http-equiv="content-security-policy" content="{policy}">\n',
        "<title>symd</title>": f"<title>{escape(title, quote=False)} — symd</title>",
    }
    page = assets()[FIRST].decode()
    pieces = re.split("(" + "|".join(map(re.escape, replaced)) + ")", page)
    return "".join(replaced.get(piece, piece) for piece in pieces).encode()


def joined_script() -> str:
    """All modules of the page as one, each in a function of its own, in the order in which they need each other."""
    parts: list[str] = []
    done: set[str] = set()

    def add(name: str) -> None:
        if name in done:
            return
        done.add(name)
        text = assets()[f"{name}.js"].decode()
        for _, _, other in _IMPORT.findall(text):
            add(other)
        exported = [found[2] for found in _EXPORT.finditer(text)]
        body = _EXPORT.sub(r"\1 \2", _IMPORT.sub(_bound, text))
        parts.append(f"const ${name} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();\n")

    add(ENTRY.removesuffix(".js"))
    return "".join(parts)


def _bound(found: re.Match[str]) -> str:
    names, whole, module = found.groups()
    return f"const {whole or f'{{ {names} }}'} = ${module};\n"


def _source(text: str) -> str:
    """A hash source (CSP level 3, 2.3.1)."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
