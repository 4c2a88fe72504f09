"""The functions that a source in Python defines, by line. Python's own tokenizer reads it, because its parser can be
made to crash by untrusted text."""

from __future__ import annotations

import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import NamedTuple

from symd.model.frame_text import PYTHON_SUFFIX

ReadSources = Callable[[list[str]], Mapping[str, str | None]]
"""The texts of source files by their names in frames; None, or nothing, for those that nobody has."""
_LONGEST_HEAD = len(("async", "def", "NAME"))


class Definition(NamedTuple):
    """A function from the line of its ``def`` to its last line."""

    first: int
    last: int
    name: str


def is_python(file: str | None) -> bool:
    """Whether a source file is called as Python's are."""
    return file is not None and file.endswith(PYTHON_SUFFIX)


class PythonSources:
    """What source files define, each of which is read once by ``texts``."""

    def __init__(self, texts: ReadSources) -> None:
        self._texts = texts
        self._files: dict[str, Sequence[Definition] | None] = {}
        self._others: set[str] = set()

    def read(self, files: Iterable[str]) -> None:
        """Read those that were not read yet."""
        new = [file for file in files if file not in self._files]
        texts = self._texts(new) if new else {}
        for file in new:
            text = texts.get(file)
            self._files[file] = None if text is None else definitions(text)

    def of(self, file: str) -> Sequence[Definition]:
        """The functions of a file that was read; none where it is not the one that was compiled."""
        return () if file in self._others else self._files[file] or ()

    def doubt(self, file: str) -> None:
        """A file is not the one that was compiled: a line proves it."""
        self._others.add(file)


def functions_around(known: Iterable[Definition], lines: Iterable[int]) -> dict[int, tuple[Definition, ...]]:
    """The definitions that hold each of these lines, the innermost one last. Definitions lie inside each other or
    apart."""
    waiting = sorted(known, key=lambda each: (each.first, -each.last), reverse=True)
    open_now: list[Definition] = []
    found = {}
    for line in sorted(lines):
        while waiting and waiting[-1].first <= line:
            begun = waiting.pop()
            while open_now and open_now[-1].last < begun.first:
                open_now.pop()
            open_now.append(begun)
        while open_now and open_now[-1].last < line:
            open_now.pop()
        found[line] = tuple(open_now)
    return found


def definitions(text: str) -> list[Definition] | None:
    """The functions that a Python source defines; None where it is none."""
    try:
        return list(_definitions(text))
    except (SyntaxError, tokenize.TokenError, ValueError):
        return None


def _definitions(text: str) -> Iterator[Definition]:
    """Each when it ends: with the last logical line in its block, or where it has no block with its own."""
    depth, last = 0, 0
    begun: list[tuple[int, int, str]] = []  # depth, line, name
    logical: list[str] = []
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type in (tokenize.INDENT, tokenize.DEDENT):
            depth += 1 if token.type == tokenize.INDENT else -1
        elif token.type == tokenize.NEWLINE:
            logical, last = [], token.start[0]
        elif token.type not in (tokenize.NL, tokenize.COMMENT):
            if not logical:
                while begun and (begun[-1][0] >= depth or token.type == tokenize.ENDMARKER):
                    _, first, name = begun.pop()
                    yield Definition(first, last, name)
            if len(logical) < _LONGEST_HEAD:
                logical.append(token.string)
                if logical[-2:-1] == ["def"] and logical[:-2] in ([], ["async"]):
                    begun.append((depth, token.start[0], token.string))
