"""What a function may be called: the spellings of a name as compilers write it."""

from __future__ import annotations

import re

from symd.query.demangled import WORDS, demangled
from symd.query.mangled import qualified_name

LONGEST = 10_000
"""Characters of a name that is looked for or compared."""
_IDENTIFIER = re.compile(r"\w+")
_SPACES = re.compile(r"(?<![\w]) +| +(?![\w])")
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_LONGEST_LENGTH = 4
"""Digits of the number in front of an identifier that says how long it is."""
_OWN_WORDS = frozenset(_IDENTIFIER.findall(" ".join(WORDS)))
"""Words of readable names that stand in no mangled one."""


def spellings(name: str) -> frozenset[str]:
    """What a function of that name may be called, without needless spaces: with parameters and without, and without
    template arguments. Where NVIDIA's tools fold a function into a kernel its name follows the last "$"."""
    bare = name.rpartition("$")[2] if name.startswith("$") else name
    readable = plain(demangled(bare) or "")
    shorter = _head(readable)
    found = {plain(bare), readable, shorter, _without_result(readable), _without_result(shorter)}
    found |= {plain(qualified_name(bare) or ""), _without_arguments(plain(bare))}
    return frozenset(found - {""})


def plain(name: str) -> str:
    """The name with spaces only where two words meet."""
    return _SPACES.sub("", name.strip())


def last_word(name: str) -> str:
    """The last identifier of a plain name in front of arguments and parameters; "" where there is none."""
    words = _IDENTIFIER.findall(_head(name)) or _IDENTIFIER.findall(name)
    return words[-1] if words else ""


def words_in(name: str) -> tuple[set[str], int]:
    """(identifiers and numbers that stand in a name as compilers write it, all of them and some others; characters that were read
    for that)."""
    found, characters = set(_IDENTIFIER.findall(name)), len(name)
    for digits in _NUMBER.finditer(name) if "_Z" in name else ():
        found.add(digits[0])
        for at in range(
            max(digits.end() - _LONGEST_LENGTH, digits.start()), digits.end()
        ):  # "a13bcd" may be "a1" and 3 characters
            part = name[digits.end() : digits.end() + int(name[at : digits.end()])]
            found.update(_IDENTIFIER.findall(part))
            characters += len(part)
    return found, characters


def stands_in_no_name(word: str) -> bool:
    """Whether readable names have the word where mangled ones have letters that stand for it."""
    return word in _OWN_WORDS


def _head(name: str) -> str:
    """A readable name without its parameters and what follows them."""
    depth = 0
    for at in range(len(name) - 1, -1, -1) if "(" in name else ():
        depth += (name[at] == ")") - (name[at] == "(")
        if name[at] == "(" and not depth and not name.startswith("(anonymous namespace)", at):
            return name[:at]
    return name


def _without_result(name: str) -> str:
    """A function template's readable name begins with what it returns: cut at the first space outside of brackets."""
    depth = 0
    for at, character in enumerate(name) if " " in name else ():
        depth += (character in "<(") - (character in ">)")
        if character == " " and not depth and not name[:at].endswith("operator"):
            return name[at + 1 :]
    return name


def _without_arguments(name: str) -> str:
    return name.partition("<")[0] if name.endswith(">") and not name.startswith("<") else name
