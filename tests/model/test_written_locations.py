"""Locations as they are written: what failed once is written by the next attempt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from symd.cli.answer_lines import TextLines, _TextLocations
from symd.config import Limits
from symd.index import Index
from symd.index.module import build_index
from symd.model.answers import Answers
from symd.model.rendered_answers import RenderedAnswers
from symd.query.symbolize import symbolize_column

AMD = Path(__file__).parents[2] / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"


@pytest.fixture(scope="module")
def answers() -> Answers:
    """Of code that is inlined."""
    index = Index.open_checked(build_index(AMD.read_bytes(), Limits()))
    return symbolize_column(index, np.arange(0x1900, 0x1A00, 4, dtype=np.uint64))


def written(lines: TextLines, answers: Answers) -> list[bytes]:
    return RenderedAnswers(lines.answers([b"?"] * len(answers), answers), len(answers)).each()


def test_frames_that_could_not_be_written_are_written_by_the_next_attempt(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, expected = TextLines(), written(TextLines(), answers)
    assert expected == [lines.answer("?", answer).encode() for answer in answers]
    assert any(len(answer.frames) > 1 for answer in answers)
    with monkeypatch.context() as patched:
        patched.setattr(_TextLocations, "around_caller", raising)
        with pytest.raises(MemoryError):
            written(lines, answers)
    assert written(lines, answers) == expected


def raising(*_: object) -> tuple[str, str]:
    raise MemoryError
