"""What a driver is asked to build, and what it gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

WhenUnwanted = Callable[[Callable[[], None]], bool]
"""Is told what to call, from any thread, as soon as nobody waits for a grab any more; False: nobody does already."""


GRAB_HINT = 'pass GrabRequest("opencl", "source", data), of symd.model.grabs'


@dataclass(frozen=True, slots=True)
class GrabRequest:
    """What to build with which real driver. ``kind`` of input: "source" (OpenCL C, OpenCL only), "spirv" or "native".

    ``simulate`` names a product ("skl", "tgllp", "dg2", "pvc", ...) to run the real driver without hardware;
    ``driver`` names a driver generation that the operator configured ("": the system's); ``timeout`` is in seconds.
    ``source_name`` is what the debug data of source text calls its file ("": ``label``).
    """

    api: str
    kind: str
    data: bytes = field(repr=False)
    build_flags: str = ""
    device: int = 0
    simulate: str | None = None
    driver: str = ""
    timeout: float = 60.0
    label: str = ""
    source_name: str = ""


@dataclass(frozen=True, slots=True)
class Grabbed:
    """What the driver gave: ``debug_data`` (b"" when it has none), ``native`` (the binary it would load), the kernel
    names and the build log; ``driver`` and ``device`` as they call themselves."""

    debug_data: bytes = field(repr=False)
    native: bytes = field(repr=False)
    kernels: tuple[str, ...]
    build_log: str
    driver: str
    device: str
