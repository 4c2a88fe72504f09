"""A type's C spelling, as llvm-dwarfdump prints it behind DW_AT_type: a name with its scopes, qualifiers where they are
written, declarators around what they apply to. What LLVM abbreviates ("structure ", "restrict ") is abbreviated alike."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from symd.debuginfo.variables.dies import CONST_VALUE, LANGUAGE, NAME, TYPE, Die, Dies

ARRAY, CLASS, ENUMERATION, POINTER, REFERENCE = 0x01, 0x02, 0x04, 0x0F, 0x10
STRUCTURE, SUBROUTINE, TYPEDEF, UNION, SUBRANGE = 0x13, 0x15, 0x16, 0x17, 0x21
MEMBER_POINTER, CONST, VOLATILE, NAMESPACE, UNSPECIFIED = 0x1F, 0x26, 0x35, 0x39, 0x3B
RVALUE_REFERENCE, RESTRICT, ATOMIC, BASE = 0x42, 0x37, 0x47, 0x24
TAG_WORDS = {
    STRUCTURE: "structure", CLASS: "class", UNION: "union", ENUMERATION: "enumeration", RESTRICT: "restrict",
    ATOMIC: "atomic", TYPEDEF: "typedef", BASE: "base", 0x12: "string", 0x20: "set", 0x2D: "packed", 0x29: "file",
    0x38: "interface", 0x40: "shared", 0x46: "coarray", 0x4B: "immutable", 0x44: "dynamic", SUBRANGE: "subrange",
}  # fmt: skip
_SCOPED = frozenset({STRUCTURE, CLASS, UNION, NAMESPACE, ENUMERATION, TYPEDEF})
_SCOPE_ENDS = frozenset({0x11, 0x3C, 0x4A, 0x41, 0x2E, 0x0B})  # units, functions, blocks
_POINTERS = {POINTER: "*", REFERENCE: "&", RVALUE_REFERENCE: "&&"}
_FORMAL_PARAMETER, _UNSPECIFIED_PARAMETERS = 0x05, 0x18
_ARTIFICIAL, _CONTAINING_TYPE, _LVALUE_QUALIFIED, _RVALUE_QUALIFIED = 0x34, 0x1D, 0x77, 0x78
_TYPE_ARGUMENT, _VALUE_ARGUMENT, _ARGUMENT_PACK = 0x2F, 0x30, 0x4107
_TEMPLATES = frozenset({STRUCTURE, CLASS, UNION})
_PACK_DEPTH = 4
_SUFFIXES = {
    "int": "", "long": "L", "long long": "LL", "unsigned int": "U", "unsigned long": "UL", "unsigned long long": "ULL",
}  # fmt: skip
_LOWER_BOUND, _UPPER_BOUND, _COUNT = 0x22, 0x2F, 0x37
_FROM_ONE = frozenset({0x03, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0D, 0x0E, 0x0F, 0x17, 0x18, 0x1F, 0x22, 0x23})
"""Languages whose arrays begin at 1 (DWARF 5, 7.12): Ada, Cobol, Fortran, Pascal, Modula, PL/I, Julia."""
_KNOWN_LANGUAGES = 0x37
DEEPEST = 64
LONGEST = 4096
LONGEST_ALTOGETHER = 1 << 20
_MOST_PARAMETERS = 256


class TypeNames:
    """Spells types; a name is made once. Types nested deeper than DEEPEST, and names longer than LONGEST, end in "...";
    so does every name once all together are longer than LONGEST_ALTOGETHER."""

    def __init__(self, dies: Dies) -> None:
        self._dies = dies
        self._known: dict[int | None, str] = {}
        self._length = 0

    def of(self, die: Die | None) -> str:
        """The spelling of a type; of no type it is "void"."""
        key = None if die is None else die.at
        if key not in self._known:
            text = _Speller(self._dies).spell(die) if self._length < LONGEST_ALTOGETHER else "..."
            self._known[key] = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
            self._length += len(text)
        return self._known[key]


class _Speller:
    """Writes one name from left to right; ``word`` is whether what was written last needs a space before a ``*``."""

    def __init__(self, dies: Dies) -> None:
        self.dies = dies
        self.parts: list[str] = []
        self.length = 0
        self.last = ""
        self.word = False

    def spell(self, die: Die | None) -> str:
        self.whole(die, 0)
        return "".join(self.parts)

    def put(self, text: str) -> None:
        self.last = text or self.last
        if self.length <= LONGEST:
            self.parts.append(text)
            self.length += len(text)

    def inner(self, die: Die) -> Die | None:
        """The type that this one is made from."""
        value = die.attributes.get(TYPE)
        return None if value is None else self.dies.target(die, value)

    def whole(self, die: Die | None, depth: int) -> None:
        self.before(die, depth)
        self.after(die, depth)

    def before(self, die: Die | None, depth: int) -> None:
        """What stands left of the name that would be declared."""
        if depth > DEEPEST or self.length > LONGEST:
            self.put("...")
        elif die is None:
            self.put("void")
            self.word = True
        elif die.tag in _POINTERS:
            self.pointer_before(self.inner(die), _POINTERS[die.tag], depth)
        elif die.tag == MEMBER_POINTER:
            self.member_pointer_before(die, depth)
        elif die.tag == SUBROUTINE:
            self.before(self.inner(die), depth + 1)
            if self.word:
                self.put(" ")
            self.word = False
        elif die.tag == ARRAY:
            self.before(self.inner(die), depth + 1)
        elif die.tag in (CONST, VOLATILE):
            self.qualified_before(die, depth)
        else:
            self.named(die, depth)

    def pointer_before(self, inner: Die | None, sign: str, depth: int) -> None:
        self.before(inner, depth + 1)
        if self.word:
            self.put(" ")
        if self.in_parentheses(inner):
            self.put("(")
        self.put(sign)
        self.word = False

    def member_pointer_before(self, die: Die, depth: int) -> None:
        inner = self.inner(die)
        self.before(inner, depth + 1)
        if self.in_parentheses(inner):
            self.put("(")
        elif self.word:
            self.put(" ")
        holder = self.dies.reference(die, _CONTAINING_TYPE)
        if holder is not None:
            self.whole(holder, depth + 1)
            self.put("::")
        self.put("*")
        self.word = False

    def qualified_before(self, die: Die, depth: int) -> None:
        const, volatile, inner = self.unqualified(die)
        element = inner
        for _ in range(DEEPEST):
            if element is None or element.tag != ARRAY:
                break
            element = self.inner(element)
        function = inner is not None and inner.tag == SUBROUTINE
        leading = not function and (element is None or element.tag not in (POINTER, MEMBER_POINTER))
        words = " ".join(word for word, wanted in (("const", const), ("volatile", volatile)) if wanted)
        if leading:
            self.put(f"{words} ")
        self.before(inner, depth + 1)
        if not leading and not function:
            self.word = True
            self.put(words)

    def unqualified(self, die: Die) -> tuple[bool, bool, Die | None]:
        """(const, volatile, the type below both)."""
        const = volatile = False
        at: Die | None = die
        for _ in range(DEEPEST):
            if at is None or at.tag not in (CONST, VOLATILE):
                break
            const |= at.tag == CONST
            volatile |= at.tag == VOLATILE
            at = self.inner(at)
        return const, volatile, at

    def in_parentheses(self, inner: Die | None) -> bool:
        """Whether a pointer to it binds looser than what stands behind the name."""
        if inner is not None and inner.tag in (CONST, VOLATILE):
            inner = self.unqualified(inner)[2]
        return inner is not None and inner.tag in (SUBROUTINE, ARRAY)

    def named(self, die: Die, depth: int) -> None:
        if die.tag in _SCOPED:
            self.scopes(die, depth)
        self.own(die, depth)

    def scopes(self, die: Die, depth: int) -> None:
        outer = []
        for around in self.dies.ancestors(die, DEEPEST):
            if around.tag in _SCOPE_ENDS:
                break
            outer.append(around)
        for around in reversed(outer):
            self.own(around, depth + 1)
            self.put("::")

    def own(self, die: Die, depth: int) -> None:
        name = self.dies.own_name(die)
        if die.tag == NAMESPACE:
            self.put(name or "(anonymous namespace)")
        elif die.tag == UNSPECIFIED and name == "decltype(nullptr)":
            self.put("std::nullptr_t")
        elif NAME not in die.attributes:
            self.put(f"{TAG_WORDS.get(die.tag, f'tag {die.tag:#x}')} ")
        else:
            self.put(name)
            if die.tag in _TEMPLATES and not name.endswith(">"):
                self.template(die, depth)
        self.word = True

    def template(self, die: Die, depth: int) -> None:
        """The arguments of a template whose name leaves them out."""
        arguments = list(self.arguments(die, 0))
        for number, argument in enumerate(arguments):
            self.put(", " if number else "<")
            inner = self.inner(argument)
            if argument.tag == _TYPE_ARGUMENT:
                self.whole(inner, depth + 1)
            else:
                self.value(argument, inner, depth)
        if arguments:
            self.put(" >" if self.last.endswith(">") else ">")

    def arguments(self, die: Die, depth: int) -> Iterator[Die]:
        for child in islice(self.dies.children(die), _MOST_PARAMETERS):
            if child.tag in (_TYPE_ARGUMENT, _VALUE_ARGUMENT):
                yield child
            elif child.tag == _ARGUMENT_PACK and depth < _PACK_DEPTH:
                yield from self.arguments(child, depth + 1)

    def value(self, argument: Die, inner: Die | None, depth: int) -> None:
        """A constant as it would be written: 3, 3U, 'x', true, (short)3."""
        constant = argument.attributes.get(CONST_VALUE)
        number = constant.number if constant is not None and constant.is_constant else 0
        name = self.dies.own_name(inner) if inner is not None else ""
        if inner is not None and inner.tag == ENUMERATION:
            self.put("(")
            self.whole(inner, depth + 1)
            self.put(f"){number}")
        elif name == "bool":
            self.put("true" if number else "false")
        elif name == "char" and chr(number & 0xFF).isprintable():
            self.put(repr(chr(number & 0xFF)))
        elif name in _SUFFIXES:
            self.put(f"{number}{_SUFFIXES[name]}")
        else:
            self.put(f"({name}){number}" if name else str(number))

    def after(self, die: Die | None, depth: int, *, of_member: bool = False) -> None:
        """What stands right of the name that would be declared."""
        if die is None or depth > DEEPEST or self.length > LONGEST:
            return
        inner = self.inner(die)
        if die.tag == SUBROUTINE:
            self.parameters(die, depth, skip_this=of_member)
        elif die.tag == ARRAY:
            self.dimensions(die)
        elif die.tag in (CONST, VOLATILE):
            const, volatile, below = self.unqualified(die)
            if below is not None and below.tag == SUBROUTINE:
                self.parameters(below, depth, const=const, volatile=volatile)
            else:
                self.after(below, depth + 1)
        elif die.tag in _POINTERS or die.tag == MEMBER_POINTER:
            if self.in_parentheses(inner):
                self.put(")")
            self.after(inner, depth + 1, of_member=die.tag == MEMBER_POINTER)

    def parameters(
        self, die: Die, depth: int, *, skip_this: bool = False, const: bool = False, volatile: bool = False
    ) -> None:
        this: Die | None = None
        listed: list[Die] = []
        for child in self.dies.children(die):
            if child.tag not in (_FORMAL_PARAMETER, _UNSPECIFIED_PARAMETERS) or len(listed) >= _MOST_PARAMETERS:
                break
            if skip_this and not listed and this is None and _ARTIFICIAL in child.attributes:
                this = self.inner(child)
            else:
                listed.append(child)
        self.put("(")
        for number, child in enumerate(listed):
            self.put(", " if number else "")
            if child.tag == _UNSPECIFIED_PARAMETERS:
                self.put("...")
            else:
                self.whole(self.inner(child), depth + 1)
        self.put(")")
        if this is not None and this.tag == POINTER:
            pointee = self.inner(this)
            const, volatile, _ = self.unqualified(pointee) if pointee is not None else (False, False, None)
        ends = (
            ("const", const),
            ("volatile", volatile),
            ("&", _LVALUE_QUALIFIED in die.attributes),
            ("&&", _RVALUE_QUALIFIED in die.attributes),
        )
        self.put("".join(f" {word}" for word, wanted in ends if wanted))
        self.after(self.inner(die), depth + 1)

    def dimensions(self, die: Die) -> None:
        first = default_lower_bound(self.dies, die)
        for child in islice(self.dies.children(die), _MOST_PARAMETERS):
            if child.tag == SUBRANGE:
                self.put(_dimension(child, first))


def default_lower_bound(dies: Dies, die: Die) -> int | None:
    """The first index of arrays in the unit's language; None where the language is not known."""
    top = dies.top(die.unit)
    language = top.attributes.get(LANGUAGE) if top is not None else None
    if language is None or not 0 < language.number <= _KNOWN_LANGUAGES:
        return None
    return 1 if language.number in _FROM_ONE else 0


def bounds(subrange: Die, first: int | None) -> tuple[int | None, int | None]:
    """(lower bound or None for the language's own, element count or None) of an array's dimension."""

    def number(attribute: int) -> int | None:
        value = subrange.attributes.get(attribute)
        return value.number if value is not None and value.is_constant else None

    lower, upper, count = number(_LOWER_BOUND), number(_UPPER_BOUND), number(_COUNT)
    start = lower if lower is not None else first
    if count is None and upper is not None and start is not None:
        count = upper - start + 1
    return (None if lower == first else lower), count


def _dimension(subrange: Die, first: int | None) -> str:
    lower, count = bounds(subrange, first)
    if lower is None and (count is None or first is not None):
        return "[]" if count is None else f"[{count}]"
    start = "?" if lower is None else str(lower)
    end = "?" if lower is None or count is None else str(lower + count)
    return f"[[{start}, {end})]"
