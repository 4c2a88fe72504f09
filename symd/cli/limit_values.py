"""``--limit NAME=VALUE``: what a limit counts, which values it may have, and which limits contradict each other."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import click

from symd.config import MIB, Limits
from symd.errors import Unavailable
from symd.system.installed import shipped
from symd.system.messages import alike

_VALUE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)", re.ASCII)
_KIB: Final = 1 << 10
_SIZES: Final = MappingProxyType(
    {"": 1, "B": 1} | {f"{letter}{end}": _KIB**power for power, letter in enumerate("KMGT", 1) for end in ("", "iB")}
)
_COUNTS: Final = MappingProxyType({"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12})
_SECONDS: Final = MappingProxyType({"": 1.0, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0})
_BYTES: Final = frozenset(("bytes_in_flight", "client_bytes_in_flight", "expansion", "open_indexes"))
"""Limits that are sizes, though their names do not end as those of others do."""
_SIZE_ENDINGS: Final = ("_size", "_memory", "_bytes", "_disk")


class LimitKind(NamedTuple):
    """What a limit counts: its units, and the values that it may have where ``_RANGES`` says no others."""

    what: str
    units: MappingProxyType[str, int] | MappingProxyType[str, float]
    lowest: float
    highest: float
    examples: str


SIZE: Final = LimitKind("a size", _SIZES, 1, 1 << 50, "bytes, or with K, M, G or T (also KiB, MiB, ...), as 64M")
COUNT: Final = LimitKind("a number", _COUNTS, 1, 1 << 40, "a whole number, or with K, M, G or T (thousands), as 4M")
TIME: Final = LimitKind("a time", _SECONDS, 0.001, 2_000_000, "seconds, or with ms, s, min, h or d, as 90s")
_INT32: Final = (1 << 31) - 1
_WORKER: Final = 128 * MIB
"""Less address space, and Python with its libraries does not start."""
_MESSAGE: Final = 64 * MIB
"""The largest message on the wire (``server.messages.MAX_REQUEST``)."""
_RANGES: Final[MappingProxyType[str, tuple[float, float]]] = MappingProxyType(
    {
        "build_memory": (_WORKER, SIZE.highest),
        "driver_memory": (_WORKER, SIZE.highest),
        "daemon_memory": (_WORKER, SIZE.highest),
        "request_bytes": (1, _MESSAGE),
        "free_disk": (0, SIZE.highest),
        "connections": (1, _INT32),
        "calls_per_connection": (1, _INT32),
        "cold_questions": (1, 1024),
    }
    | dict.fromkeys(("aliases", "contexts"), (0, COUNT.highest))
)
"""Lowest and highest value of the limits that have others than their kind: 0 where "none" is sensible; threads; what
gRPC counts in 32 bits."""
_SMALLER_FIRST: Final = (
    ("client_bytes_in_flight", "bytes_in_flight", "one client can never have its share"),
    ("request_bytes", "client_bytes_in_flight", "a request that is allowed is refused as BUSY, always"),
    ("response_bytes", "client_bytes_in_flight", "a response that is allowed is refused as BUSY, always"),
    ("bytes_in_flight", "daemon_memory", "calls are ended for want of memory before the limit is reached"),
    ("module_size", "store_size", "a module that is allowed does not fit into the store"),
)


def kind(name: str) -> LimitKind:
    """What the limit of this name counts."""
    if isinstance(getattr(Limits(), name), float):
        return TIME
    return SIZE if name in _BYTES or name.endswith(_SIZE_ENDINGS) else COUNT


def limits_of(texts: tuple[str, ...]) -> Limits:
    """``NAME=VALUE`` texts to limits. Raises click.BadParameter, which says what may be written."""
    chosen: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text!r} is not a limit and its value; write NAME=VALUE, such as module_size=4G")
        _check_name(name)
        chosen[name] = _number(name, value)
    return Limits(**chosen)


def contradictions(limits: Limits) -> Iterator[str]:
    """A sentence for each limit that has no effect, or makes another one useless."""
    for smaller, larger, meaning in _SMALLER_FIRST:
        if getattr(limits, smaller) > getattr(limits, larger):
            values = [f"{name} ({shown(name, getattr(limits, name))})" for name in (smaller, larger)]
            yield f"{values[0]} is more than {values[1]}: {meaning}"


def shown(name: str, value: float) -> str:
    """A value in the unit that it is read in."""
    of = kind(name)
    if of is TIME:
        return f"{value:,.3f}".rstrip("0").rstrip(".") + " s"
    if of is COUNT:
        return f"{round(value):,}"
    unit = max((unit for unit in ("", "KiB", "MiB", "GiB", "TiB") if value >= _SIZES[unit] and not value % _SIZES[unit]),
               key=_SIZES.__getitem__, default="")  # fmt: skip
    return f"{round(value) // round(_SIZES[unit])} {unit or 'B'}"


def allowed(name: str) -> tuple[float, float]:
    """The lowest and the highest value of a limit."""
    of = kind(name)
    return _RANGES.get(name, (of.lowest, of.highest))


def _check_name(name: str) -> None:
    known = Limits._fields
    if name in known:
        return
    holding = [each for each in known if name and name.lower() in each]
    near = alike(name.lower(), known, 3, 0.5) or holding[:3]
    meant = f"did you mean {' or '.join(near)}?" if near else f"{_page()} lists them, such as module_size"
    raise click.BadParameter(f"there is no limit {name!r}; {meant}")


def _page() -> str:
    """The page that describes the limits, where it is on this machine."""
    try:
        return str(shipped("docs") / "reliability.md")
    except Unavailable:
        return "docs/reliability.md"


def _number(name: str, text: str) -> float:
    of, (lowest, highest) = kind(name), allowed(name)
    span = f"from {shown(name, lowest)} to {shown(name, highest)}"
    match = _VALUE.fullmatch(text)
    if not match or match[2] not in of.units:
        raise click.BadParameter(f"{name}: {text!r} is not {of.what}; write {of.examples}; {span}")
    value = float(match[1]) * of.units[match[2]]
    if not (math.isfinite(value) and lowest <= value <= highest):
        raise click.BadParameter(f"{name}: {text!r} is out of range; {span}")
    if of is TIME:
        return value
    if value != int(value):
        raise click.BadParameter(f"{name}: {text!r} is not a whole number; {span}")
    return int(value)
