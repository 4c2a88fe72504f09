"""gdb's breakpoints for the lines of a file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.tools import output, require

_SCRIPT = """
import gdb, json
found = {}
for line in range(1, %(last)d + 1):
    breakpoint = gdb.Breakpoint("%(file)s:%%d" %% line)
    found[line] = sorted(location.address for location in breakpoint.locations)
    breakpoint.delete()
print("@" + json.dumps(found))
"""


def breakpoints(elf: Path, file: str, last: int) -> dict[int, list[int]]:
    """For each line up to ``last`` the addresses at which gdb would break; none where it would wait."""
    script = elf.with_suffix(".gdb.py")
    script.write_text(_SCRIPT % {"file": file, "last": last})
    text = output(require("gdb"), "-nx", "-batch", "-x", script, elf)
    answer = next(line for line in text.splitlines() if line.startswith("@"))
    return {int(line): addresses for line, addresses in json.loads(answer[1:]).items()}
