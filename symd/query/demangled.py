"""Mangled C++ names as c++filt writes them. What is not understood (vendors' extensions, damage) makes the whole name
None: a name that is read halfway could be taken for another.

Source: Itanium C++ ABI, section 5.1."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, TypeVar

_MAX_MANGLED = 1 << 15
"""Characters of a mangled name that is read."""
_MAX_DEPTH = 400
_MAX_CHARACTERS = 1 << 18
"""Characters of a part of a name. A substitution repeats what was before, so that a short name can read as a very
long one."""
_MAX_WRITTEN = 1 << 22
"""Characters of all parts, and the parts of these, together: what reading one name takes."""
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_SEQUENCE = re.compile(r"([0-9A-Z]*)_", re.ASCII)
_LITERAL = re.compile(r"(n?)([0-9a-z.]*)E", re.ASCII)
_DISCRIMINATOR = re.compile(r"_[0-9]|__[0-9]+_", re.ASCII)
_ADDRESS_SPACE = re.compile(r"U[0-9]", re.ASCII)
_OFFSETS = re.compile(r"h?n?[0-9]+_|vn?[0-9]+_n?[0-9]+_", re.ASCII)
_BITS = re.compile(r"([0-9]+)_", re.ASCII)
_FUNCTION_PARAMETER = re.compile(r"(?:fp|fL([0-9]*)p)[rVK]*([0-9]*)_", re.ASCII)
_CLONE = re.compile(r"\.[a-zA-Z_]\w*(?:\.[0-9]+)*|\.[0-9]+|@[\w.@]*", re.ASCII)

_BUILTIN = MappingProxyType(
    {
        "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
        "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
        "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
        "e": "long double", "g": "__float128", "z": "...", "Dh": "half", "Di": "char32_t", "Ds": "char16_t",
        "Du": "char8_t", "Da": "auto", "Dc": "decltype(auto)", "Dn": "decltype(nullptr)", "Dd": "decimal64",
        "De": "decimal128", "Df": "decimal32", "DF16b": "std::bfloat16_t",
    }
)  # fmt: skip
_STANDARD = MappingProxyType(
    {
        "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string", "Si": "std::istream",
        "So": "std::ostream", "Sd": "std::iostream",
    }
)  # fmt: skip
_SPELLED_OUT = MappingProxyType(
    {"Ss": "basic_string", "Si": "basic_istream", "So": "basic_ostream", "Sd": "basic_iostream"}
)
"""What the constructors of a class are called that has an abbreviation."""
_SUFFIX = MappingProxyType(
    {"int": "", "unsigned int": "u", "long": "l", "unsigned long": "ul", "long long": "ll", "unsigned long long": "ull"}
)
"""What follows the number of a literal of that type; other types are in front of it in parentheses."""
_OPERATORS = MappingProxyType(
    {
        "nw": " new", "na": " new[]", "dl": " delete", "da": " delete[]", "aw": " co_await", "ps": "+", "ng": "-",
        "ad": "&", "de": "*", "co": "~", "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%", "an": "&", "or": "|",
        "eo": "^", "aS": "=", "pL": "+=", "mI": "-=", "mL": "*=", "dV": "/=", "rM": "%=", "aN": "&=", "oR": "|=",
        "eO": "^=", "ls": "<<", "rs": ">>", "lS": "<<=", "rS": ">>=", "eq": "==", "ne": "!=", "lt": "<", "gt": ">",
        "le": "<=", "ge": ">=", "ss": "<=>", "nt": "!", "aa": "&&", "oo": "||", "pp": "++", "mm": "--", "cm": ",",
        "pm": "->*", "pt": "->", "cl": "()", "ix": "[]", "qu": "?",
    }
)  # fmt: skip
_UNARY = frozenset({"ps", "ng", "ad", "de", "co", "nt", "pp", "mm"})
_BINARY = frozenset(_OPERATORS) - _UNARY - {"nw", "na", "dl", "da", "aw", "cl", "ix", "pt", "qu"}
_OF_TYPE = MappingProxyType({"st": "sizeof", "at": "alignof", "ti": "typeid"})
_OF_VALUE = MappingProxyType({"sz": "sizeof", "az": "alignof", "te": "typeid", "nx": "noexcept", "aw": "co_await"})
_CASTS = MappingProxyType({"dc": "dynamic_cast", "sc": "static_cast", "cc": "const_cast", "rc": "reinterpret_cast"})
_SPECIAL = MappingProxyType(
    {
        "TV": "vtable for ", "TT": "VTT for ", "TI": "typeinfo for ", "TS": "typeinfo name for ",
        "TF": "typeinfo fn for ",
    }
)  # fmt: skip
_SPECIAL_NAMES = MappingProxyType(
    {"GV": "guard variable for ", "TW": "TLS wrapper function for ", "TH": "TLS init function for "}
)
_QUALIFIERS = MappingProxyType({"r": " restrict", "V": " volatile", "K": " const"})
_REFERENCES = MappingProxyType({"P": "*", "R": "&", "O": "&&", "C": " _Complex", "G": " _Imaginary"})
_LATER = re.compile(r"\0([0-9]+)\0(&{0,2})", re.ASCII)
"""A parameter of a template, whose arguments are looked at when the function is read."""


class Parameters(Enum):
    """What is written for a parameter of a template. A substitution may repeat one of another template: LLVM's tools
    write what it stood for where it was, GNU's what it stands for where it is, NVIDIA's ``T1``, ``T2``. GNU's also call
    a constructor what was named last."""

    THERE, HERE, SYMBOLIC = range(3)


WORDS = (
    *_BUILTIN.values(), *_STANDARD.values(), *_SPELLED_OUT.values(), *_OF_TYPE.values(), *_OF_VALUE.values(),
    *_CASTS.values(), *_SPECIAL.values(), *_SPECIAL_NAMES.values(), *_QUALIFIERS.values(), *_REFERENCES.values(),
    *_OPERATORS.values(), "operator", "anonymous namespace", "true false nullptr nullptr_t", "__vector", "auto lambda",
    "unnamed type", "char_traits", "_Float16 _Float32 _Float64 _Float128 _BitInt", "std parm param this", "non virtual thunk to",
)  # fmt: skip
"""What readable names have that mangled ones spell otherwise."""


def demangled(mangled: str, parameters: Parameters = Parameters.HERE) -> str | None:
    """``void shading::march<float>(float, int)`` for ``_ZN7shading5marchIfEEvT_i``; None for what is not mangled, or
    has parts that are not understood."""
    if not mangled.startswith("_Z") or len(mangled) > _MAX_MANGLED:
        return None
    try:
        return _Reader(mangled, parameters).whole()
    except (_UnknownPart, RecursionError):
        return None


class _UnknownPart(Exception):
    """A part that is not understood."""


class _Around(NamedTuple):
    """A type that is written on both sides of what it belongs to: ``void (*`` and ``)(int)``. ``open`` ones are
    functions and arrays, whose pointers need brackets."""

    left: str
    right: str
    open: bool


class _Pack(tuple["_One", ...]):
    """What a pack of a template's parameters stands for, and types made of it, one for each."""

    __slots__ = ()


_One = str | _Around
_Part = str | _Around | _Pack
_Read = TypeVar("_Read")


def _text(part: _Part) -> str:
    if isinstance(part, _Pack):
        return _list(map(_text, part))
    return part.left + part.right if isinstance(part, _Around) else part


def _each(make: Callable[..., _One], *parts: _Part) -> _Part:
    """What is made of parts; where some of them are packs, of each of these."""
    sizes = [len(part) for part in parts if isinstance(part, _Pack)]
    if not sizes:
        return make(*parts)
    spread = [part if isinstance(part, _Pack) else (part,) * min(sizes) for part in parts]
    return _Pack(make(*row) for row in zip(*spread, strict=False))


class _Name(NamedTuple):
    """``last`` is what the constructors of the class of that name are called. ``returns`` says that the type of the
    result follows the name of a function; ``suffix`` follows its parameters."""

    text: _Part
    last: str
    returns: bool = False
    suffix: str = ""


class _Reader:
    """``at`` moves over ``text``; all methods raise ``_UnknownPart`` where they cannot go on. ``_known`` are the
    components that substitutions refer to, ``_arguments`` those of the last template, for its parameters."""

    def __init__(self, text: str, parameters: Parameters) -> None:
        self._source, self._at = text, len("_Z")
        self._parameters = parameters
        self._known: list[_Name] = []
        self._arguments: list[_Part] = []
        self._depth = self._characters = 0
        self._in_lambda = self._forward = False
        self._last = ""

    def whole(self) -> str:
        text = self._encoding(result=True)
        while clone := _CLONE.match(self._source, self._at):
            self._at = clone.end()
            text += f" [clone {clone[0]}]"
        if self._at != len(self._source):
            raise _UnknownPart
        return text

    def _done(self) -> bool:
        return self._at == len(self._source) or self._source[self._at] in "E.@"

    def _looking(self, token: str) -> bool:
        return self._source.startswith(token, self._at)

    def _take(self, token: str) -> bool:
        found = self._source.startswith(token, self._at)
        self._at += len(token) * found
        return found

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise _UnknownPart

    def _taken(self, table: object, *sizes: int) -> str | None:
        """The key of a table that comes next, of one of these sizes."""
        for size in sizes:
            key = self._source[self._at : self._at + size]
            if len(key) == size and key in table:  # type: ignore[operator]
                self._at += size
                return key
        return None

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._source, self._at)
        if found is None:
            raise _UnknownPart
        self._at = found.end()
        return found

    def _remember(self, name: _Name) -> _Name:
        self._known.append(name)
        return name

    def _remembered(self, part: _Part) -> _Part:
        self._known.append(_Name(part, ""))
        return part

    def _deeper(self, read: Callable[[], _Read]) -> _Read:
        self._depth += 1
        self._characters += 1
        if self._depth > _MAX_DEPTH:
            raise _UnknownPart
        part = read()
        self._depth -= 1
        return part

    def _within_limits(self, part: _Part) -> _Part:
        """The part, with its characters counted. Raises _UnknownPart where it, or all together, are too long."""
        size = _size(part)
        self._characters += size
        if size > _MAX_CHARACTERS or self._characters > _MAX_WRITTEN:
            raise _UnknownPart
        return part

    def _until_end(self, read: Callable[[], _Part]) -> list[_Part]:
        parts = []
        while not self._take("E"):
            parts.append(read())
        return parts

    # Functions

    def _encoding(self, *, result: bool) -> str:
        """A function or an object, with the type of its ``result`` where that is wanted."""
        if (special := self._special()) is not None:
            return special
        name = self._name(of_function=True)
        if self._done():
            return self._looked_up(_text(name.text))
        returned = f"{_text(self._type())}" if name.returns else None
        parameters = [self._type()]
        while not self._done():
            parameters.append(self._type())
        text = f"{_text(name.text)}({_parameters(parameters)}){name.suffix}"
        if returned is not None and result:
            text = f"{returned} {text}"
        return _text(self._within_limits(self._looked_up(text)))

    def _looked_up(self, text: str) -> str:
        return _LATER.sub(self._resolved, text) if "\0" in text else text

    def _resolved(self, later: re.Match[str]) -> str:
        number = int(later[1])
        if number >= len(self._arguments):
            raise _UnknownPart
        kind = _text(self._arguments[number])
        return _referred(kind, later[2]) if later[2] else kind

    def _special(self) -> str | None:
        if (key := self._taken(_SPECIAL, 2)) is not None:
            return _SPECIAL[key] + _text(self._type())
        if (key := self._taken(_SPECIAL_NAMES, 2)) is not None:
            return _SPECIAL_NAMES[key] + _text(self._name().text)
        for token, what in (("Th", "non-virtual thunk to "), ("Tv", "virtual thunk to ")):
            if self._looking(token):
                self._at += 1
                self._match(_OFFSETS)
                return what + self._deeper(lambda: self._encoding(result=True))
        return None

    # Names

    def _name(self, *, of_function: bool = False) -> _Name:
        return self._deeper(lambda: self._read_name(of_function=of_function))

    def _read_name(self, *, of_function: bool) -> _Name:
        if self._take("N"):
            return self._nested(of_function=of_function)
        if self._take("Z"):
            return self._local(of_function=of_function)
        if self._looking("S") and not self._looking("St"):
            name = self._substitution()
            if not self._looking("I"):
                raise _UnknownPart
        else:
            name = self._unqualified(_Name("std", "") if self._take("St") else None)
            if self._looking("I"):
                self._remember(name)
        return self._with_arguments(name, of_function=of_function) if self._looking("I") else name

    def _nested(self, *, of_function: bool) -> _Name:
        suffix = ""
        while _ADDRESS_SPACE.match(self._source, self._at):
            self._at += 1
            suffix += f" {self._source_name()}"
        suffix += self._qualifiers()
        suffix += " &" if self._take("R") else " &&" if self._take("O") else ""
        name: _Name | None = None
        while not self._take("E"):
            if self._looking("I"):
                if name is None:
                    raise _UnknownPart
                name = self._with_arguments(name, of_function=of_function)
            elif self._looking("S") and name is None:
                name = _Name("std", "") if self._take("St") else self._substitution()
                continue
            elif self._looking("T") and name is None:
                name = _Name(self._parameter(), "")
            elif (self._looking("Dt") or self._looking("DT")) and name is None:
                name = _Name(self._type_of_expression(), "")
            else:
                name = self._unqualified(name)
            self._take("M")
            if not self._looking("E"):
                self._remember(name)
        if name is None:
            raise _UnknownPart
        return name._replace(suffix=suffix)

    def _local(self, *, of_function: bool) -> _Name:
        outer = self._arguments
        around = self._encoding(result=False)
        self._expect("E")
        if not of_function:
            self._arguments = outer
        if self._take("s"):
            self._discriminator()
            return _Name(f"{around}::string literal", "")
        if self._take("d"):
            if not self._take("_"):
                self._match(_SEQUENCE)
            name = self._name(of_function=of_function)
        else:
            name = self._name(of_function=of_function)
            self._discriminator()
        return name._replace(text=self._within_limits(_each(lambda own: f"{around}::{own}", name.text)))

    def _discriminator(self) -> None:
        if found := _DISCRIMINATOR.match(self._source, self._at):
            self._at = found.end()

    def _with_arguments(self, name: _Name, *, of_function: bool) -> _Name:
        arguments = self._template_arguments(of_function=of_function)
        text = self._within_limits(_each(lambda own, *each: f"{own}{_in_angles(each)}", name.text, *arguments))
        returns = name.last and not name.last.startswith(("~", "\0"))
        return name._replace(text=text, returns=bool(returns))

    def _unqualified(self, around: _Name | None) -> _Name:
        """The next part of a name, behind what stands ``around`` it."""
        last = self._own_name(around)
        while self._take("B"):
            last = last._replace(text=f"{last.text}[abi:{self._source_name()}]")
        if around is None:
            return last
        return last._replace(
            text=self._within_limits(_each(lambda outer, own: f"{outer}::{own}", around.text, last.text))
        )

    def _own_name(self, around: _Name | None) -> _Name:  # noqa: PLR0911 - as many forms as the language has
        self._take("L")  # of internal linkage
        if self._source[self._at : self._at + 1].isdecimal():
            self._last = name = self._source_name()
            name = "(anonymous namespace)" if name.startswith("_GLOBAL__N") else name
            return _Name(name, name)
        if self._take("Ut"):
            return _Name(f"{{unnamed type#{self._count()}}}", "{")
        if self._take("Ul"):
            return self._lambda()
        if around is not None and around.last:
            own = self._last if self._parameters is Parameters.HERE else around.last
            if self._take("CI"):
                self._at += 1
                self._type()
                return _Name(own, "\0")
            if self._taken(("C1", "C2", "C3", "C4", "C5"), 2):
                return _Name(own, "\0")
            if self._taken(("D0", "D1", "D2", "D4", "D5"), 2):
                return _Name(f"~{own}", "~")
        return _Name(*self._operator())

    def _operator(self) -> tuple[str, str]:
        """(its name, that or a mark of conversions, whose results are not written)."""
        if self._take("cv"):
            outer, self._forward = self._forward, True
            text = f"operator {_text(self._type())}"
            self._forward = outer
            return text, "\0"
        if self._take("li"):
            return f'operator"" {self._source_name()}', "operator"
        key = self._taken(_OPERATORS, 2)
        if key is None:
            raise _UnknownPart
        return f"operator{_OPERATORS[key]}", "operator"

    def _lambda(self) -> _Name:
        outer, self._in_lambda = self._in_lambda, True
        self._declarations()
        parameters = _LATER.sub(r"auto\2", _parameters(self._until_end(self._type)))
        self._in_lambda = outer
        return _Name(f"{{lambda({parameters})#{self._count()}}}", "{")

    def _count(self) -> int:
        digits = self._match(_SEQUENCE)[1]
        if len(digits) > 6 or (digits and not digits.isdecimal()):
            raise _UnknownPart
        return int(digits) + 2 if digits else 1

    def _source_name(self) -> str:
        length = self._match(_NUMBER)[0]
        first = self._at
        self._at += int(length) if len(length) < 6 else _MAX_MANGLED
        if self._at > len(self._source) or first == self._at:
            raise _UnknownPart
        return self._source[first : self._at]

    def _substitution(self) -> _Name:
        key = self._taken(_STANDARD, 2)
        if key is not None:
            self._last = _SPELLED_OUT.get(key, _STANDARD[key].removeprefix("std::"))
            name = _Name(_STANDARD[key], self._last)
            while self._take("B"):
                name = self._remember(name._replace(text=f"{_text(name.text)}[abi:{self._source_name()}]"))
            return name
        self._expect("S")
        return self._known[self._place(len(self._known), 36)]

    def _place(self, count: int, base: int) -> int:
        digits = self._match(_SEQUENCE)[1]
        if len(digits) > 4 or (base == 10 and digits and not digits.isdecimal()):
            raise _UnknownPart
        number = int(digits, base) + 1 if digits else 0
        if number >= count:
            raise _UnknownPart
        return number

    def _parameter(self) -> _Part:
        self._expect("T")
        number = self._place(1 << 12, 10)
        if self._in_lambda:
            return {Parameters.HERE: f"\0{number}\0", Parameters.THERE: "auto"}.get(self._parameters, f"T{number + 1}")
        if self._parameters is Parameters.SYMBOLIC:
            return f"T{number + 1}"
        known = self._arguments[number] if number < len(self._arguments) else None
        if self._forward or (self._parameters is Parameters.HERE and isinstance(known, str)):
            return f"\0{number}\0"
        if known is None:
            raise _UnknownPart
        return known

    # Arguments of templates

    def _template_arguments(self, *, of_function: bool) -> list[_Part]:
        """The arguments of a template, as they are written. ``of_function`` makes them those that parameters refer to,
        also while they are read."""
        self._expect("I")
        inner, written, last = list[_Part](), list[_Part](), self._last
        if of_function:
            self._arguments = inner
        while not self._take("E"):
            if self._take("Q"):  # what is required of the arguments
                self._expression()
                continue
            self._declarations()
            is_pack = self._looking("J")
            inner.append(self._deeper(self._argument))
            written.append(_text(inner[-1]) if is_pack else inner[-1])
        self._last = last
        return written

    def _declarations(self) -> None:
        """What a parameter is, in front of its argument and of a lambda's parameters; it is not written."""
        while (key := self._taken(("Ty", "Tp", "Tn", "Tk", "Tt"), 2)) is not None:
            if key == "Tn":
                self._type()
            elif key == "Tk":
                self._name()
            elif key == "Tt":
                self._deeper(self._declarations)
                if self._take("Q"):
                    self._expression()
                self._expect("E")

    def _argument(self) -> _Part:
        if self._take("J"):
            parts = self._until_end(lambda: self._deeper(self._argument))
            return _Pack(each for part in parts for each in (part if isinstance(part, _Pack) else (part,)))
        if self._looking("L"):
            return self._literal()
        if self._take("X"):
            value = self._expression()
            self._expect("E")
            return value
        return self._type()

    def _literal(self) -> _Part:
        self._expect("L")
        if self._take("_Z") or self._take("Z"):
            outer = self._arguments
            text = self._encoding(result=False)
            self._arguments = outer
            self._expect("E")
            return text
        kind = _text(self._type())
        if kind == "decltype(nullptr)" and (self._take("E") or self._take("0E")):
            return "nullptr"
        if self._take("E"):  # a string, or a lambda
            return f"({kind})"
        sign, digits = self._match(_LITERAL).groups()
        if kind == "bool" and not sign and digits in ("0", "1"):
            return "true" if digits == "1" else "false"
        if not digits.isdecimal():
            return f"({kind})[{digits}]"
        number = f"-{digits}" if sign else digits
        return number + _SUFFIX[kind] if kind in _SUFFIX else f"({kind}){number}"

    # Types

    def _type(self) -> _Part:
        return self._within_limits(self._deeper(self._read_type))

    def _qualifiers(self) -> str:
        found = ""
        while (key := self._taken(_QUALIFIERS, 1)) is not None:
            found = _QUALIFIERS[key] + found
        return found

    def _read_type(self) -> _Part:  # noqa: PLR0911 - a case for each letter of the grammar
        key = self._taken(_REFERENCES, 1)
        if key is not None:
            mark = _REFERENCES[key]
            return self._remembered(_each(lambda kind: _referring(kind, mark), self._type()))
        qualifiers = self._qualifiers()
        if self._looking("F") or self._looking("Do") or self._looking("DO") or self._looking("Dw"):
            return self._remembered(self._function_type(qualifiers))
        if qualifiers:
            return self._remembered(_each(lambda kind: _qualified(kind, qualifiers), self._type()))
        match self._source[self._at : self._at + 1]:
            case "U":
                return self._vendors()
            case "A":
                return self._remembered(self._array())
            case "M":
                self._at += 1
                return self._remembered(_each(_member, self._type(), self._type()))
            case "u":
                self._at += 1
                name = _Name(self._source_name(), "")
                if self._looking("I"):
                    name = self._with_arguments(name, of_function=False)
                return self._remember(name).text
            case "D":
                return self._special_type()
        key = self._taken(_BUILTIN, 1)
        return self._class().text if key is None else _BUILTIN[key]

    def _special_type(self) -> _Part:  # noqa: PLR0911 - a case for each letter of the grammar
        if self._take("Dp"):
            return self._expanded(self._type())
        if self._take("Dv"):
            count = _text(self._expression()) if self._take("_") else self._match(_NUMBER)[0]
            self._expect("_")
            return self._remembered(_each(lambda kind: f"{_text(kind)} __vector({count})", self._type()))
        if self._looking("Dt") or self._looking("DT"):
            return self._remembered(self._type_of_expression())
        for token, word in (("DB", "_BitInt"), ("DU", "unsigned _BitInt")):
            if self._take(token):
                return f"{word}({self._match(_BITS)[1]})"
        key = self._taken(_BUILTIN, 5, 2)
        if key is not None:
            return _BUILTIN[key]
        if self._take("DF"):
            return f"_Float{self._match(_BITS)[1]}"
        return self._class().text

    def _expanded(self, part: _Part) -> _Part:
        return self._remembered(_text(part) if isinstance(part, _Pack) else part)

    def _vendors(self) -> _Part:
        self._expect("U")
        word = self._source_name()
        if self._looking("I"):
            word += _in_angles(self._template_arguments(of_function=False))
        return self._remembered(_each(lambda kind: _qualified(kind, f" {word}"), self._type()))

    def _function_type(self, qualifiers: str) -> _Part:
        if self._take("Do"):
            qualifiers += " noexcept"
        elif self._take("DO"):
            qualifiers += f" noexcept({_text(self._expression())})"
            self._expect("E")
        elif self._take("Dw"):
            qualifiers += f" throw({_list(map(_text, self._until_end(self._type)))})"
        self._take("Dx")
        self._expect("F")
        self._take("Y")
        result, parameters = self._type(), list[_Part]()
        while not self._take("E"):
            if self._take("RE") or self._take("OE"):
                qualifiers += " &" if self._source[self._at - 2] == "R" else " &&"
                break
            parameters.append(self._type())
        return _each(
            lambda returned, *each: _Around(
                f"{_left(returned)} ", f"({_parameters(each)}){qualifiers}{_right(returned)}", open=True
            ),
            result,
            *parameters,
        )

    def _array(self) -> _Part:
        self._expect("A")
        bound: _Part = ""
        if number := _NUMBER.match(self._source, self._at):
            self._at, bound = number.end(), number[0]
        elif not self._looking("_"):
            bound = self._expression()
        self._expect("_")
        return _each(
            lambda size, kind: _Around(f"{_left(kind)} ", f"[{_text(size)}]{_right(kind)}", open=True),
            bound,
            self._type(),
        )

    def _type_of_expression(self) -> _Part:
        if not (self._take("Dt") or self._take("DT")):
            raise _UnknownPart
        value = _text(self._expression())
        self._expect("E")
        return f"decltype ({value})"

    def _class(self) -> _Name:
        """A class or an enumeration by its name, a parameter of the template, or what a substitution stands for."""
        if self._taken(("Ts", "Tu", "Te"), 2):
            return self._remember(self._name())
        if self._looking("T"):
            name = self._remember(_Name(self._parameter(), ""))
            if self._forward:  # the arguments are those of the conversion
                return name
        elif self._looking("S") and not self._looking("St"):
            name = self._substitution()
        elif (
            self._source[self._at : self._at + 1].isdecimal()
            or self._looking("St")
            or self._source[self._at : self._at + 1] in ("N", "Z")
        ):
            return self._remember(self._name())
        else:
            raise _UnknownPart
        if self._looking("I"):
            name = self._remember(self._with_arguments(name, of_function=False))
        return name

    # Expressions, which are in types

    def _expression(self) -> _Part:
        return self._within_limits(self._deeper(self._read_expression))

    def _read_expression(self) -> _Part:  # noqa: C901, PLR0911, PLR0912 - a case for each letter of the grammar
        if self._looking("L"):
            return self._literal()
        if self._looking("T"):
            return self._parameter()
        if self._looking("fp") or re.match(r"fL[0-9]*p", self._source[self._at : self._at + 8]):
            return self._function_parameter()
        self._take("gs")
        if (key := self._taken(_OF_TYPE, 2)) is not None:
            word = _OF_TYPE[key]
            return _each(lambda kind: f"{word} ({_text(kind)})", self._type())
        if (key := self._taken(_OF_VALUE, 2)) is not None:
            word = _OF_VALUE[key]
            return _each(lambda value: f"{word} ({_text(value)})", self._expression())
        if (key := self._taken(_CASTS, 2)) is not None:
            word, kind, value = _CASTS[key], self._type(), self._expression()
            return _each(lambda kind, value: f"{word}<{_text(kind)}>({_text(value)})", kind, value)
        if self._take("sZ"):
            return f"sizeof...({_text(self._parameter() if self._looking('T') else self._function_parameter())})"
        if self._take("sP"):
            return f"sizeof...({_list(map(_text, self._until_end(self._argument)))})"
        if self._take("sp"):
            return _text(self._expression())
        if self._take("cv"):
            kind = self._type()
            values = self._until_end(self._expression) if self._take("_") else [self._expression()]
            return _each(lambda kind, *each: f"({_text(kind)})({_list(map(_text, each))})", kind, *values)
        if self._taken(("nw", "na"), 2):
            return self._new()
        if self._take("cl") or self._take("cp"):
            called, *values = self._until_end(self._expression)
            return _each(lambda called, *each: f"{_text(called)}({_list(map(_text, each))})", called, *values)
        if self._take("tl"):
            kind, values = self._type(), self._until_end(self._initializer)
            return _each(lambda kind, *each: f"{_text(kind)}{{{_list(map(_text, each))}}}", kind, *values)
        if self._take("il"):
            return f"{{{_list(map(_text, self._until_end(self._initializer)))}}}"
        for token, mark in (("dt", "."), ("pt", "->"), ("ds", ".*")):
            if self._take(token):
                return _each(
                    lambda value, name, mark=mark: f"({_text(value)}){mark}{_text(name)}",
                    self._expression(),
                    self._member_name(),
                )
        if self._take("ix"):
            return _each(lambda value, at: f"({_text(value)})[{_text(at)}]", self._expression(), self._expression())
        if self._take("qu"):
            parts = (self._expression(), self._expression(), self._expression())
            return _each(lambda *each: "({})?({}) : ({})".format(*map(_text, each)), *parts)
        if (fold := self._taken(("fl", "fr", "fL", "fR"), 2)) is not None:
            return self._folded(fold)
        if (
            self._looking("sr")
            or self._looking("on")
            or self._looking("dn")
            or self._source[self._at : self._at + 1].isdecimal()
        ):
            return self._unresolved()
        if (key := self._taken(_UNARY, 2)) is not None:
            self._take("_")
            mark = _OPERATORS[key]
            return _each(lambda value: f"{mark}({_text(value)})", self._expression())
        if (key := self._taken(_BINARY, 2)) is not None:
            mark = _OPERATORS[key]
            return _each(
                lambda left, right: f"({_text(left)}){mark}({_text(right)})", self._expression(), self._expression()
            )
        raise _UnknownPart

    def _new(self) -> _Part:
        places = []
        while not self._take("_"):
            places.append(self._expression())
        kind = self._type()
        self._take("pi")
        values = self._until_end(self._expression)
        return _each(lambda kind, *each: f"new {_text(kind)}({_list(map(_text, each))})", kind, *places, *values)

    def _initializer(self) -> _Part:
        if self._take("di"):
            name = self._source_name()
            return _each(lambda value: f".{name}={_text(value)}", self._initializer())
        if self._take("dx"):
            return _each(lambda at, value: f"[{_text(at)}]={_text(value)}", self._expression(), self._initializer())
        return self._expression()

    def _function_parameter(self) -> str:
        if self._take("fpT"):
            return "this"
        digits = self._match(_FUNCTION_PARAMETER)[2]
        if len(digits) > 4:
            raise _UnknownPart
        return f"{{parm#{int(digits) + 2 if digits else 1}}}"

    def _folded(self, kind: str) -> _Part:
        mark = self._taken(_OPERATORS, 2)
        if mark is None:
            raise _UnknownPart
        parts = [_text(self._expression()) for _ in range(2 if kind in ("fL", "fR") else 1)]
        parts.insert(0 if kind == "fl" else 1, "...")
        return f"({_OPERATORS[mark].join(parts)})"

    def _member_name(self) -> _Part:
        if self._looking("T"):
            return self._parameter()
        return self._unresolved()

    def _unresolved(self) -> _Part:
        """A name of an expression that depends on the template's parameters. GNU's compiler writes what is around it as
        a type, whose parts substitutions may refer to."""
        if not self._take("sr"):
            return self._base_name()
        before, known, depth = self._at, len(self._known), self._depth
        try:
            return self._joined(self._type(), self._base_name())
        except _UnknownPart:
            self._at, self._depth = before, depth
            del self._known[known:]
        if self._take("N"):
            scope = self._type()
            while not self._take("E"):
                scope = self._joined(scope, self._simple_name())
            return self._joined(scope, self._base_name())
        scope = self._simple_name()
        while not self._take("E"):
            scope = self._joined(scope, self._simple_name())
        return self._joined(scope, self._base_name())

    def _joined(self, scope: _Part, name: _Part) -> _Part:
        return self._within_limits(_each(lambda outer, own: f"{_text(outer)}::{_text(own)}", scope, name))

    def _simple_name(self) -> _Part:
        name = self._source_name()
        while self._take("B"):
            name += f"[abi:{self._source_name()}]"
        if not self._looking("I"):
            return name
        arguments = self._template_arguments(of_function=False)
        return _each(lambda *each: f"{name}{_in_angles(each)}", *arguments)

    def _base_name(self) -> _Part:
        if self._take("dn"):
            kind = self._type() if not self._source[self._at : self._at + 1].isdecimal() else self._simple_name()
            return _each(lambda own: f"~{_text(own)}", kind)
        if not self._take("on"):
            return self._simple_name()
        name = self._operator()[0]
        return name + _in_angles(self._template_arguments(of_function=False)) if self._looking("I") else name


def _size(part: _Part) -> int:
    if isinstance(part, str):
        return len(part)
    if isinstance(part, _Pack):
        return sum(map(_size, part))
    return len(part.left) + len(part.right)


def _left(part: _One) -> str:
    return part.left if isinstance(part, _Around) else part


def _right(part: _One) -> str:
    return part.right if isinstance(part, _Around) else ""


def _referring(kind: _One, mark: str) -> _One:
    """A pointer or reference to a type; references to references collapse."""
    if isinstance(kind, _Around):
        return (
            _Around(f"{kind.left}({mark}", f"){kind.right}", open=False)
            if kind.open
            else kind._replace(left=_referred(kind.left, mark))
        )
    return _referred(kind, mark)


def _referred(kind: str, mark: str) -> str:
    if mark in ("&", "&&") and kind.endswith("&"):
        return kind if mark == "&&" or not kind.endswith("&&") else kind[:-1]
    return kind + mark


def _qualified(kind: _One, qualifiers: str) -> _One:
    if isinstance(kind, _Around):
        return kind._replace(left=_with_qualifiers(kind.left.rstrip(), qualifiers) + " " * kind.open)
    return _with_qualifiers(kind, qualifiers)


def _with_qualifiers(kind: str, qualifiers: str) -> str:
    return kind if kind.endswith(qualifiers) else kind + qualifiers


def _member(scope: _One, kind: _One) -> _One:
    """A pointer to a member."""
    if isinstance(kind, _Around):
        return (
            _Around(f"{kind.left}({_text(scope)}::*", f"){kind.right}", open=False)
            if kind.open
            else kind._replace(left=f"{kind.left} {_text(scope)}::*")
        )
    return f"{kind} {_text(scope)}::*"


def _in_angles(arguments: Iterable[_Part]) -> str:
    return f"<{_list(map(_text, arguments))}>"


def _parameters(parts: Iterable[_Part]) -> str:
    """The parameters of a function; one without has one, void."""
    text = _list(map(_text, parts))
    return "" if text == "void" else text


def _list(parts: Iterable[str]) -> str:
    """Parts in a row; empty packs leave nothing."""
    return ", ".join(part for part in parts if part)
