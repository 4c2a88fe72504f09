# cython: language_level=3, boundscheck=True, wraparound=False
"""Functions by their mangled names (Itanium C++ ABI, 5.1): the instances of one template are a family."""

from __future__ import annotations

import cython

_MAX_DIGITS = cython.declare(cython.int, 9)
"""Digits: no name is as long as such a number, nor has as many parts to repeat."""
_ARGUMENTS, _NESTED = ("I", "J", "X"), ("N", "L_Z", "F", "Z", "Ul", "Dt", "DT")
"""What begins a list of arguments, and what inside one has an end too."""
_QUALIFIERS = ("K", "V", "P", "R", "O", "St")
"""What stands in front of a type that it belongs to."""
_KINDS = ("0", "1", "2", "3", "4", "5")
_DIGITS = "0123456789"
_INDEX = _DIGITS + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""What may stand in the number of a substitution."""
_SECONDS = {"D": "abcdefghijklmnopqrstuvwxyzT", "S": "tabsiod"}
"""What makes one code of two letters."""


class NameFamilies:
    """The families of names, both by their numbers: names may be long, and many rows have one."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._known: dict[int, int] = {}
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._local: dict[tuple[int, int], bool] = {}

    def of(self, name: int) -> int:
        """What all instances of the function's template are called; its own name where it is none, or cannot be read.
        Constructors and destructors come in kinds (of the object itself, of a base) that share their lines."""
        found = self._known.get(name)
        if found is None:
            text = without_template_arguments(self._names[name])
            if text[-1:] == "E" and text[-2:-1] in _KINDS and text[-3:-2] in ("C", "D"):
                text = f"{text[:-2]}E"
            found = self._known[name] = self._numbers.setdefault(text, len(self._texts))
            if found == len(self._texts):
                self._texts.append(text)
        return found

    def is_local(self, one: int, other: int) -> bool:
        """Whether one of two families is of a lambda or a local class of the other."""
        found = self._local.get((one, other))
        if found is None:
            inner, outer = sorted((self._texts[one], self._texts[other]), key=len, reverse=True)
            found = len(inner) > len(outer) and inner.startswith(f"_ZZ{outer[2:]}")
            self._local[one, other] = found
        return found


def without_template_arguments(name: str) -> str:
    """A mangled name up to the types of its parameters, without its template arguments: ``_ZN1a1fILi3EEEvf`` becomes
    ``_ZN1a1fE``. Another name stays as it is."""
    if not name.startswith("_Z"):
        return name
    kept = ["_Z"]
    around: list[str] = []
    at: cython.Py_ssize_t = 2
    start: cython.Py_ssize_t
    arguments: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = len(name)
    while at < size:
        start, at = at, _behind_token(name, at)
        is_number = name[start] in _DIGITS
        if is_number:
            at += _counted(name, start, at)
        text = name[start:at]
        if text == "L":
            at = name.find("E", _behind_type(name, at)) + 1 or size  # the literal's value
        elif arguments or text in _ARGUMENTS:
            arguments += (text in _NESTED or text in _ARGUMENTS) - (text == "E")
            if not arguments and not around:
                break
        else:
            kept.append(text)
            is_whole = is_number or (text == "E" and around.pop() == "N" if around else False)
            around += [text] if text in ("N", "Z", "Ul") else []
            if not around and is_whole and name[at : at + 1] != "I":
                break
    return "".join(kept)


@cython.cfunc
@cython.exceptval(-1, check=True)
def _behind_type(name: str, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Where the type ends that stands in a mangled name from ``at`` on."""
    depth: cython.Py_ssize_t = 0
    start: cython.Py_ssize_t
    while at < len(name):
        start, at = at, _behind_token(name, at)
        text = name[start:at]
        if text[0] in _DIGITS:
            at += _counted(name, start, at)
        depth += (text in _ARGUMENTS or text in _NESTED) - (text == "E")
        is_whole = text not in _QUALIFIERS and text[0] != "A" and text[:2] != "Dv"
        if depth <= 0 and is_whole and name[at : at + 1] != "I":
            return at
    return len(name)


@cython.cfunc
@cython.exceptval(-1, check=True)
def _counted(name: str, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The number that stands there."""
    return int(name[start : min(stop, start + _MAX_DIGITS)])


@cython.cfunc
@cython.exceptval(-1, check=True)
def _behind_token(name: str, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Where the shortest part that means something ends: a number, or a code of the ABI with the number in it."""
    first, pair = name[at], name[at : at + 2]
    if first in _DIGITS:
        return _behind(name, at, _DIGITS, len(name))
    if name.startswith("L_Z", at):
        return at + 3
    if first in ("A", "S", "T") or pair == "Dv":
        begin: cython.Py_ssize_t = at + (2 if pair == "Dv" else 1)
        end: cython.Py_ssize_t
        end = _behind(name, begin, _INDEX, _MAX_DIGITS) if first == "S" else _behind(name, begin, _DIGITS, len(name))
        if name[end : end + 1] == "_" and (pair != "Dv" or end > begin):
            return end + 1
    if first in ("C", "D") and pair[1:] in _KINDS:
        is_pair = name[at + 2 : at + 3] in ("E", "B", "I")
    else:
        is_pair = pair == "Ul" or (len(pair) > 1 and pair[1] in _SECONDS.get(first, ""))
    return at + (2 if is_pair else 1)


@cython.cfunc
@cython.exceptval(-1, check=True)
def _behind(name: str, at: cython.Py_ssize_t, these: str, most: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Where the letters end that are among ``these``, ``most`` of which are looked at."""
    end: cython.Py_ssize_t = min(at + most, len(name))
    while at < end and name[at] in these:
        at += 1
    return at
