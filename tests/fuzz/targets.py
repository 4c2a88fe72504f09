"""Every target by name: one a reader, one for requests, one for all questions. A new reader is one line in the module of its
room."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fuzz import answers, cores, debug_data, everything, formats, requests
from tests.fuzz.target import Target

TARGETS: Mapping[str, Target] = {
    **formats.TARGETS,
    **debug_data.TARGETS,
    **cores.TARGETS,
    **requests.TARGETS,
    **answers.TARGETS,
    **everything.TARGETS,
}
