"""Full paths are joined as llvm-symbolizer joins them; POSIX and Windows roots both count as absolute."""

from __future__ import annotations

import pytest

from symd.debuginfo.dwarf.lines import join


@pytest.mark.parametrize(
    ("comp_dir", "directory", "name", "path"),
    [
        (b"/build", b"", b"a.c", b"/build/a.c"),
        (b"/build", b"inc", b"a.h", b"/build/inc/a.h"),
        (b"/build", b"/usr/include", b"a.h", b"/usr/include/a.h"),
        (b"/build", b"inc", b"/abs/a.h", b"/abs/a.h"),
        (b"/build/", b"../x/", b"./a.c", b"/build/../x/./a.c"),
        (b"", b"inc", b"a.h", b"inc/a.h"),
        (b"", b"", b"a.h", b"a.h"),
        (b"/build", b"C:\\inc", b"a.h", b"C:\\inc/a.h"),
        (b"/build", b"", b"C:/x/a.cl", b"C:/x/a.cl"),
        (b"/build", b"", b"\\\\host\\share\\a.cl", b"\\\\host\\share\\a.cl"),
        (b"/build", b"", b"C:a.cl", b"/build/C:a.cl"),
        (b"/build", b"inc", b"", b""),
        (b"/build", b"/usr/include", b"", b""),
    ],
)
def test_a_path_is_joined_from_its_three_parts(comp_dir, directory, name, path):
    assert join(comp_dir, directory, name) == path
