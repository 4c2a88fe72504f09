"""Why the system refused is written in one way."""

from __future__ import annotations

import ast
import errno
import os
from pathlib import Path

import pytest

from symd.system.messages import os_error_text

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOENT, os.strerror(errno.ENOENT), "/a/File"), "no such file or directory"),
        (OSError(errno.EIO, "SSL: it ended"), "SSL: it ended"),
        (OSError("Only words"), "only words"),
        (ValueError("embedded null byte"), "embedded null byte"),
        (OSError(), "OSError, without a word"),
    ],
)
def test_the_systems_words_stand_in_a_sentence(error: Exception, says: str) -> None:
    assert os_error_text(error) == says


def test_no_message_has_the_systems_words_with_a_capital() -> None:
    """``strerror`` in a text is what ``os_error_text`` is for."""
    found = []
    for path in (ROOT / "symd").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                read = [each for each in ast.walk(node) if isinstance(each, ast.Attribute) and each.attr == "strerror"]
                ours = [each for each in read if ast.unparse(each) == "error.strerror"]
                found += [f"{path.relative_to(ROOT)}:{each.lineno}" for each in ours]
    assert [each for each in found if not each.startswith("symd/system/process/launcher.py:")] == []
