"""The debug data read a second time, by pyelftools: `symd verify`."""

from __future__ import annotations

import json

from tests.survey.case import Case, Compared, answered

DIFFERENT = 1
OBJECTS = 8
"""Code objects of a file that are read a second time."""


def debug_data(case: Case) -> Compared:
    """Rows, scopes and variables of the smallest of the code objects that are asked: it takes its time."""
    able = [each for each in case.asked if each.has_lines and each.format != "spirv"]
    count, differences = 0, []
    for each in sorted(able, key=lambda each: each.entry["size"])[:OBJECTS]:
        done = answered(["verify", "--json", each.path], case.folder, codes=(0, DIFFERENT))
        *found, told = map(json.loads, done.output.splitlines())
        count += told["rows"] + told["scopes"] + told["variables"]
        differences += [f"{each.name}: {difference}" for difference in found]
        if done.code == DIFFERENT and not found:
            differences.append(f"{each.name}: exit code 1 without a difference")
    return Compared("pyelftools: line rows, scopes, variables", count, differences)
