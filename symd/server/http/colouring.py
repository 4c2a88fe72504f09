"""Source text as runs of one color, line by line, by Pygments, with what GPU languages add to C.

Pygments' lexers are regular expressions, and there is a text of 250 characters for which one of them takes longer than
anybody lives, which would hold up every thread of the process. The texts come from strangers, so where others wait
``ColouredApart`` colors them in a process of its own.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final

from pygments.lexer import Lexer
from pygments.lexers.c_cpp import CppLexer
from pygments.lexers.fortran import FortranLexer
from pygments.lexers.julia import JuliaLexer
from pygments.lexers.python import PythonLexer
from pygments.lexers.rust import RustLexer
from pygments.token import Token, _TokenType

from symd.config import DEFAULT_LIMITS, Limits
from symd.errors import SymdError
from symd.system.process import confinement
from symd.system.process.pool import Pool
from symd.system.process.process import ProcessLimits

MAX_COLOURED_TEXT: Final = 2 << 20
"""Letters of a text beyond which it stays plain."""
MAX_LINE: Final = 4000
"""Letters of a line beyond which the text stays plain: what machines wrote, nobody reads by its colours."""
SECONDS: Final = 2.0
"""Seconds for which words are looked for in one text; what is left stays plain. One word may take longer."""

Rows = list[list[int]]
"""For each line its runs: colour, number of characters, colour, number ..., the last plain run left out."""


class Colour(IntEnum):
    """What a run of characters is. The numbers are in answers."""

    PLAIN = 0
    KEYWORD = 1
    TYPE = 2
    NUMBER = 3
    STRING = 4
    COMMENT = 5
    PREPROCESSOR = 6
    FUNCTION = 7


_TOKENS: Final[tuple[tuple[_TokenType, Colour], ...]] = (
    (Token.Comment.Preproc, Colour.PREPROCESSOR),
    (Token.Comment.PreprocFile, Colour.STRING),
    (Token.Comment, Colour.COMMENT),
    (Token.Keyword.Type, Colour.TYPE),
    (Token.Keyword, Colour.KEYWORD),
    (Token.Operator.Word, Colour.KEYWORD),
    (Token.Name.Function, Colour.FUNCTION),
    (Token.Name.Decorator, Colour.PREPROCESSOR),
    (Token.Literal.Number, Colour.NUMBER),
    (Token.Literal.String, Colour.STRING),
)
_QUALIFIERS: Final = re.compile(
    r"(?:__)?(?:kernel|global|local|constant|private|generic|read_only|write_only|read_write|device__|global__|shared__|constant__|host__)"
    r"|__(?:device|global|shared|constant|host|launch_bounds)__|__restrict__|restrict"
)
_TYPES: Final = re.compile(
    r"(?:u?(?:char|short|int|long)|float|double|half|bool|uint(?:8|16|32|64)_t|int(?:8|16|32|64)_t|size_t|ptrdiff_t|image[123]d_t|sampler_t|event_t)(?:[1-4]|8|16)?"
)
_LEXERS: Final[dict[str, type[Lexer]]] = {
    "py": PythonLexer,
    "f90": FortranLexer,
    "f": FortranLexer,
    "f03": FortranLexer,
    "jl": JuliaLexer,
    "rs": RustLexer,
}


def is_coloured(text: str) -> bool:
    """Whether a text is not too long for colours."""
    return len(text) <= MAX_COLOURED_TEXT and max(map(len, text.split("\n"))) <= MAX_LINE


def uncoloured(_file: str, text: str) -> Rows:
    """The rows of a text that stays plain."""
    return [[] for _ in range(text.count("\n") + 1)]


def answer(data: bytes, _limits: Limits, _descriptors: Sequence[int]) -> bytes:
    """``coloured`` in another process (``system.process.pool``): [file, text] as JSON, rows as JSON."""
    file, text = json.loads(data)
    return json.dumps(coloured(file, text)).encode()


def coloured(file: str, text: str) -> Rows:
    """The rows of ``text.split("\\n")``. May take forever."""
    lines = text.split("\n")
    if not is_coloured(text):
        return uncoloured(file, text)
    rows: Rows = [[]]
    for colour, part in _parts(file, f"{text}\n"):  # a comment ends with its line
        for number, piece in enumerate(part.split("\n")):
            if number:
                rows.append([])
            _append(rows[-1], colour, len(piece))
    return [_without_plain_end(row) for row in rows[: len(lines)]]


def _parts(file: str, text: str) -> Iterator[tuple[Colour, str]]:
    """The text in pieces, each with its colour."""
    end = time.monotonic() + SECONDS
    known = _LEXERS.get(file.rpartition(".")[2].lower(), CppLexer)
    done = 0
    for start, token, part in known().get_tokens_unprocessed(text):
        yield _colour(token, part), part
        done = start + len(part)
        if time.monotonic() > end:
            break
    yield Colour.PLAIN, text[done:]


def _colour(token: _TokenType, part: str) -> Colour:
    for kind, colour in _TOKENS:
        if _is(token, kind):
            return colour
    if _is(token, Token.Name):
        if _QUALIFIERS.fullmatch(part):
            return Colour.KEYWORD
        if _TYPES.fullmatch(part):
            return Colour.TYPE
    return Colour.PLAIN


def _is(token: _TokenType, kind: _TokenType) -> bool:
    return token[: len(kind)] == kind


def _append(row: list[int], colour: Colour, characters: int) -> None:
    if not characters:
        return
    if row and row[-2] == colour:
        row[-1] += characters
    else:
        row += [colour.value, characters]


def _without_plain_end(row: list[int]) -> list[int]:
    return row[:-2] if row and row[-2] == Colour.PLAIN else row


log = logging.getLogger("symd.server.http")

FUNCTION: Final = "symd.server.http.colouring:answer"
PROCESSES: Final = 2
PROCESS_LIMITS: Final = ProcessLimits(4.0, 1 << 30, 64 << 20)
"""What the process may take for one text, its start included."""
REMEMBERED: Final = 4096
"""Texts that are remembered as not to be coloured."""


class ColouredApart:
    """Colours texts in processes that start when the first is wanted. What cannot be coloured in time stays plain. Safe
    to use from several threads."""

    def __init__(self) -> None:
        self._pool = Pool(FUNCTION, PROCESSES, confined=confinement.available())
        self._plain: set[bytes] = set()
        self._lock = threading.Lock()

    def __call__(self, file: str, text: str) -> Rows:
        """Color a text like ``colouring.coloured``."""
        if not is_coloured(text):
            return uncoloured(file, text)
        data = json.dumps([file, text]).encode()
        name = hashlib.sha256(data).digest()
        with self._lock:
            if name in self._plain:
                return uncoloured(file, text)
        try:
            answer = self._pool.call(data, DEFAULT_LIMITS, PROCESS_LIMITS)
        except (SymdError, OSError) as error:
            log.warning("a text stays without colours: %s", error)
            return uncoloured(file, text)
        if isinstance(answer, bytes):
            rows: Rows = json.loads(answer)
            return rows
        log.warning("a text stays without colours: %s", answer)
        with self._lock:
            if len(self._plain) >= REMEMBERED:
                self._plain.clear()
            self._plain.add(name)
        return uncoloured(file, text)

    def close(self) -> None:
        """End the processes."""
        self._pool.close()
