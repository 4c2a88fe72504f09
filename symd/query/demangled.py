"""Mangled C++ names as c++filt writes them: functions, templates and the types of their parameters. What is not
understood (expressions, function types, local entities, clones) makes the whole name None: a name that is read halfway
could be taken for another.

Source: Itanium C++ ABI, section 5.1."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import MappingProxyType

_LONGEST = 1 << 12
_DEEPEST = 60
_MOST_CHARACTERS = 1 << 16
"""Of a name or a part of it. A substitution repeats what stood before, so that a short name can read as a very long one."""
_MOST_WRITTEN = 1 << 20
"""Letters of all parts, and the parts of these, together: what reading one name takes."""
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_SEQUENCE = re.compile(r"([0-9A-Z]*)_", re.ASCII)
_LITERAL = re.compile(r"(n?)([0-9]+)E", re.ASCII)

_BUILTIN = MappingProxyType(
    {
        "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
        "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
        "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
        "e": "long double", "g": "__float128", "z": "...", "Dh": "half", "Di": "char32_t", "Ds": "char16_t",
        "Du": "char8_t", "Da": "auto", "Dn": "decltype(nullptr)", "DF16_": "_Float16", "DF16b": "std::bfloat16_t",
    }
)  # fmt: skip
_SUFFIX = MappingProxyType({"int": "", "unsigned int": "u", "long": "l", "unsigned long": "ul", "long long": "ll"})
"""What follows the number of a literal of that type; other types stand in front of it in parentheses."""
_STANDARD = MappingProxyType({"St": "std", "Sa": "std::allocator"})
"""Demanglers differ on the abbreviations of streams and strings."""
_OPERATORS = MappingProxyType(
    {
        "nw": " new", "na": " new[]", "dl": " delete", "da": " delete[]", "ps": "+", "ng": "-", "ad": "&", "de": "*",
        "co": "~", "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%", "an": "&", "or": "|", "eo": "^", "aS": "=",
        "pL": "+=", "mI": "-=", "mL": "*=", "dV": "/=", "rM": "%=", "aN": "&=", "oR": "|=", "eO": "^=", "ls": "<<",
        "rs": ">>", "lS": "<<=", "rS": ">>=", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=",
        "nt": "!", "aa": "&&", "oo": "||", "pp": "++", "mm": "--", "cm": ",", "pm": "->*", "pt": "->", "cl": "()",
        "ix": "[]",
    }
)  # fmt: skip
_QUALIFIERS = MappingProxyType({"r": " restrict", "V": " volatile", "K": " const"})
_REFERENCES = MappingProxyType({"P": "*", "R": "&", "O": "&&"})

WORDS = (
    *_BUILTIN.values(),
    *_STANDARD.values(),
    "operator",
    "(anonymous namespace)",
    "true",
    "false",
    "__vector",
    "restrict",
)
"""What readable names have that mangled ones spell otherwise; operators follow their word."""


def demangled(mangled: str) -> str | None:
    """``void shading::march<float>(float, int)`` for ``_ZN7shading5marchIfEEvT_i``; None for what is not mangled, or has
    parts that are not understood."""
    if not mangled.startswith("_Z") or len(mangled) > _LONGEST:
        return None
    try:
        return _Reader(mangled).function()
    except _UnknownPart:
        return None


class _UnknownPart(Exception):
    """A part that is not understood."""


class _Reader:
    """``at`` moves over ``text``; all methods raise ``_UnknownPart`` where they cannot go on. ``_known`` are the
    components that substitutions refer to, ``_arguments`` those of the last template, for its parameters."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, len("_Z")
        self._known: list[str] = []
        self._arguments: list[str] = []
        self._suffix = ""
        self._depth = self._characters = 0
        self._returns = False

    def function(self) -> str:
        name = self._name()
        if self._done():
            return name
        result = f"{self._type()} " if self._returns else ""
        parameters = [self._type()]
        while not self._done():
            parameters.append(self._type())
        return self._written(f"{result}{name}({_list(parameters)}){self._suffix}")

    def _done(self) -> bool:
        return self._at == len(self._text)

    def _take(self, token: str) -> bool:
        found = self._text.startswith(token, self._at)
        self._at += len(token) * found
        return found

    def _taken(self, table: object) -> str | None:
        """The longest key of a table that comes next."""
        for size in (5, 2, 1):
            key = self._text[self._at : self._at + size]
            if len(key) == size and key in table:  # type: ignore[operator]
                self._at += size
                return key
        return None

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _UnknownPart
        self._at = found.end()
        return found

    def _remember(self, part: str) -> str:
        self._known.append(self._written(part))
        return part

    def _written(self, part: str) -> str:
        self._characters += len(part)
        if len(part) > _MOST_CHARACTERS or self._characters > _MOST_WRITTEN:
            raise _UnknownPart
        return part

    def _deeper(self, read: Callable[[], str]) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _UnknownPart
        part = read()
        self._depth -= 1
        return self._written(part)

    def _name(self) -> str:
        return self._deeper(self._read_name)

    def _read_name(self) -> str:
        self._returns = False
        if self._take("N"):
            return self._nested()
        substituted = self._text.startswith("S", self._at) and not self._text.startswith("St", self._at)
        if substituted:
            name = self._substitution()
        else:
            prefix = "std::" if self._take("St") else ""
            name = prefix + self._unqualified(prefix)
        if not self._take("I"):
            return name
        if not substituted:
            self._remember(name)
        self._returns = "operator " not in name
        return name + self._template_arguments()

    def _nested(self) -> str:
        suffix = ""
        while (key := self._taken(_QUALIFIERS)) is not None:
            suffix = _QUALIFIERS[key] + suffix
        suffix += " &" if self._take("R") else " &&" if self._take("O") else ""
        name, last = "", ""
        while not self._take("E"):
            self._returns = False
            if self._take("I"):
                if not name:
                    raise _UnknownPart
                name += self._template_arguments()
                self._returns = not last.startswith(("~", "operator ")) and last != "()"
            elif self._text.startswith("S", self._at):
                if name:
                    raise _UnknownPart
                name = "std" if self._take("St") else self._substitution()
                last = name.rpartition("::")[2].partition("<")[0]
                continue
            elif self._text.startswith("T", self._at):
                name = self._parameter()
            else:
                structor = last
                last = self._unqualified(last)
                self._returns = False
                name = f"{name}::{last}" if name else last
                last = "()" if last == structor else last
            if not self._text.startswith("E", self._at):
                self._remember(name)
        self._suffix = suffix
        return name

    def _unqualified(self, around: str) -> str:
        if around and around != "std::":
            if self._taken(("C1", "C2", "C3")):
                return around
            if self._taken(("D0", "D1", "D2")):
                return f"~{around}"
        key = self._taken(_OPERATORS)
        if key is not None:
            return f"operator{_OPERATORS[key]}"
        self._take("L")  # of internal linkage
        return self._source_name()

    def _source_name(self) -> str:
        length = self._match(_NUMBER)[0]
        first = self._at
        self._at += int(length) if len(length) < 5 else _LONGEST
        if self._at > len(self._text):
            raise _UnknownPart
        name = self._text[first : self._at]
        if self._text.startswith("B", self._at):  # an ABI tag
            raise _UnknownPart
        return "(anonymous namespace)" if name.startswith("_GLOBAL__N") else name

    def _substitution(self) -> str:
        key = self._taken(_STANDARD)
        if key is not None:
            return _STANDARD[key] if key != "St" else f"std::{self._source_name()}"
        if not self._take("S"):
            raise _UnknownPart
        return self._numbered(self._known, 36)

    def _parameter(self) -> str:
        if not self._take("T"):
            raise _UnknownPart
        return self._numbered(self._arguments, 10)

    def _numbered(self, parts: list[str], base: int) -> str:
        digits = self._match(_SEQUENCE)[1]
        if len(digits) > 4 or (base == 10 and not digits.isdecimal() and digits):
            raise _UnknownPart
        number = int(digits, base) + 1 if digits else 0
        if number >= len(parts):
            raise _UnknownPart
        return parts[number]

    def _template_arguments(self) -> str:
        arguments: list[str] = []
        while not self._take("E"):
            arguments.append(self._deeper(self._argument))
        self._arguments = arguments
        return f"<{', '.join(filter(None, arguments))}>"

    def _argument(self) -> str:
        if self._take("J"):
            parts = []
            while not self._take("E"):
                parts.append(self._deeper(self._argument))
            return ", ".join(filter(None, parts))
        if self._take("L"):
            return self._literal()
        outer = self._arguments, self._returns, self._suffix
        part = self._type()
        self._arguments, self._returns, self._suffix = outer
        return part

    def _literal(self) -> str:
        kind = self._type()
        sign, digits = self._match(_LITERAL).groups()
        number = f"-{digits}" if sign else digits
        if kind == "bool" and number in ("0", "1"):
            return "true" if number == "1" else "false"
        return number + _SUFFIX[kind] if kind in _SUFFIX else f"({kind}){number}"

    def _type(self) -> str:
        return self._deeper(self._read_type)

    def _read_type(self) -> str:
        key = self._taken(_REFERENCES)
        if key is not None:
            return self._remember(_referring(self._type(), _REFERENCES[key]))
        qualifiers = ""
        while (key := self._taken(_QUALIFIERS)) is not None:
            qualifiers = _QUALIFIERS[key] + qualifiers
        if qualifiers:
            kind = self._type()
            return self._remember(kind if kind.endswith(qualifiers) else kind + qualifiers)
        return self._unqualified_type()

    def _unqualified_type(self) -> str:
        if self._take("U"):
            space = self._source_name()
            return self._remember(f"{self._type()} {space}")
        if self._take("Dv"):
            count = self._match(_NUMBER)[0]
            if not self._take("_"):
                raise _UnknownPart
            return self._remember(f"{self._type()} __vector({count})")
        if self._take("Dp"):
            if not self._text.startswith("T", self._at):  # a pattern around the pack would be repeated for each of it
                raise _UnknownPart
            return self._type()
        key = self._taken(_BUILTIN)
        if key is not None:
            return _BUILTIN[key]
        return self._class()

    def _class(self) -> str:
        """A class or an enumeration by its name, a parameter of the template, or what a substitution stands for."""
        text, outer = self._text, (self._arguments, self._returns, self._suffix)
        if text.startswith("T", self._at):
            name = self._remember(self._parameter())
            if self._take("I"):
                name = self._remember(name + self._template_arguments())
        elif text.startswith("S", self._at) and not text.startswith("St", self._at):
            name = self._substitution()
            if self._take("I"):
                name = self._remember(name + self._template_arguments())
        elif text[self._at : self._at + 1].isdecimal() or text.startswith(("N", "St"), self._at):
            name = self._remember(self._name())
        else:
            raise _UnknownPart
        self._arguments, self._returns, self._suffix = outer
        return name


def _referring(kind: str, mark: str) -> str:
    """A pointer or reference to a type; references to references collapse."""
    if mark != "*" and kind.endswith("&"):
        return kind if mark == "&&" or not kind.endswith("&&") else kind[:-1]
    return kind + mark


def _list(parts: list[str]) -> str:
    """Parts in a row; a function without parameters has one, void, and empty packs leave nothing."""
    return "" if parts == ["void"] else ", ".join(part for part in parts if part)
