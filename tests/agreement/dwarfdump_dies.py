"""The DIE tree as llvm-dwarfdump --debug-info prints it, read back from its text, and what that text says is visible at an
address. Shares nothing with what it checks: text in, names and numbers out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests import tools

_DIE = re.compile(r"^0x([0-9a-f]+):(\s+)(DW_TAG_\w+|NULL)")
_ATTRIBUTE = re.compile(r"^\s+(DW_AT_\w+)\t\((.*)$")
_RANGE = re.compile(r"^\s*(?:DW_LLE\w+.*|\[0x([0-9a-f]+), 0x([0-9a-f]+)\)(?: \"[^\"]*\")?(:.*|\))?)$")
_REFERENCE = re.compile(r"0x([0-9a-f]+)")
SCOPES = ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine", "DW_TAG_lexical_block")
VARIABLES = ("DW_TAG_formal_parameter", "DW_TAG_variable")


@dataclass
class Die:
    offset: int
    tag: str
    parent: Die | None
    attributes: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    children: list[Die] = field(default_factory=list)

    def quoted(self, name: str) -> str | None:
        """The text in quotes of an attribute."""
        found = re.search(r'"(.*)"', self.attributes.get(name, ""), re.DOTALL)
        return found[1] if found else None

    def number(self, name: str) -> int | None:
        found = _REFERENCE.search(self.attributes.get(name, ""))
        return int(found[1], 16) if found else None

    def ranges(self) -> list[tuple[int, int]]:
        """The code ranges; LLVM prints high_pc as an address."""
        if "DW_AT_ranges" in self.lists:
            return [(start, end) for start, end, _ in self.lists["DW_AT_ranges"] if start < end]
        low, high = self.number("DW_AT_low_pc"), self.number("DW_AT_high_pc")
        return [(low, high)] if low is not None and high is not None and low < high else []


class Tree:
    """All DIEs of one object file."""

    def __init__(self, path: Path) -> None:
        text = tools.output(tools.require("llvm-dwarfdump-22", "llvm-dwarfdump"), "--debug-info", path)
        self.dies: dict[int, Die] = {}
        self._read(text.splitlines())

    def _read(self, lines: list[str]) -> None:
        above: list[Die] = []
        die = attribute = None
        for line in lines:
            begin = _DIE.match(line)
            if begin:
                depth = (len(begin[2]) - 1) // 2
                del above[depth:]
                die = attribute = None
                if begin[3] != "NULL":
                    die = Die(int(begin[1], 16), begin[3], above[-1] if above else None)
                    self.dies[die.offset] = die
                    if above:
                        above[-1].children.append(die)
                    above.append(die)
                continue
            said = _ATTRIBUTE.match(line)
            if die is None:
                continue
            if said:
                attribute = said[1]
                die.attributes[attribute] = said[2]
                if said[2].rstrip().endswith(":") or (attribute == "DW_AT_ranges"):
                    die.lists[attribute] = []
                continue
            entry = _RANGE.match(line.rstrip())
            if entry and attribute in die.lists and entry[1]:
                die.lists[attribute].append(
                    (int(entry[1], 16), int(entry[2], 16), (entry[3] or "").rstrip(")").strip())
                )

    def origins(self, die: Die) -> Iterator[Die]:
        """The DIE and those that it completes."""
        at: Die | None = die
        for _ in range(8):
            if at is None:
                return
            yield at
            target = at.number("DW_AT_specification")
            target = at.number("DW_AT_abstract_origin") if target is None else target
            at = None if target is None else self.dies.get(target)

    def name(self, die: Die) -> str:
        return next((one.quoted("DW_AT_name") or "" for one in self.origins(die) if "DW_AT_name" in one.attributes), "")

    def type(self, die: Die) -> str:
        return next(
            (one.quoted("DW_AT_type") or "" for one in self.origins(die) if "DW_AT_type" in one.attributes), "void"
        )

    def linkage_name(self, die: Die) -> str:
        names = ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name", "DW_AT_name")
        return next(found for name in names for one in self.origins(die) if (found := one.quoted(name)) is not None)

    def functions(self) -> list[Die]:
        return [die for die in self.dies.values() if die.tag == "DW_TAG_subprogram" and die.ranges()]


@dataclass(frozen=True)
class Shown:
    """One variable as the text has it; ``live`` are addresses. ``places`` are the expressions with the ranges where each
    holds, and ``frame_base`` that of the function; these two are not compared as they stand."""

    name: str
    type: str
    kind: str
    function: str | None
    inlined: bool
    live: tuple[tuple[int, int], ...]
    places: tuple[tuple[int, int, str], ...] = field(default=(), compare=False)
    frame_base: str = field(default="", compare=False)


def scopes_below(function: Die) -> Iterator[Die]:
    """The function and the scopes in it, in the order of the text."""
    yield function
    for child in function.children:
        if child.tag in SCOPES[1:]:
            yield from scopes_below(child)


def visible(tree: Tree, functions: list[Die], address: int, text: tuple[int, int]) -> list[Shown]:
    """What is in scope at an address, innermost first, given the functions of its section; ``text`` is the section, where
    globals live. Where functions contradict each other the one counts whose range begins last."""
    holding = sorted(
        (start, scope.offset)
        for function in functions
        for scope in scopes_below(function)
        for start, end in scope.ranges()
        if start <= address < end
    )
    scopes = [tree.dies[number] for _, number in reversed(holding)]
    function = next(scope for scope in scopes if scope.tag in SCOPES[:2])
    scope: Die | None = next(scope for scope in scopes if scope is function or function_of(scope) is function)
    found: list[Shown] = []
    mentioned: dict[int, set[object]] = {}
    while scope is not None and scope.tag in SCOPES:
        found += in_scope(tree, scope, mentioned.setdefault(function_of(scope).offset, set()))
        scope = scope.parent if scope.tag != "DW_TAG_subprogram" else None
    found = without_bodies(tree, function, found)
    unit = next(die for die in ancestors(function) if die.tag == "DW_TAG_compile_unit")
    return found + list(global_variables(tree, unit, text))


def function_of(scope: Die) -> Die:
    return next(die for die in (scope, *ancestors(scope)) if die.tag in SCOPES[:2])


def ancestors(die: Die) -> Iterator[Die]:
    at = die.parent
    while at is not None:
        yield at
        at = at.parent


def without_bodies(tree: Tree, function: Die, found: list[Shown]) -> list[Shown]:
    """What stands in the body that clang compiles apart for an OpenCL kernel, and inlines into it, as the kernel's, with each parameter once:
    the first that lives somewhere."""
    chain = [die for die in (function, *ancestors(function)) if die.tag in SCOPES[:2]]
    kernel = next(die for die in chain if die.tag == SCOPES[0])
    inside = chain[chain.index(kernel) - 1] if chain.index(kernel) else None
    if inside is None or tree.linkage_name(inside) != f"__clang_ocl_kern_imp_{tree.name(kernel)}":
        return found
    name = tree.name(kernel)
    told = [replace(one, inlined=False) if one.function == name else one for one in found]
    lives: dict[object, Shown] = {}
    for number, one in enumerate(told):
        key = one.name if one.kind == "parameter" and one.function == name else number
        if key not in lives or (one.live and not lives[key].live):
            lives[key] = one
    return list(lives.values())


def in_scope(tree: Tree, scope: Die, mentioned: set[object]) -> list[Shown]:
    """A scope's own variables, then those of the function that it is a copy of and that neither it nor a scope inside it mentions, by
    reference or by name and line. What has no name, no type and no place is none."""
    function = function_of(scope)
    own = [child for child in scope.children if child.tag in VARIABLES]
    for child in own:
        mentioned |= declared(tree, child)
    origin = tree.dies.get(scope.number("DW_AT_abstract_origin") or -1)
    missing = [
        one
        for one in (origin.children if origin else [])
        if one.tag in VARIABLES and not declared(tree, one) & mentioned
    ]
    return [
        Shown(
            tree.name(die),
            tree.type(die),
            "parameter" if die.tag == VARIABLES[0] else "local",
            tree.name(function) or None,
            function.tag == SCOPES[1],
            live(tree, die, tuple(scope.ranges())),
            places(tree, die, tuple(scope.ranges())),
            expression(around_all(scope).attributes.get("DW_AT_frame_base", "")),
        )
        for die in own + missing
        if any(SAYING & each.attributes.keys() or "DW_AT_location" in each.lists for each in (die, *tree.origins(die)))
    ]


SAYING = {"DW_AT_name", "DW_AT_type", "DW_AT_location", "DW_AT_const_value"}


def declared(tree: Tree, die: Die) -> set[object]:
    """What tells a variable from others of its function."""
    every = (die, *tree.origins(die))
    lines = [line for each in every if (line := each.attributes.get("DW_AT_decl_line"))]
    named: set[object] = {(tree.name(die), lines[0])} if lines and tree.name(die) else set()
    return {each.offset for each in every} | named


def global_variables(tree: Tree, outer: Die, text: tuple[int, int]) -> Iterator[Shown]:
    for die in outer.children:
        if die.tag == "DW_TAG_namespace":
            yield from global_variables(tree, die, text)
        elif die.tag == "DW_TAG_variable" and (
            "DW_AT_declaration" not in die.attributes or "DW_AT_location" in die.attributes
        ):
            yield Shown(
                tree.name(die),
                tree.type(die),
                "global",
                None,
                False,
                live(tree, die, (text,)),
                places(tree, die, (text,)),
            )


def live(tree: Tree, die: Die, scope: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Where it has a location: the ranges of its list; all of its scope when it has one expression or a constant."""
    for one in tree.origins(die):
        if "DW_AT_location" in one.lists:
            entries = one.lists["DW_AT_location"]
            return tuple(
                (start, end) for start, end, expression in entries if start < end and expression not in (":", "")
            )
        if "DW_AT_location" in one.attributes:
            return scope if one.attributes["DW_AT_location"] != ")" else ()
    return scope if any("DW_AT_const_value" in one.attributes for one in tree.origins(die)) else ()


def places(tree: Tree, die: Die, scope: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int, str], ...]:
    """Each expression with the addresses where it holds."""
    for one in tree.origins(die):
        if "DW_AT_location" in one.lists:
            return tuple((start, end, expression(text)) for start, end, text in one.lists["DW_AT_location"])
        if "DW_AT_location" in one.attributes:
            return tuple((start, end, expression(one.attributes["DW_AT_location"])) for start, end in scope)
    return ()


def expression(text: str) -> str:
    """The operations of an attribute or a list's entry, as they are printed."""
    return text.strip().removeprefix(":").removesuffix(")").strip()


def around_all(scope: Die) -> Die:
    """The function into whose code a scope was put."""
    return next(die for die in (scope, *ancestors(scope)) if die.tag == "DW_TAG_subprogram")
