"""Commands for gdb: source lines of GPU code beside a running program. Load it with ``source``; ``symd gdb-script``
prints its path.

    symd frames EXPRESSION...     frames at device or object addresses that the expressions give
    symd variables EXPRESSION     what is in scope there, and where it lives
    symd locate FILE:LINE         addresses of a source line

An expression is one of gdb's, about the program that is stopped; or a place as symd writes it, such as vadd+0x1b0.
Whose code it is:

    set symd-module FILE          a module's file, or -m FILE with one command
    -s START SIZE                 a module that lies in the program's memory, both expressions
    -b BASE                       where the module is loaded: it is subtracted (modulo 2**64)
    set symd-context CONTEXT      a context of a daemon, which knows what is loaded where (symd contexts, symd run)

Runs in gdb's own Python (3.6 and newer)."""

import os
import re
import shlex
import sys
import tempfile
from contextlib import contextmanager

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(os.path.expanduser(__file__))))
from symd_child import Refused, ask, frame_lines, installed_symd, object_address, printable  # noqa: E402 - beside this file

LARGEST_MODULE = 1 << 30
"""Bytes that are read of the program's memory as one module."""
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
        self.module, self.base, self.memory, self.places = MODULE.value or "", 0, None, []
        words = list(words)
        while words:
            word = words.pop(0)
            if word == "-m":
                self.module = _next(words, word)
            elif word == "-b":
                self.base = integer(_next(words, word))
            elif word == "-s":
                self.memory = integer(_next(words, word)), integer(_next(words, word))
            else:
                self.places.append(word)
        if not self.places:
            raise gdb.GdbError("name a place: an expression, or FUNCTION+OFFSET")

    def queries(self):
        """What is asked, in symd's words."""
        return [place_of(text, self.base) for text in self.places]

    @contextmanager
    def module_words(self):
        """The words of a command line that say whose code it is."""
        server = ["--server", SERVER.value] if SERVER.value else []
        if self.memory is not None:
            with memory_file(*self.memory) as path:
                yield server + [path]
        elif self.module:
            yield server + [os.path.expanduser(self.module)]
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


def place_of(text, base):
    """An expression's value without the load base, or a place that is written as symd writes it."""
    try:
        return object_address(int(gdb.parse_and_eval(text)), base)
    except (gdb.error, gdb.MemoryError) as error:
        if PLACE.match(text):
            return text
        raise gdb.GdbError("%s: %s" % (text, error)) from error


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
    symd frames [-m FILE | -s START SIZE] [-b BASE] EXPRESSION...
    EXPRESSION is evaluated by gdb; FUNCTION+OFFSET and (SECTION)+OFFSET are symd's. Quote one with blanks in it."""

    def __init__(self):
        super().__init__("symd frames", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        asked = _Asked(gdb.string_to_argv(argument))
        if CONTEXT.value and asked.memory is None and not asked.module:
            server = ["--server", SERVER.value] if SERVER.value else []
            answers = symd("symbolize", "--json", *server, "--context", CONTEXT.value, *asked.queries())
        else:
            with asked.module_words() as module:
                answers = symd("symbolize", "--json", *module, *asked.queries())
        for answer in answers:
            for line in frame_lines(answer):
                print(line)


class Variables(gdb.Command):
    """Variables in scope at an address of GPU code, and where each lives.
    symd variables [-m FILE | -s START SIZE] [-b BASE] EXPRESSION"""

    def __init__(self):
        super().__init__("symd variables", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        asked = _Asked(gdb.string_to_argv(argument))
        for query in asked.queries():
            with asked.module_words() as module:
                found = symd("variables", "--json", *module, query)
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
    """Addresses of a source line of GPU code.
    symd locate [-m FILE | -s START SIZE] [-b BASE] FILE:LINE
    With -b the addresses are those of the device: BASE is added."""

    def __init__(self):
        super().__init__("symd locate", gdb.COMMAND_DATA, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        asked = _Asked(gdb.string_to_argv(argument))
        for line in asked.places:
            with asked.module_words() as module:
                found = symd("locate", "--json", *module, line)
            for each in found:
                if "address" in each:
                    address = object_address(each["address"], -asked.base)
                    where = "%s at %s:%d" % (each["function"], each["file"], each["line"])
                    print(printable("%s in %s%s" % (address, where, " (inlined)" if each["inlined"] else "")))
                else:
                    print(printable("%s: %s %s" % (line, each["reason"], " ".join(each["candidates"]))))


Symd()
Frames()
Variables()
Locate()
