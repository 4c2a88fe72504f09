"""Mangled names of Rust as they are written: those of version 0 (Rust RFC 2603), and what the older ones have in C++'s
mangling."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import MappingProxyType

_MAX_MANGLED = 1 << 14
_MAX_DEPTH = 100
_MAX_CHARACTERS = 1 << 18
"""Characters of all parts together: a name may refer to the same part of itself again and again."""
_BASE_62 = re.compile(r"([0-9a-zA-Z]*)_", re.ASCII)
_DECIMAL = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_VALUE = re.compile(r"(n?)([0-9a-f]*)_", re.ASCII)
_SUFFIX = re.compile(r"[.$][\w.$@]*", re.ASCII)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BASIC = MappingProxyType(
    {
        "a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8", "i": "isize", "j": "usize",
        "l": "i32", "m": "u32", "n": "i128", "o": "u128", "s": "i16", "t": "u16", "u": "()", "v": "...", "x": "i64",
        "y": "u64", "z": "!", "p": "_",
    }
)  # fmt: skip
_POINTERS = MappingProxyType({"P": "*const ", "O": "*mut "})
_ESCAPED = re.compile(r"\$(?:(SP|BP|RF|LT|GT|LP|RP|C)|u([0-9a-f]{1,6}))\$", re.ASCII)
_ESCAPES = MappingProxyType({"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","})

WORDS = frozenset(_BASIC.values()) | {"as", "mut", "dyn", "const", "closure", "shim", "fn", "unsafe", "extern", "for"}
"""What readable names have that mangled ones spell otherwise."""


def demangled(mangled: str) -> str | None:
    """``saxpy::math::twice::<f32>`` for ``_RINvNtCs7euy8ZCrhpB_5saxpy4math5twicefEB4_``; None for what is not mangled,
    or damaged."""
    if not mangled.startswith("_R") or len(mangled) > _MAX_MANGLED:
        return None
    try:
        return _Reader(mangled).whole()
    except (_Damaged, RecursionError):
        return None


def unescaped(name: str) -> str:
    """A name out of C++'s mangling with the characters that this has not: ``<f32 as saxpy::Add>``."""

    def character(found: re.Match[str]) -> str:
        code = int(found[2], 16) if found[2] else 0
        return _ESCAPES[found[1]] if found[1] else chr(code) if code < 0x110000 else found[0]

    return _ESCAPED.sub(character, re.sub(r"(?<!\w)_(?=\$)", "", name)).replace("..", "::")


class _Damaged(Exception):
    """What is there is no name."""


class _Reader:
    """``_at`` moves over ``_text``; places that a name refers to count from behind its "_R"."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text[len("_R") :], 0
        self._depth = self._characters = self._lifetimes = 0

    def whole(self) -> str:
        self._skip(_DECIMAL)
        text = self._path(in_value=True)
        if self._text[self._at : self._at + 1] not in ("", ".", "$"):
            self._path(in_value=False)
        self._skip(_SUFFIX)
        if self._at != len(self._text):
            raise _Damaged
        return text

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if found := pattern.match(self._text, self._at):
            self._at = found.end()

    def _take(self, token: str) -> bool:
        found = self._text.startswith(token, self._at)
        self._at += len(token) * found
        return found

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1 : self._at]

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _Damaged
        self._at = found.end()
        return found

    def _number(self) -> int:
        """A number of base 62; it is one more than its digits say."""
        digits = self._match(_BASE_62)[1]
        if len(digits) > 20:
            raise _Damaged
        value = 0
        for digit in digits:
            value = value * 62 + _DIGITS.index(digit)
        return value + 1 if digits else 0

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _Damaged

    def _within_limits(self, text: str) -> str:
        """The text, with its characters counted, one level up. Raises _Damaged where all together are too long."""
        self._depth -= 1
        self._characters += len(text) + 1
        if self._characters > _MAX_CHARACTERS:
            raise _Damaged
        return text

    def _identifier(self) -> tuple[int, str]:
        """(its number among those of the same name, the name)."""
        number = self._number() + 1 if self._take("s") else 0
        is_encoded = self._take("u")
        size = int(self._match(_DECIMAL)[0][:6])
        self._take("_")
        name = self._text[self._at : self._at + size]
        if len(name) < size:
            raise _Damaged
        self._at += size
        if is_encoded:
            basic, _, encoded = name.rpartition("_")
            try:
                name = (f"{basic}-{encoded}" if basic else encoded).encode().decode("punycode")
            except (UnicodeError, ValueError) as error:
                raise _Damaged from error
        return number, name

    def _path(self, *, in_value: bool) -> str:
        self._deeper()
        return self._within_limits(self._read_path(in_value=in_value))

    def _read_path(self, *, in_value: bool) -> str:  # noqa: PLR0911 - as many forms as the language has
        match self._next():
            case "C":
                return self._identifier()[1]
            case "M":
                self._impl()
                return f"<{self._type()}>"
            case "X":
                self._impl()
                return f"<{self._type()} as {self._path(in_value=False)}>"
            case "Y":
                return f"<{self._type()} as {self._path(in_value=False)}>"
            case "N":
                kind = self._next()
                outer = self._path(in_value=in_value)
                number, name = self._identifier()
                if kind.isupper():
                    what = {"C": "closure", "S": "shim"}.get(kind, kind)
                    name = f"{{{what}:{name}#{number}}}" if name else f"{{{what}#{number}}}"
                return f"{outer}::{name}" if name else outer
            case "I":
                path = self._path(in_value=in_value)
                arguments = ", ".join(self._until_end(self._argument))
                return f"{path}::<{arguments}>" if in_value else f"{path}<{arguments}>"
            case "B":
                return self._again(lambda: self._path(in_value=in_value))
        raise _Damaged

    def _impl(self) -> None:
        if self._take("s"):
            self._number()
        self._path(in_value=False)

    def _again(self, read: Callable[[], str]) -> str:
        first = self._at - 1
        place = self._number()
        if place >= first:
            raise _Damaged
        after, self._at = self._at, place
        text = read()
        self._at = after
        return text

    def _until_end(self, read: Callable[[], str]) -> list[str]:
        found = []
        while not self._take("E"):
            found.append(read())
        return found

    def _argument(self) -> str:
        if self._take("L"):
            return self._lifetime()
        return self._constant() if self._take("K") else self._type()

    def _lifetime(self) -> str:
        number = self._number()
        depth = self._lifetimes - number
        if not number:
            return "'_"
        return f"'{chr(ord('a') + depth)}" if 0 <= depth < 26 else f"'_{depth}"

    def _binder(self) -> str:
        if not self._take("G"):
            return ""
        count = self._number() + 1
        if count > 26:
            raise _Damaged
        self._lifetimes += count
        names = ", ".join(f"'{chr(ord('a') + self._lifetimes - count + at)}" for at in range(count))
        return f"for<{names}> "

    def _type(self) -> str:
        self._deeper()
        return self._within_limits(self._read_type())

    def _read_type(self) -> str:  # noqa: PLR0911 - a case for each letter of the grammar
        letter = self._next()
        if letter in _BASIC:
            return _BASIC[letter]
        if letter in _POINTERS:
            return _POINTERS[letter] + self._type()
        match letter:
            case "A":
                return f"[{self._type()}; {self._constant()}]"
            case "S":
                return f"[{self._type()}]"
            case "T":
                parts = self._until_end(self._type)
                return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
            case "R" | "Q":
                lifetime = f"{self._lifetime()} " if self._take("L") else ""
                lifetime = "" if lifetime == "'_ " else lifetime
                return f"&{lifetime}{'mut ' * (letter == 'Q')}{self._type()}"
            case "F":
                return self._function()
            case "D":
                return self._dynamic()
            case "B":
                return self._again(self._type)
        self._at -= 1
        return self._path(in_value=False)

    def _function(self) -> str:
        before = self._lifetimes
        text = self._binder() + "unsafe " * self._take("U")
        if self._take("K"):
            text += 'extern "{}" '.format("C" if self._take("C") else self._identifier()[1].replace("_", "-"))
        text += f"fn({', '.join(self._until_end(self._type))})"
        result = self._type()
        self._lifetimes = before
        return text if result == "()" else f"{text} -> {result}"

    def _dynamic(self) -> str:
        before = self._lifetimes
        text = self._binder() + " + ".join(self._until_end(self._trait))
        self._lifetimes = before
        if not self._take("L"):
            raise _Damaged
        lifetime = self._lifetime()
        return f"dyn {text}" + ("" if lifetime == "'_" else f" + {lifetime}")

    def _trait(self) -> str:
        text = self._path(in_value=False)
        while self._take("p"):
            name = self._identifier()[1]
            bound = f"{name} = {self._type()}"
            text = f"{text[:-1]}, {bound}>" if text.endswith(">") else f"{text}<{bound}>"
        return text

    def _constant(self) -> str:
        self._deeper()
        if self._take("p"):
            return self._within_limits("_")
        if self._take("B"):
            return self._within_limits(self._again(self._constant))
        kind = _BASIC.get(self._next(), "")
        sign, digits = self._match(_VALUE).groups()
        value = int(digits or "0", 16)
        if kind == "bool":
            return self._within_limits("true" if value else "false")
        if kind == "char":
            return self._within_limits(repr(chr(value)) if value < 0x110000 else "'?'")
        if kind[:1] in ("i", "u") and kind != "":
            return self._within_limits(f"-{value}" if sign else f"{value}")
        raise _Damaged
