"""Commands for gdb: source lines of GPU code beside a running program. Load it with ``source``; ``symd gdb-script``
prints its path.

    symd frames EXPRESSION...     frames at device or object addresses that the expressions give
    symd variables EXPRESSION     what is in scope there, and where it lives
    symd locate FILE:LINE         places of a source line; addresses on the device with -b

An expression is one of gdb's, about the program that is stopped; or a place as symd writes it, such as vadd+0x1b0.
Whose code it is:

    set symd-module FILE          a module's file, or -m FILE with one command
    -s START SIZE                 a module that lies in the program's memory, both expressions
    -b BASE                       where the module is loaded: it is subtracted (modulo 2**64)
    -o OBJECT                     only the module's code object of this nesting path, as symd info shows it
    -k KERNEL                     BASE is where this kernel begins, for modules whose kernels are loaded apart
    set symd-context CONTEXT      a context of a daemon, which knows what is loaded where (symd contexts, symd run)

Runs in gdb's own Python (3.6 and newer)."""

import os
import re
import shlex
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(os.path.expanduser(__file__))))
from symd_child import Refused, ask, frame_lines, installed_symd, object_address, printable  # noqa: E402 - beside this file

LARGEST_MODULE = 1 << 30
"""Bytes that are read of the program's memory as one module."""
AMBIGUOUS = " (name the code object with -o OBJECT, or the kernel that BASE is of with -k KERNEL)"
PLACE = re.compile(r"(\S+|\(.+\))\+(0[xX][0-9a-fA-F]+|[0-9]+)$")
"""A function or a section, and an offset into it."""


class Text(gdb.Parameter):
    """A setting that is text."""

    def __init__(self, name, value, doc):
        self.set_doc = self.show_doc = self.__doc__ = doc
        super().__init__(name, gdb.COMMAND_DATA, gdb.PARAM_STRING)
        self.value = value

    def get_set_string(self):
        return ""

    def get_show_string(self, value):
        return value or "(none)"


PROGRAM = Text("symd-program", installed_symd(), "How symd is run: its words, as a shell takes them.")
MODULE = Text("symd-module", "", "The file of the GPU module that addresses are about.")
SERVER = Text("symd-server", "", "The daemon to ask: unix:PATH, HOST:PORT or tls:HOST:PORT.")
CONTEXT = Text("symd-context", "", "The context of a daemon that device addresses are about.")


class _Asked:
    """What a command line says: whose code, and which places."""

    def __init__(self, words):
        self.module, self.memory, self.places = MODULE.value or "", None, []
        self.base, self.object, self.kernel = None, None, None
        words = list(words)
        while words:
            word = words.pop(0)
            if word == "-m":
                self.module = _next(words, word)
            elif word == "-b":
                self.base = integer(_next(words, word))
            elif word == "-o":
                self.object = _next(words, word)
            elif word == "-k":
                self.kernel = _next(words, word)
            elif word == "-s":
                self.memory = integer(_next(words, word)), integer(_next(words, word))
            else:
                self.places.append(word)
        if not self.places:
            raise gdb.GdbError("name a place: an expression, or FUNCTION+OFFSET")

    @property
    def in_context(self):
        """Whether the addresses are those of a context."""
        return bool(CONTEXT.value and self.memory is None and not self.module)

    def object_words(self):
        """The words of a command line that say which code object is meant."""
        return [] if self.object is None else ["--object", self.object]

    def queries(self):
        """What is asked, in symd's words."""
        return [place_of(text, self.base or 0, self.kernel) for text in self.places]

    @contextmanager
    def module_words(self):
        """The words of a command line that say whose code it is."""
        words = server_words()
        if self.memory is not None:
            with memory_file(*self.memory) as path:
                yield words + [path]
        elif self.module:
            yield words + [os.path.expanduser(self.module)]
        else:
            raise gdb.GdbError(
                "no GPU module selected; use set symd-module FILE, -m FILE, -s START SIZE, or set symd-context CONTEXT"
            )


def _next(words, option):
    if not words:
        raise gdb.GdbError("%s takes a value" % option)
    return words.pop(0)


def integer(expression):
    """The value of an expression about the program, or a plain number."""
    try:
        return int(gdb.parse_and_eval(expression))
    except gdb.error as error:
        raise gdb.GdbError("%s: %s" % (expression, error)) from error


def server_words():
    """The words of a command line that say which daemon is asked."""
    return ["--server", SERVER.value] if SERVER.value else []


def context_words():
    """The words of a command line that say which context of which daemon is asked."""
    return server_words() + ["--context", CONTEXT.value]


def place_of(text, base, kernel=None):
    """An expression's value without the load base, counted from ``kernel`` where the base is that kernel's; or a place
    that is written as symd writes it."""
    try:
        address = object_address(int(gdb.parse_and_eval(text)), base)
    except (gdb.error, gdb.MemoryError) as error:
        if PLACE.match(text):
            return text
        raise gdb.GdbError("%s: %s" % (text, error)) from error
    return "%s+%s" % (kernel, address) if kernel else address


def section_place(place):
    """A place as an offset into its section, with its kernel and its code object."""
    parts = [place["kernel"], place["object"] if place["object"] != place["kernel"] else ""]
    return "(%s)+%#x%s" % (
        place["section"],
        place["section_offset"],
        "".join(" of %s" % each for each in parts if each),
    )


@contextmanager
def memory_file(start, size):
    """A file with ``size`` bytes of the program's memory from ``start`` on."""
    if not 0 < size <= LARGEST_MODULE:
        raise gdb.GdbError("a module has between 1 and %d bytes" % LARGEST_MODULE)
    try:
        data = gdb.selected_inferior().read_memory(start, size)
    except gdb.MemoryError as error:
        raise gdb.GdbError(str(error)) from error
    with tempfile.NamedTemporaryFile(prefix="symd-", suffix=".module") as file:
        file.write(bytes(data))
        file.flush()
        yield file.name


def symd(*words):
    """What symd answers to this command line."""
    try:
        return ask(shlex.split(PROGRAM.value or "symd"), words, "set symd-program PATH")
    except Refused as refused:
        raise gdb.GdbError(str(refused)) from refused


class Symd(gdb.Command):
    """Source lines of GPU code: symd frames, symd variables, symd locate."""

    def __init__(self):
        super().__init__("symd", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class Frames(gdb.Command):
    """Frames at addresses of GPU code, innermost first.
    symd frames [-m FILE | -s START SIZE] [-b BASE] [-o OBJECT] [-k KERNEL] EXPRESSION...
    EXPRESSION is evaluated by gdb; FUNCTION+OFFSET and (SECTION)+OFFSET are symd's. Quote one with blanks in it."""

    def __init__(self):
        super().__init__("symd frames", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        asked = _Asked(gdb.string_to_argv(argument))
        if asked.in_context:
            answers = symd("symbolize", "--json", *context_words(), *asked.queries())
        else:
            with asked.module_words() as module:
                answers = symd("symbolize", "--json", *asked.object_words(), *module, *asked.queries())
        for answer in answers:
            for line in frame_lines(answer, {"AMBIGUOUS": AMBIGUOUS}):
                print(line)


class Variables(gdb.Command):
    """Variables in scope at an address of GPU code, and where each lives.
    symd variables [-m FILE | -s START SIZE] [-b BASE] [-o OBJECT] [-k KERNEL] EXPRESSION"""

    def __init__(self):
        super().__init__("symd variables", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        asked = _Asked(gdb.string_to_argv(argument))
        for query in asked.queries():
            if asked.in_context:
                found = symd("variables", "--json", *context_words(), query)
            else:
                with asked.module_words() as module:
                    found = symd("variables", "--json", *asked.object_words(), *module, query)
            for each in found:
                if "type" in each:
                    where = each["location"] or ("<not here>" if each["live"] else "<optimized out>")
                    print(
                        printable(
                            "%s: %s %s = %s" % (each["function"] or "(globals)", each["type"], each["name"], where)
                        )
                    )
                else:
                    print("%s: %s" % (query, each.get("reason", "no answer")))


class Locate(gdb.Command):
    """Places of a source line of GPU code.
    symd locate [-m FILE | -s START SIZE] [-b BASE] [-o OBJECT] [-k KERNEL] FILE:LINE
    With -b the addresses are those of the device: BASE is added to places in the code object, or in the kernel, that
    is loaded there. Other places are given as offsets into the sections that they lie in."""

    def __init__(self):
        super().__init__("symd locate", gdb.COMMAND_DATA, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        asked = _Asked(gdb.string_to_argv(argument))
        if asked.in_context:
            for each in symd("locate", "--json", *context_words(), *asked.places):
                self.show(each["requested"], each, [hex(address) for address in each.get("device_addresses", ())])
            return
        counts = asked.base is not None or asked.kernel
        with asked.module_words() as module:
            summaries = symd("info", "--json", *module) if counts else []
            words = ["locate", "--json", *asked.object_words(), *module]
            found = [(line, each) for line in asked.places for each in symd(*words, line)]
        if not counts:
            for line, each in found:
                self.show(line, each, [])
            return
        places = [each for _, each in found if "address" in each]
        objects = [each for each in summaries[0]["objects"] if asked.object in (None, each["object"])]
        origin = _Origin(objects, places, asked.kernel)
        for line, each in found:
            away = origin.distance(each) if "address" in each else None
            self.show(line, each, [] if away is None else [object_address(away, -(asked.base or 0))])
        if asked.base is not None and not asked.kernel and any(origin.distance(each) is None for each in places):
            print(
                "%s is the base of one of several pieces of code: name it with -o OBJECT or -k KERNEL" % hex(asked.base)
            )

    @staticmethod
    def show(line, found, addresses):
        """Print a place at each of its addresses, or by its section where none is known; or why there is no place."""
        if "address" not in found:
            print(printable("%s: %s %s" % (line, found["reason"], " ".join(found["candidates"]))))
            return
        where = "%s at %s:%d" % (found["function"], found["file"], found["line"])
        for address in addresses or [section_place(found)]:
            print(printable("%s in %s%s" % (address, where, " (inlined)" if found["inlined"] else "")))


class _Origin:
    """What device addresses count from: the only code object, whose sections lie beside each other; or one kernel."""

    def __init__(self, objects, places, kernel):
        kernels = [dict(each, object=code["object"]) for code in objects for each in code["kernels"]]
        kernels = [each for each in kernels if each["section"]]  # SPIR-V has none: it is not loaded
        begins = {(each["object"], each["section"]): each["address"] - each["offset"] for each in kernels}
        begins.update(((each["object"], each["section"]), each["address"] - each["section_offset"]) for each in places)
        self.objects = {where for where, _ in begins}
        addresses = Counter((where, address) for (where, _), address in begins.items())
        self.unlinked = {where for (where, _), count in addresses.items() if count > 1}
        named = [each for each in kernels if each["name"] == kernel]
        if kernel and len(named) != 1:
            several = "several kernels have this name: %s (name the code object with -o OBJECT)"
            raise gdb.GdbError((several if named else "no kernel has this name: %s") % kernel)
        self.kernel = named[0] if kernel else None

    def distance(self, place):
        """How far a place is behind what the base is of; None where that is unknown."""
        if self.kernel is None:
            return place["address"] if len(self.objects) == 1 and not self.unlinked else None
        if place["object"] != self.kernel["object"]:
            return None
        if place["object"] in self.unlinked and place["section"] != self.kernel["section"]:
            return None
        return place["address"] - self.kernel["address"]


Symd()
Frames()
Variables()
Locate()
