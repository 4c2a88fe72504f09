"""What a driver is asked to build, and what it gave."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

GRAB_HINT = 'pass GrabRequest("opencl", "source", data), of symd.model.grabs'

_LINE_DIRECTIVE = re.compile(rb'^[ \t\f\v]*#[ \t]*(?:line[ \t]+)?[0-9]+[ \t]+"(?=[^/"<\r\n])', re.MULTILINE)
"""``#line N "NAME"`` and ``# N "NAME"`` up to a relative name; ``<built-in>`` is none."""
_NAMING_OPTION = re.compile(r'(?<!\S)-s\s+(?:"([^"]+)"|([^"\s]+))')


def name_for_compiler(path: str) -> str:
    """The path with a low line in the place of each character that Intel's compiler cannot be told: quotes end the
    value of -s, a backslash is taken for what parts folders, and other bytes than UTF-8 are no text."""
    return "".join("_" if each in '"\\' or not each.isprintable() else each for each in path)


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

    def with_absolute_names(self) -> GrabRequest:
        """The request for a driver that compiles in another folder: relative names of source text (in ``#line``, and
        of the text itself) count from the working folder of this process, as for a compiler that is started here."""
        try:
            folder = Path(name_for_compiler(str(Path.cwd())))
        except OSError:
            return self
        if self.kind != "source":
            return self
        front = str(folder / "_")[:-1].encode()
        name = self.source_name or self.label
        flags = _NAMING_OPTION.sub(lambda found: f'-s "{folder / (found[1] or found[2])}"', self.build_flags)
        return replace(
            self,
            data=_LINE_DIRECTIVE.sub(lambda found: found[0] + front, self.data),
            build_flags=flags,
            source_name=name and str(folder / name),
        )


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
