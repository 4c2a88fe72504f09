"""The golden files are what the tools print today, where the tools are here (SYMD_NVDISASM, SYMD_CUOBJDUMP or PATH)."""

from __future__ import annotations

import pytest

from tests.golden.cuda import make


@pytest.mark.parametrize("name", make.GOLDEN)
def test_golden_files_are_what_the_tools_print(name):
    program = make.GOLDEN[name][0]
    if make.tool(program) is None:
        pytest.skip(f"{program} is not installed; the golden file stands in for it")
    fresh = make.content(name).splitlines()
    stored = (make.HERE / name).read_text().splitlines()
    if fresh[0] != stored[0]:
        pytest.skip(f"the golden file was made with {stored[0]}, here is {fresh[0]}")
    assert fresh == stored
