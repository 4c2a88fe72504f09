"""Events as JSON objects, one a line: the bytes of a module stand apart, by their SHA-256. docs/capture.md describes the keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from enum import Enum
from operator import index
from types import MappingProxyType
from typing import Any, Final

from symd.errors import DataLoss
from symd.model.addresses import DeviceAddress
from symd.model.captures import (
    CaptureApi,
    CapturedProcess,
    CaptureEvent,
    CaptureWay,
    FailedBuild,
    ModuleForm,
    ModuleFound,
    ModuleLoaded,
    ModuleUnloaded,
    ProcessEnded,
)

_EVENTS: Final[Mapping[str, Callable[..., CaptureEvent]]] = MappingProxyType(
    {
        "module-loaded": ModuleLoaded,
        "module-found": ModuleFound,
        "module-unloaded": ModuleUnloaded,
        "build-failed": FailedBuild,
        "process-ended": ProcessEnded,
    }
)
_NAMES: Final = MappingProxyType({cls: name for name, cls in _EVENTS.items()})
_BEGINNINGS: Final = tuple(f'{{"event": "{name}", '.encode() for name in _EVENTS)
"""How ``event_line`` begins."""
_VALUES: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "process": lambda each: CapturedProcess(
            str(each["host"]),
            int(each["process"]),
            int(each["start_time"]),
            tuple(map(str, each["command"])),
            str(each.get("boot", "")),
        ),
        "api": CaptureApi,
        "way": CaptureWay,
        "form": ModuleForm,
        "kernels": lambda each: tuple(map(str, each)),
        "addresses": lambda each: {str(name): DeviceAddress(int(value)) for name, value in each.items()},
        "handle": index,
        "time": index,
        "code": index,
        "load_base": index,
        "device": str,
        "source": str,
        "build_log": str,
    }
)
"""How the values of fields are made of JSON."""


def event_line(event: CaptureEvent, digest: str = "") -> str:
    """One line without its end. The bytes of a module are named by ``sha256`` and ``size``; ``digest`` is the first where it is known."""
    written: dict[str, Any] = {"event": _NAMES[type(event)]}
    for each in fields(event):
        value = getattr(event, each.name)
        if each.name == "data":
            written |= {"sha256": digest or hashlib.sha256(value).hexdigest(), "size": len(value)}
        else:
            written[each.name] = _plain(value)
    return json.dumps(written, ensure_ascii=True, separators=(", ", ": "))


def begins_event(data: bytes) -> bool:
    """Whether ``data`` is the beginning of an event's line, however much or little there is of it."""
    return any(data.startswith(each) or each.startswith(data) for each in _BEGINNINGS)


def event_of_line(line: str, read: Callable[[str], bytes]) -> CaptureEvent:
    """The event that a line was written of; ``read`` gives a module's bytes by their SHA-256. Raises DataLoss for another line."""
    try:
        written = json.loads(line)
        cls = _EVENTS[written["event"]]
        values = {
            each.name: read(written["sha256"]) if each.name == "data" else _value(each, written[each.name])
            for each in fields(cls)  # type: ignore[arg-type]
        }
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DataLoss(f"it is no event: {line[:80]!r}") from error
    return cls(**values)


def _value(field: Field[Any], written: Any) -> Any:
    return None if written is None and field.default is None else _VALUES[field.name](written)


def _plain(value: Any) -> Any:
    if isinstance(value, CapturedProcess):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Enum):
        return value.value
    return dict(value) if isinstance(value, Mapping) else value
