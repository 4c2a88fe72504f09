"""The names of result codes are those of the interfaces' own headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from symd.capture.drivers.apis import ClError, ZeResult

INCLUDE = Path("/usr/include")
LEVEL_ZERO = {int(code): code.name for code in ZeResult}
OPENCL = {int(code): code.name for code in ClError}


def test_level_zero_names_equal_the_header() -> None:
    header = INCLUDE / "level_zero" / "ze_api.h"
    if not header.exists():
        pytest.skip("libze-dev is not installed")
    pairs = re.findall(r"(ZE_RESULT_\w+) = (\w+)", header.read_text())
    named = {int(number, 0): name for name, number in pairs}
    known = {number: name for number, name in LEVEL_ZERO.items() if number in named}
    assert len(known) > 25
    assert known == {number: named[number] for number in known}


def test_opencl_names_equal_the_headers() -> None:
    headers = sorted((INCLUDE / "CL").glob("*.h"))
    if not headers:
        pytest.skip("opencl-headers is not installed")
    named: dict[int, set[str]] = {0: {"CL_SUCCESS"}}
    for header in headers:
        for name, number in re.findall(
            r"^#define\s+(CL_\w+)\s+\(?(-\d+)\)?\s*(?:/.*)?$", header.read_text(), re.MULTILINE
        ):
            named.setdefault(int(number), set()).add(name)
    assert {number: name for number, name in OPENCL.items() if name not in named[number]} == {}


@pytest.mark.parametrize(
    ("table", "code", "name"),
    [
        (LEVEL_ZERO, 0x70000004, "ZE_RESULT_ERROR_MODULE_BUILD_FAILURE"),
        (LEVEL_ZERO, 0x78000001, "ZE_RESULT_ERROR_UNINITIALIZED"),
        (LEVEL_ZERO, 0x7FFFFFFE, "ZE_RESULT_ERROR_UNKNOWN"),
        (OPENCL, -11, "CL_BUILD_PROGRAM_FAILURE"),
        (OPENCL, -42, "CL_INVALID_BINARY"),
        (OPENCL, -1001, "CL_PLATFORM_NOT_FOUND_KHR"),
    ],
)
def test_the_codes_that_users_meet_have_their_names(table: dict[int, str], code: int, name: str) -> None:
    assert table[code] == name
