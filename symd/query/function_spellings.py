"""What a function may be called, as compilers, debuggers and profilers write it: names are taken apart into what all of
these agree on.

They differ in spaces, in brackets that only group, in how they write literals (``4``, ``4u``, ``(int)4``), lambdas,
unnamed namespaces and qualifiers (``const T &``), in whether they say the result, and ABI tags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from symd.query import rust_names
from symd.query.demangled import WORDS, Parameters, demangled

MAX_NAME_LENGTH = 1 << 16
"""Characters of a name that is looked for or compared."""
_MAX_DEPTH = 200
"""Brackets around a part of a name that is taken apart."""
_IDENTIFIER = re.compile(r"\w+")
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_MANGLED = re.compile(r"_[ZRD]")
_MAX_READ = 1 << 20
_MAX_LENGTH_DIGITS = 4
"""Digits of the number in front of an identifier that says how long it is."""
_SPACES = re.compile(r"(?<![\w]) +| +(?![\w])")
_TOKEN = re.compile(
    r"""\ +|\[abi:(?P<tag>[^\]]{0,1000})\]
    |(?P<anonymous>\(anonymous\ namespace\)|<unnamed>|\{anonymous\}|_GLOBAL__N_\w*(?=::))
    |(?P<operator>operator\ *(?:\(\ *\)|\[\ *\]|""\ ?\w+|(?:new|delete)\b(?:\ *\[\])?|co_await\b|<=>|<<=|>>=|->\*?
        |<<(?=\ *\(|\ *<|$)|>>|[-+*/%^&|<>=!]=|&&|\|\||\+\+|--|[-+*/%^&|~!=<>,]))
    |'(?P<closure>lambda|unnamed)(?P<count>[0-9]*)'
    |(?P<opened>[\[{](?=(?:lambda|unnamed\ type)\b))
    |_INTERNAL_\w+::|(?<=\w)\[[0-9a-f]{1,16}\](?=::)|:\ (?:bool|char|[iu](?:[0-9]+|size))(?=\ *[,>])
    |(?<=auto):[0-9]+|(?P<null>decltype\(nullptr\)|std::nullptr_t\b)|\.\.\.
    |(?P<word>[^\W0-9][\w$]*(?:\.[\w$]+)*|\$[\w$.]*|~[^\W0-9][\w$]*)
    |(?P<number>[0-9][\w.]*)
    |(?P<mark>::|->|.)""",
    re.VERBOSE | re.DOTALL,
)
_CLONES = re.compile(r"(?: ?\[clone [^\]]{1,200}\]){1,9}$| \(\.[\w.]*\)$| \[(?:subobject|deleting)\]$")
_ABBREVIATED = re.compile(
    r"\bstd::basic_(string|[io]stream|iostream)< ?char, ?std::char_traits<char> ?(?:, ?std::allocator<char> ?)?>"
)
_LITERAL = re.compile(r"([0-9]+)u?l{0,2}", re.ASCII)
_TAGS = re.compile(r"\[abi:[^\]]{0,1000}\]")
_VALUES = {"true": "1", "false": "0", "nullptr": "0"}
_LEFT_OUT = frozenset({"typename", "template", "struct", "class", "enum", "union"})
_CV = frozenset({"const", "volatile", "restrict", "__restrict__", "noexcept"})
_CLOSING = {"(": ")", "<": ">", "[": "]", "{": "}"}
_TEMPLATE_PARAMETER = re.compile(r"T[0-9]+", re.ASCII)
_LAMBDAS_PARAMETER = re.compile(r"\$(?:TT|[TN])[0-9]*", re.ASCII)
_FORTRAN_OF_GNU = re.compile(r"__([a-z]\w*)_MOD_(\w+)", re.ASCII)
_FORTRAN_OF_LLVM = re.compile(r"_Q(?:[MSFP][a-z0-9_]+)+", re.ASCII)
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}$", re.ASCII)


class Component(NamedTuple):
    """One of the names that are between "::", with its template arguments (None: without), and the parameters where
    it is a function around what follows."""

    name: str
    arguments: str | None = None
    around: str = ""


class Spelled(NamedTuple):
    """A name taken apart. ``parameters`` are None where none are written. ``head`` is where in ``text`` its path
    stands. Words that are in ``needs`` are in every way to write it, also in the mangled one."""

    text: str
    result: str
    path: tuple[Component, ...]
    parameters: str | None
    tags: tuple[str, ...]
    head: slice
    needs: frozenset[str]

    @property
    def key(self) -> Key:
        last = self.path[-1]
        return last.name, last.arguments, self.parameters

    @property
    def keys(self) -> Iterator[Key]:
        """The keys of the names that may mean this one."""
        last = self.path[-1]
        for arguments in {last.arguments, None}:
            for parameters in {self.parameters, None}:
                yield last.name, arguments, parameters

    @property
    def anchor(self) -> str:
        """The word by which to look for it: one of its own name, if there is one."""
        own = [word for word in _IDENTIFIER.findall(self.path[-1].name) if word in self.needs]
        return own[-1] if own else max(self.needs, key=len, default="")

    @property
    def symbolic(self) -> bool:
        """Whether the name may have parameters of templates as NVIDIA's tools write them."""
        return "T" in self.text and _TEMPLATE_PARAMETER.search(self.text) is not None


Key = tuple[str, str | None, str | None]
"""The function's own name, its template arguments and its parameters."""


def meaning(wanted: Spelled, function: Spelled) -> int:
    """How well a name that is asked for means a function; 0: it does not. The keys of both agree."""
    if len(wanted.path) > len(function.path) or (wanted.tags and wanted.tags != function.tags):
        return 0
    for asked, own in zip(reversed(wanted.path), reversed(function.path), strict=False):
        if (
            asked.name != own.name
            or (asked.arguments not in (None, own.arguments))
            or asked.around not in ("", own.around)
        ):
            return 0
    same_result = wanted.result == function.result
    if wanted.result and wanted.parameters is None and not same_result:
        return 0
    same_text = _bare(wanted.text) == _bare(function.text)
    return 8 * (len(wanted.path) == len(function.path)) + 4 * same_text + 2 * same_result + 1


def _bare(text: str) -> str:
    return text.replace(" ", "")


def own_name(name: str) -> str:
    """Where NVIDIA's tools fold a function into a kernel its name follows the last "$"."""
    return name.rpartition("$")[2] if name.startswith("$") else name


def ways_to_read(name: str, *, symbolic: bool) -> Iterator[Spelled]:
    """What a compiler's name of a function says, each way it can be read; ``symbolic`` also with parameters of
    templates as such."""
    bare = own_name(name)
    if bare.startswith("_Z"):
        several = "Z" in bare[2:] or "Ul" in bare
        ways = [Parameters.HERE, *[Parameters.THERE] * several, *[Parameters.SYMBOLIC] * symbolic]
        texts = {text: None for way in ways if (text := demangled(bare, way))}
        for text in texts:
            yield taken_apart(text)
        if bare.startswith("_ZN") and (legacy := next((each for each in texts if _RUST_HASH.search(each)), "")):
            yield taken_apart(_RUST_HASH.sub("", rust_names.unescaped(legacy)))
    elif bare.startswith("_R") and (text := rust_names.demangled(bare)):
        yield taken_apart(text)
    elif path := _path_of_other_languages(bare):
        yield from map(taken_apart, path)
    yield taken_apart(bare)


def _path_of_other_languages(name: str) -> list[str]:
    """``shapes::advance`` for the names that Fortran's compilers make of it, ``__shapes_MOD_advance`` and
    ``_QMshapesPadvance``, and D's ``_D6shapes7advanceFfZf``, which is ``shapes.advance`` there."""
    if found := _FORTRAN_OF_GNU.fullmatch(name):
        return ["::".join(found.groups())]
    if _FORTRAN_OF_LLVM.fullmatch(name):
        return ["::".join(re.findall(r"[MSFP]([a-z0-9_]+)", name))]
    parts, at = [], len("_D")
    while name.startswith("_D") and (length := _NUMBER.match(name, at)):
        at = length.end() + int(length[0][:_MAX_LENGTH_DIGITS])
        part = name[length.end() : at]
        template = re.match(r"__T([0-9]{1,4})", part)
        parts.append(part if template is None else part[template.end() : template.end() + int(template[1])])
    return ["::".join(parts), ".".join(parts)] if parts and at <= len(name) else []


def spellings(name: str) -> frozenset[str]:
    """What a function of that name may be called, with spaces only where two words meet: with what it returns, its
    parameters, template arguments and ABI tags, and without."""
    found = {compact(own_name(name))}
    for spelled in ways_to_read(name, symbolic=False):
        text = spelled.text
        for each in (text, text[spelled.head.start :], text[: spelled.head.stop], text[spelled.head]):
            found |= {compact(each), compact(_TAGS.sub("", each))}
        found.add("::".join(part.name for part in spelled.path).replace("{anonymous}", "(anonymous namespace)"))
    return frozenset(found - {""})


def compact(name: str) -> str:
    """The name with spaces only where two words meet."""
    return _SPACES.sub("", name.strip())


def words_in(name: str) -> tuple[set[str] | None, int]:
    """(identifiers and numbers that are in a name as compilers write it, all of them and some others; characters that
    were read for that). None where they would be very many."""
    found, characters = set(_IDENTIFIER.findall(name)), len(name)
    if name.startswith(("_Q", "__")):
        found.update(re.findall(r"[a-z0-9_]+", name), re.split("_MOD_|^__", name))
    for digits in _NUMBER.finditer(name) if _MANGLED.search(name) else ():
        found.add(digits[0])
        for at in range(
            max(digits.end() - _MAX_LENGTH_DIGITS, digits.start()), digits.end()
        ):  # "a13bcd" may be "a1" and 3 characters
            size = int(name[at : digits.end()])
            part = name[digits.end() : digits.end() + size]
            found.update(_IDENTIFIER.findall(part))
            if part.startswith("_"):  # Rust sets a name apart that begins like a number
                found.update(_IDENTIFIER.findall(name[digits.end() + 1 : digits.end() + 1 + size]))
            characters += len(part)
            if characters > _MAX_READ:
                return None, characters
    return found, characters


_OWN_WORDS = frozenset(_IDENTIFIER.findall(" ".join(WORDS))) | _LEFT_OUT | _CV | rust_names.WORDS


def stands_in_no_name(word: str, *, partly: bool = False) -> bool:
    """Whether readable names have the word, ``partly`` or a part of one, where mangled ones have letters that stand for
    it."""
    if partly and any(word in own for own in _OWN_WORDS):
        return True
    return word in _OWN_WORDS or _TEMPLATE_PARAMETER.fullmatch(word) is not None


def taken_apart(text: str) -> Spelled:
    """A readable name, or the whole text as one component."""
    try:
        return _Reader(text).whole()
    except (_NoName, RecursionError):
        whole = compact(text)
        return Spelled(text, "", (Component(whole),), None, (), slice(0, len(text)), frozenset(_needed(whole)))


def _needed(text: str) -> Iterator[str]:
    """Words of a part of a name that are in every way to write it."""
    return (word for word in _IDENTIFIER.findall(text) if not word[0].isdecimal() and not stands_in_no_name(word))


class _NoName(Exception):
    """A text that is no name of C++."""


class _Piece(NamedTuple):
    """A name, ``<`` the arguments of one, ``(`` a list in brackets, ``::`` or another mark; from ``start`` to ``end``
    of the text."""

    kind: str
    text: str
    start: int
    end: int


class _Pieces(list[_Piece]):
    """``chain`` is where the last name begins, with all that "::" joins to it."""

    chain = 0

    def note_name(self) -> None:
        """Note the name that is read; called when something was added."""
        if _begins_name(self, len(self) - 1):
            self.chain = len(self) - 1


class _Reader:
    """Takes a name apart. ``_at`` moves over ``_tokens``, which are (kind, text, start, end)."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int, int]] = []
        self._tags: list[str] = []
        self._needs: set[str] = set()
        self._at = self._depth = 0
        self._read_tokens(_CLONES.sub("", text))

    def _read_tokens(self, text: str) -> None:
        abbreviated = {found.start(): found for found in _ABBREVIATED.finditer(text)} if "std::basic_" in text else {}
        at = 0
        while at < len(text):
            if (found := abbreviated.get(at)) is not None:
                self._tokens += [
                    ("word", "std", at, at + 3),
                    ("mark", "::", at, at),
                    ("word", found[1], at, found.end()),
                ]
                at = found.end()
                continue
            token = _TOKEN.match(text, at)
            assert token is not None  # noqa: S101 - the last alternative is any character
            at, kind = token.end(), token.lastgroup
            if kind == "tag":
                self._tags += token["tag"].split(",")
            elif kind in ("count", "closure"):
                number = token["count"]
                self._tokens.append((token["closure"], str(int(number) + 2 if number else 1), token.start(), at))
            elif kind is not None and token[0] not in _LEFT_OUT:
                self._tokens.append((kind, token[0], token.start(), at))

    def whole(self) -> Spelled:
        pieces = self._item("")
        if self._at < len(self._tokens):
            raise _NoName
        end = len(pieces)
        while end and (pieces[end - 1].text in _CV or pieces[end - 1].text == "&"):
            end -= 1
        has_parameters = end > 1 and pieces[end - 1].kind == "("
        parameters = pieces[end - 1].text + _joined(pieces[end:]) if has_parameters else None
        head = pieces[: end - 1] if has_parameters else pieces
        start = _chain(head)
        path = tuple(_parts(head[start:]))
        if not path or not path[-1].name:
            raise _NoName
        where = slice(head[start].start, head[-1].end)
        tags = tuple(self._tags)
        return Spelled(self._text, _joined(head[:start]), path, parameters, tags, where, frozenset(self._needs))

    def _list(self, closing: str, *, address: bool = False) -> str:
        """Up to and over a closing bracket; parts that are empty are left out."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _NoName
        items = []
        while True:
            pieces = self._item(closing)
            if address or (pieces and pieces[0].text == "&"):
                pieces = _addressed(pieces)
            if pieces:
                items.append(_joined(pieces))
            if self._at == len(self._tokens):
                raise _NoName
            self._at += 1
            if self._tokens[self._at - 1][1] == closing:
                break
        self._depth -= 1
        text = ",".join(items)
        return "" if text == "void" and closing == ")" else text

    def _item(self, closing: str) -> list[_Piece]:
        """What is before the next comma or the closing bracket."""
        pieces = _Pieces()
        leading: list[_Piece] = []
        tokens = self._tokens
        while self._at < len(tokens):
            kind, text, start, end = tokens[self._at]
            if kind == "mark" and (text == closing or (text == "," and closing)):
                break
            self._at += 1
            if kind == "word" and text in _CV and not pieces:
                leading.append(_Piece("name", text, start, end))
            elif kind == "number":
                self._number(pieces, text, start, end)
            elif kind in ("word", "operator", "anonymous", "null"):
                pieces.append(self._word(kind, text, start, end))
            elif kind in ("lambda", "unnamed", "opened"):
                pieces.append(self._closure(kind, text, start))
            else:
                self._mark(pieces, leading, text, start, end)
            pieces.note_name()
            if leading and pieces and pieces[-1].kind in ("*", "("):
                pieces[-1:-1] = leading
                leading = []
        return pieces + leading

    def _word(self, kind: str, text: str, start: int, end: int) -> _Piece:
        if kind == "operator":
            text = re.sub(r" +(?!new|delete|co_)|(?<=new) |(?<=delete) ", "", text)
        elif kind != "word":
            text = "0" if kind == "null" else f"{{{kind}}}"
        elif _LAMBDAS_PARAMETER.fullmatch(text):
            text = "auto"
        elif text == "operator":
            return self._conversion(start)
        elif text == "vector" and self._at < len(self._tokens) and self._tokens[self._at][1] == "[":
            text = "__vector"
        else:
            self._needs.update(_needed(text))
            text = _VALUES.get(text, text)
        return _Piece("name", text, start, end)

    def _mark(self, pieces: _Pieces, leading: list[_Piece], text: str, start: int, end: int) -> None:
        if text == "::":
            if _ends_function(pieces):
                del pieces[: pieces.chain]
                pieces.chain = 0
                leading.clear()
            if pieces and pieces[-1].kind not in ("*", "::"):
                pieces.append(_Piece("::", text, start, end))
        elif text == "<":
            self._arguments(pieces, start)
        elif text == "(":
            address = bool(pieces) and pieces[-1].text == "&" and (len(pieces) == 1 or pieces[-2].kind == "*")
            inner = self._list(")", address=address)
            pieces.append(_Piece("(", inner, start, self._tokens[self._at - 1][3]))
        elif text in "[{":
            inner = self._list(_CLOSING[text])
            kind = "*" if text == "[" else "name"
            is_vector = text == "[" and pieces and pieces[-1].text == "__vector"
            written = inner if is_vector else f"{text}{inner}{_CLOSING[text]}"
            pieces.append(_Piece(kind, written, start, self._tokens[self._at - 1][3]))
        else:
            pieces.append(_Piece("*", text, start, end))

    def _arguments(self, pieces: list[_Piece], start: int) -> None:
        """The arguments of a template; or in Rust a type and what it is seen as, which a name begins with."""
        if len(pieces) > 1 and pieces[-1].kind == "::":
            pieces.pop()  # Rust: twice::<f32>
        if pieces and pieces[-1].kind == "*" and self._depth:  # a comparison
            pieces.append(_Piece("*", "<", start, start + 1))
            return
        inner = self._list(">")
        end = self._tokens[self._at - 1][3]
        is_name = not pieces or pieces[-1].kind != "name"
        pieces.append(_Piece("name", f"<{inner}>", start, end) if is_name else _Piece("<", inner, start, end))

    def _number(self, pieces: list[_Piece], text: str, start: int, end: int) -> None:
        """A literal, with its type in front of it or behind it."""
        sign = bool(pieces) and pieces[-1].text == "-"
        last = len(pieces) - sign - 1
        if last >= 0 and pieces[last].kind == "(" and (not last or pieces[last - 1].kind == "*"):
            del pieces[last]
        elif (
            last >= 0 and pieces[last].text == "=" and all(pieces[at].kind in ("name", "::", "<") for at in range(last))
        ):
            del pieces[: last + 1]
        if literal := _LITERAL.fullmatch(text):
            text = literal[1]
            if len(text) > 1:
                self._needs.add(text)
        pieces.append(_Piece("name", text, start, end))

    def _conversion(self, start: int) -> _Piece:
        """The name of a conversion, ``operator float*``."""
        first = self._at
        while self._at < len(self._tokens) and self._tokens[self._at][1] != "(":
            self._at += 1
        end = self._tokens[self._at - 1][3]
        words = [text for _, text, _, _ in self._tokens[first : self._at]]
        return _Piece("name", f"operator {''.join(words)}", start, end)

    def _closure(self, kind: str, text: str, start: int) -> _Piece:
        """A lambda or an unnamed type: ``{lambda(int)#1}``, ``'lambda'(int)``, ``[lambda(int) (instance 1)]``."""
        count = text
        if kind == "opened":
            kind = self._next()
            if kind == "unnamed":
                self._next()
        parameters = ""
        for opening, closing in (("<", ">"), ("(", ")")) if kind == "lambda" else ():
            if self._at < len(self._tokens) and self._tokens[self._at][1] == opening:
                self._at += 1
                parameters = self._list(closing)
        if text in "[{":
            while not (count := self._next()).isdecimal():
                pass
            while self._next() != {"[": "]", "{": "}"}[text]:
                pass
        return _Piece("name", f"{{{kind}({parameters})#{count}}}", start, self._tokens[self._at - 1][3])

    def _next(self) -> str:
        if self._at == len(self._tokens):
            raise _NoName
        self._at += 1
        return self._tokens[self._at - 1][1]


def _chain(pieces: list[_Piece]) -> int:
    """Where the last name begins, with all that "::" joins to it."""
    for at in range(len(pieces) - 1, -1, -1):
        if _begins_name(pieces, at):
            return at
    return 0


def _begins_name(pieces: Sequence[_Piece], at: int) -> bool:
    return (
        at >= 0 and pieces[at].kind == "name" and pieces[at].text not in _CV and (not at or pieces[at - 1].kind != "::")
    )


def _ends_function(pieces: list[_Piece]) -> bool:
    """Whether pieces are a function with its parameters, of which something local follows."""
    end = len(pieces)
    while end and (pieces[end - 1].text in _CV or pieces[end - 1].text == "&"):
        end -= 1
    return end > 1 and pieces[end - 1].kind == "(" and pieces[end - 2].kind in ("name", "<")


def _addressed(pieces: list[_Piece]) -> list[_Piece]:
    """A function whose address is meant: tools differ on whether its parameters and its result belong to that."""
    marks = next((at for at, piece in enumerate(pieces) if piece.text != "&"), len(pieces))
    if marks:
        return pieces[:marks] + (_addressed(pieces[marks:]) if pieces[marks:] else [])
    while len(pieces) > 1 and (pieces[-1].text in _CV or (pieces[-1].kind == "(" and pieces[-2].kind in ("name", "<"))):
        pieces = pieces[:-1]
    return pieces[_chain(pieces) :]


def _joined(pieces: list[_Piece]) -> str:
    text, before = "", ""
    for piece in pieces:
        inner = f"<{piece.text}>" if piece.kind == "<" else piece.text
        text += f" {inner}" if piece.kind == "name" == before else inner
        before = piece.kind
    return text


def _parts(pieces: list[_Piece]) -> Iterator[Component]:
    name, arguments, around = "", None, ""
    for piece in pieces:
        if piece.kind == "::":
            yield Component(name, arguments, around)
            name, arguments, around = "", None, ""
        elif piece.kind == "<" and arguments is None:
            arguments = piece.text
        elif piece.kind == "(":
            around += f"({piece.text})"
        elif piece.text not in _CV or not around:
            name += piece.text
    yield Component(name, arguments, around)
