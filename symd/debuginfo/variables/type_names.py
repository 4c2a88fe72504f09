"""A type's C spelling, as llvm-dwarfdump prints it after DW_AT_type: a name with its scopes, qualifiers where they are
written, declarators around what they apply to. A type without a name is abbreviated alike ("structure ").

Where LLVM drops a part of the type, it is written: restrict and _Atomic, Fortran's characters, pointers with a name of
their own, such as Rust's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile

from symd.debuginfo.dwarf import At, Tag
from symd.debuginfo.dwarf.variable_constants import NAMED_LANGUAGES, Lang
from symd.debuginfo.variables import Die, DieReader

TAG_WORDS: Mapping[int, str] = {
    Tag.DW_TAG_structure_type: "structure", Tag.DW_TAG_class_type: "class", Tag.DW_TAG_union_type: "union",
    Tag.DW_TAG_enumeration_type: "enumeration", Tag.DW_TAG_typedef: "typedef", Tag.DW_TAG_base_type: "base",
    Tag.DW_TAG_set_type: "set", Tag.DW_TAG_packed_type: "packed", Tag.DW_TAG_file_type: "file",
    Tag.DW_TAG_interface_type: "interface", Tag.DW_TAG_shared_type: "shared", Tag.DW_TAG_dynamic_type: "dynamic",
    Tag.DW_TAG_immutable_type: "immutable", Tag.DW_TAG_coarray_type: "coarray", Tag.DW_TAG_subrange_type: "subrange",
}  # fmt: skip
"""What LLVM prints for a type without a name."""
_SCOPED = frozenset(
    {
        Tag.DW_TAG_structure_type,
        Tag.DW_TAG_class_type,
        Tag.DW_TAG_union_type,
        Tag.DW_TAG_namespace,
        Tag.DW_TAG_enumeration_type,
        Tag.DW_TAG_typedef,
    }
)
_SCOPE_ENDS = frozenset(
    {
        Tag.DW_TAG_compile_unit,
        Tag.DW_TAG_partial_unit,
        Tag.DW_TAG_skeleton_unit,
        Tag.DW_TAG_type_unit,
        Tag.DW_TAG_subprogram,
        Tag.DW_TAG_lexical_block,
    }
)
"""Units, functions and blocks: no part of a type's name."""
_POINTERS: Mapping[int, str] = {
    Tag.DW_TAG_pointer_type: "*",
    Tag.DW_TAG_reference_type: "&",
    Tag.DW_TAG_rvalue_reference_type: "&&",
}
_TEMPLATES = frozenset({Tag.DW_TAG_structure_type, Tag.DW_TAG_class_type, Tag.DW_TAG_union_type})
_QUALIFIERS: Mapping[int, str] = {
    Tag.DW_TAG_const_type: "const", Tag.DW_TAG_volatile_type: "volatile", Tag.DW_TAG_restrict_type: "restrict",
}  # fmt: skip
_PARAMETERS = (Tag.DW_TAG_formal_parameter, Tag.DW_TAG_unspecified_parameters)
_PACK_DEPTH = 4
_SUFFIXES = {
    "int": "", "long": "L", "long long": "LL", "unsigned int": "U", "unsigned long": "UL", "unsigned long long": "ULL",
}  # fmt: skip
_FROM_ONE = frozenset(Lang)
MAX_DEPTH = 64
"""Types inside types that one name spells out."""
MAX_NAME_LENGTH = 4096
"""Characters of one name."""
MAX_TOTAL_LENGTH = 1 << 20
"""Characters of all names of one answer."""
_MAX_PARAMETERS = 256


class TypeNames:
    """Spells types; a name is made once. Types nested deeper than MAX_DEPTH, and names longer than MAX_NAME_LENGTH, end
    in "..."; so does every name once all together are longer than MAX_TOTAL_LENGTH."""

    def __init__(self, dies: DieReader) -> None:
        self._dies = dies
        self._known: dict[int | None, str] = {}
        self._length = 0

    def of(self, die: Die | None) -> str:
        """The spelling of a type; of no type it is "void"."""
        key = None if die is None else die.at
        if key not in self._known:
            text = _Speller(self._dies).spell(die) if self._length < MAX_TOTAL_LENGTH else "..."
            self._known[key] = text if len(text) <= MAX_NAME_LENGTH else f"{text[:MAX_NAME_LENGTH]}..."
            self._length += len(text)
        return self._known[key]


class _Speller:
    """Writes one name from left to right; ``word`` is whether what was written last needs a space before a ``*``."""

    def __init__(self, dies: DieReader) -> None:
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
        if self.length <= MAX_NAME_LENGTH:
            self.parts.append(text)
            self.length += len(text)

    def inner(self, die: Die) -> Die | None:
        """The type that this one is made from."""
        value = die.attributes.get(At.DW_AT_type)
        return None if value is None else self.dies.target(die, value)

    def whole(self, die: Die | None, depth: int) -> None:
        self.before(die, depth)
        self.after(die, depth)

    def before(self, die: Die | None, depth: int) -> None:
        """What stands left of the name that would be declared."""
        if depth > MAX_DEPTH or self.length > MAX_NAME_LENGTH:
            self.put("...")
        elif die is None:
            self.put("void")
            self.word = True
        elif die.tag in _POINTERS and not self.is_named_pointer(die):
            self.pointer_before(self.inner(die), _POINTERS[die.tag], depth)
        elif die.tag == Tag.DW_TAG_ptr_to_member_type:
            self.member_pointer_before(die, depth)
        elif die.tag == Tag.DW_TAG_subroutine_type:
            self.before(self.inner(die), depth + 1)
            if self.word:
                self.put(" ")
            self.word = False
        elif die.tag == Tag.DW_TAG_array_type:
            self.before(self.inner(die), depth + 1)
        elif die.tag in _QUALIFIERS:
            self.qualified_before(die, depth)
        else:
            self.named(die, depth)

    def is_named_pointer(self, die: Die) -> bool:
        """Whether the language has a name for the pointer itself."""
        return die.tag in _POINTERS and bool(self.dies.own_name(die))

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
        holder = self.dies.reference(die, At.DW_AT_containing_type)
        if holder is not None:
            self.whole(holder, depth + 1)
            self.put("::")
        self.put("*")
        self.word = False

    def qualified_before(self, die: Die, depth: int) -> None:
        qualifiers, inner = self.unqualified(die)
        element = inner
        for _ in range(MAX_DEPTH):
            if element is None or element.tag != Tag.DW_TAG_array_type:
                break
            element = self.inner(element)
        function = inner is not None and inner.tag == Tag.DW_TAG_subroutine_type
        trailing = (Tag.DW_TAG_pointer_type, Tag.DW_TAG_ptr_to_member_type)
        named = element is not None and self.is_named_pointer(element)
        leading = not function and (element is None or named or element.tag not in trailing)
        if element is not None and element.tag in _POINTERS:
            leading = (
                leading and Tag.DW_TAG_restrict_type not in qualifiers
            )  # a dummy argument of Fortran is a reference
        words = " ".join(word for tag, word in _QUALIFIERS.items() if tag in qualifiers)
        if leading:
            self.put(f"{words} ")
        self.before(inner, depth + 1)
        if not leading and not function:
            self.word = True
            self.put(words)

    def unqualified(self, die: Die) -> tuple[set[int], Die | None]:
        """(the tags of its qualifiers, the type below them)."""
        qualifiers: set[int] = set()
        at: Die | None = die
        for _ in range(MAX_DEPTH):
            if at is None or at.tag not in _QUALIFIERS:
                break
            qualifiers.add(at.tag)
            at = self.inner(at)
        return qualifiers, at

    def in_parentheses(self, inner: Die | None) -> bool:
        """Whether a pointer to it binds looser than what is after the name."""
        if inner is not None and inner.tag in _QUALIFIERS:
            inner = self.unqualified(inner)[1]
        return inner is not None and inner.tag in (Tag.DW_TAG_subroutine_type, Tag.DW_TAG_array_type)

    def named(self, die: Die, depth: int) -> None:
        if die.tag in _SCOPED:
            self.scopes(die, depth)
        if die.tag == Tag.DW_TAG_atomic_type:
            self.put("_Atomic(")
            self.whole(self.inner(die), depth + 1)
            self.put(")")
            self.word = True
            return
        self.own(die, depth)

    def scopes(self, die: Die, depth: int) -> None:
        outer = []
        for around in self.dies.ancestors(die, MAX_DEPTH):
            if around.tag in _SCOPE_ENDS:
                break
            outer.append(around)
        for around in reversed(outer):
            self.own(around, depth + 1)
            self.put("::")

    def own(self, die: Die, depth: int) -> None:
        name = self.dies.own_name(die)
        if die.tag == Tag.DW_TAG_namespace:
            self.put(name or "(anonymous namespace)")
        elif die.tag == Tag.DW_TAG_unspecified_type and name == "decltype(nullptr)":
            self.put("std::nullptr_t")
        elif die.tag == Tag.DW_TAG_string_type and At.DW_AT_name not in die.attributes:
            self.put(f"character({_characters(die)})")
        elif At.DW_AT_name not in die.attributes:
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
            if argument.tag == Tag.DW_TAG_template_type_parameter:
                self.whole(inner, depth + 1)
            else:
                self.value(argument, inner, depth)
        if arguments:
            self.put(" >" if self.last.endswith(">") else ">")

    def arguments(self, die: Die, depth: int) -> Iterator[Die]:
        for child in islice(self.dies.children(die), _MAX_PARAMETERS):
            if child.tag in (Tag.DW_TAG_template_type_parameter, Tag.DW_TAG_template_value_parameter):
                yield child
            elif child.tag == Tag.DW_TAG_GNU_template_parameter_pack and depth < _PACK_DEPTH:
                yield from self.arguments(child, depth + 1)

    def value(self, argument: Die, inner: Die | None, depth: int) -> None:
        """A constant as it would be written: 3, 3U, 'x', true, (short)3."""
        constant = argument.attributes.get(At.DW_AT_const_value)
        number = constant.number if constant is not None and constant.is_constant else 0
        name = self.dies.own_name(inner) if inner is not None else ""
        if inner is not None and inner.tag == Tag.DW_TAG_enumeration_type:
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
        if die is None or depth > MAX_DEPTH or self.length > MAX_NAME_LENGTH or self.is_named_pointer(die):
            return
        inner = self.inner(die)
        if die.tag == Tag.DW_TAG_subroutine_type:
            self.parameters(die, depth, skip_this=of_member)
        elif die.tag == Tag.DW_TAG_array_type:
            self.dimensions(die)
        elif die.tag in _QUALIFIERS:
            qualifiers, below = self.unqualified(die)
            if below is not None and below.tag == Tag.DW_TAG_subroutine_type:
                self.parameters(below, depth, qualifiers)
            else:
                self.after(below, depth + 1)
        elif die.tag in _POINTERS or die.tag == Tag.DW_TAG_ptr_to_member_type:
            if self.in_parentheses(inner):
                self.put(")")
            self.after(inner, depth + 1, of_member=die.tag == Tag.DW_TAG_ptr_to_member_type)

    def parameters(self, die: Die, depth: int, qualifiers: Collection[int] = (), *, skip_this: bool = False) -> None:
        """The parameters of a function in parentheses, and what is behind them. With ``skip_this`` the first is
        left out where it is ``this``, which then says what is const."""
        this, listed = self.listed(die, skip_this=skip_this)
        self.put("(")
        for number, child in enumerate(listed):
            self.put(", " if number else "")
            if child.tag == Tag.DW_TAG_unspecified_parameters:
                self.put("...")
            else:
                self.whole(self.inner(child), depth + 1)
        self.put(")")
        if this is not None and this.tag == Tag.DW_TAG_pointer_type:
            pointee = self.inner(this)
            qualifiers = self.unqualified(pointee)[0] if pointee is not None else ()
        ends = (
            ("const", Tag.DW_TAG_const_type in qualifiers),
            ("volatile", Tag.DW_TAG_volatile_type in qualifiers),
            ("&", At.DW_AT_reference in die.attributes),
            ("&&", At.DW_AT_rvalue_reference in die.attributes),
        )
        self.put("".join(f" {word}" for word, wanted in ends if wanted))
        self.after(self.inner(die), depth + 1)

    def listed(self, die: Die, *, skip_this: bool) -> tuple[Die | None, list[Die]]:
        """The type of ``this``, where that is skipped, and the parameters to be written."""
        found = takewhile(lambda child: child.tag in _PARAMETERS, self.dies.children(die))
        parameters = list(islice(found, _MAX_PARAMETERS))
        if skip_this and parameters and At.DW_AT_artificial in parameters[0].attributes:
            return self.inner(parameters[0]), parameters[1:]
        return None, parameters

    def dimensions(self, die: Die) -> None:
        first = default_lower_bound(self.dies, die)
        for child in islice(self.dies.children(die), _MAX_PARAMETERS):
            if child.tag == Tag.DW_TAG_subrange_type:
                self.put(bounds(child).text(first))


def _characters(die: Die) -> str:
    """How many a string of Fortran's has, as it is declared: a number, or * where another variable says it."""
    size = die.attributes.get(At.DW_AT_byte_size)
    fixed = At.DW_AT_string_length not in die.attributes and size is not None and size.is_constant
    return str(size.number) if fixed and size is not None else "*"


def default_lower_bound(dies: DieReader, die: Die) -> int | None:
    """The first index of arrays in the unit's language; None where the language is not known."""
    top = dies.top(die.unit)
    language = top.attributes.get(At.DW_AT_language) if top is not None else None
    if language is None or language.number not in NAMED_LANGUAGES:
        return None
    return 1 if language.number in _FROM_ONE else 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """One dimension of an array: what the DIE states of its first index, last index and element count."""

    lower: int | None
    upper: int | None
    count: int | None

    def elements(self, default_lower: int | None) -> int | None:
        """The element count of the dimension; None where it does not follow from what is stated. ``default_lower``
        is the language's first index."""
        start = default_lower if self.lower is None else self.lower
        if self.count is not None or self.upper is None or start is None:
            return self.count
        return self.upper - start + 1

    def text(self, default_lower: int | None) -> str:
        """``[count]``; ``[[first, end)]`` where it does not begin at the language's own first index."""
        lower = None if self.lower == default_lower else self.lower
        if lower is None and self.upper is None and self.count is None:
            return "[]"
        if lower is None and default_lower is not None:
            return f"[{self.elements(default_lower)}]"
        start = "?" if lower is None else str(lower)
        if self.count is not None:
            end = f"? + {self.count}" if lower is None else str(lower + self.count)
        else:
            end = "?" if self.upper is None else str(self.upper + 1)
        return f"[[{start}, {end})]"


def bounds(subrange: Die) -> Bounds:
    """The bounds of a dimension that are constants."""

    def number(attribute: int) -> int | None:
        """GCC writes an upper bound of -1, that of an empty array, as 64 bits without a sign."""
        value = subrange.attributes.get(attribute)
        if value is None or not value.is_constant:
            return None
        return value.number - (1 << 64) if value.number >> 63 == 1 else value.number

    return Bounds(number(At.DW_AT_lower_bound), number(At.DW_AT_upper_bound), number(At.DW_AT_count))
