"""One question to one driver, and the two files in the child's working directory in which it gets there."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from symd.capture.drivers.apis import Api
from symd.system.private_files import write_bytes

_REQUEST: Final = "request.json"
_INPUT: Final = "input.bin"


@dataclass(frozen=True, slots=True)
class DriverRequest:
    """What the process in which a driver runs is asked. ``verb`` is "grab" or "devices". ``simulate`` is a product
    or None for hardware; ``root`` the folder of another driver generation or None for the system's. ``where`` names
    the module in errors; ``seconds`` is the time that the driver gets; ``source_name`` what source text is called in
    debug data ("": nobody says)."""

    verb: str
    api: Api
    simulate: str | None
    root: str | None
    seconds: float
    where: str = ""
    data: bytes = b""
    kind: str = ""
    build_flags: str = ""
    device: int = 0
    source_name: str = ""


def write_request(folder: Path, request: DriverRequest, *, confined: bool, working_folder: str | None = None) -> None:
    """What the child needs to know, whether it must confine itself, in which other folder it compiles, and the
    module."""
    fields = {
        "verb": request.verb,
        "api": request.api.name,
        "simulate": request.simulate,
        "kind": request.kind,
        "build_flags": request.build_flags,
        "device": request.device,
        "source_name": request.source_name,
        "root": request.root,
        "confined": confined,
        "working_folder": working_folder,
        "parent": os.getpid(),
    }
    write_bytes(folder / _REQUEST, json.dumps(fields).encode())
    write_bytes(folder / _INPUT, request.data)


def read_request() -> Mapping[str, Any]:
    """The fields of ``DriverRequest`` of those names, ``api`` by its name, ``confined``, ``working_folder``, and
    ``parent``, a pid; for the child, in its working directory."""
    fields: dict[str, Any] = json.loads(Path(_REQUEST).read_text(encoding="utf-8"))
    return fields


def read_input() -> bytes:
    """The module's bytes; for the child, in its working directory."""
    return Path(_INPUT).read_bytes()
