"""The verbs with their summaries and their places in the help, and what is taken for them: words of other tools, with
the arguments that those have as options or in another order. What is answered with a verb is in ``unknown_verbs``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from symd.cli.call_files import files_among, is_standard_input_sent, samples_on_code, standard_input_log
from symd.cli.debugger_commands import gdb_call, gdbs_info, lldb_call
from symd.model.addresses import is_number, is_place

SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Ask about a file": {
        "info": "Show what is inside files, at any depth of nesting.",
        "symbolize": "Turn addresses into source lines.",
        "lines": "Print the decoded line table.",
        "locate": "Turn a source line into addresses for breakpoints.",
        "variables": "Show which variables are in scope at an address, and where they live.",
        "names": "Find functions, kernels and source files by name.",
        "listing": "Show source beside instructions (disassembly).",
        "view": "Show source beside instructions in the browser, or write it as a page.",
        "extract": "Write each code object to a file of its own.",
    },
    "Profiles, logs, core dumps": {
        "hot": "Show the hottest lines, instructions or kernels of a profile.",
        "profile": "Add source lines to a profile, or convert it for a viewer.",
        "batch": "Add source lines to samples in a Parquet file.",
        "annotate": "Add source lines to a crash log or other text.",
        "core": "Show every stopped warp or wave in a GPU core dump.",
    },
    "Get modules": {
        "run": "Run a program and capture the modules that it builds.",
        "attach": "Capture the modules of a process that is already running.",
        "collect": "Take modules from compiler caches and dump folders.",
        "grab": "Build a module with a real driver and take its debug data.",
    },
    "Check": {
        "check": "Check SPIR-V against the rules of the Level Zero environment.",
        "verify": "Compare symd's reading of the debug data with pyelftools'.",
    },
    "Daemon": {
        "serve": "Run the daemon: gRPC on a Unix socket, or on TCP if you ask for it.",
        "daemon": "Manage a daemon: start, status, add, modules, token, store, stop, ...",
    },
    "Setup": {
        "setup": "Set up a shell, a debugger or an assistant; copy the samples.",
        "doctor": "Show which drivers, devices and tools are here, and what to install.",
    },
}
"""Headings of the help with their verbs, and the summary of each."""
OTHERS: Final = {
    "slim": "Strip an AMD code object, keeping its debug data in a second file.",
    "addr2line": "Answer in the format of binutils' addr2line.",
    "llvm-symbolizer": "Answer in the format of llvm-symbolizer.",
}
"""Verbs that the help only names."""
BELOW: Final[Mapping[str, Mapping[str, str]]] = {
    "daemon": {
        "start": "Start a daemon in the background.",
        "status": "Show how a daemon is doing.",
        "health": "Ask whether a daemon is serving.",
        "stop": "Stop your daemon.",
        "add": "Add modules to a daemon.",
        "modules": "List the modules that a daemon has.",
        "rm": "Remove modules from a daemon.",
        "fetch": "Get a module, or one of its source files, from debuginfod servers.",
        "contexts": "List the processes that loaded modules, and what each loaded when.",
        "watch": "Follow what happens to modules, and where breakpoints land in them.",
        "record": "Tell a daemon what a debugger or profiler sees loaded, and where.",
        "token": "Make a token for a client that connects over TCP.",
        "store": "Check, repair, clean up or copy the folder of modules and indexes.",
    },
    "setup": {
        "completion": "Print a script that completes verbs, options and files in your shell.",
        "install-shim": "Let programs that run addr2line or llvm-symbolizer ask symd instead.",
        "gdb-script": "Print the path of a script that adds GPU source lines to gdb.",
        "lldb-script": "Print the path of a script that connects LLDB to a daemon.",
        "mcp": "Answer an assistant over the Model Context Protocol.",
        "samples": "Copy modules, sources and clients to try symd with.",
    },
}
"""Verbs that the help shows below another one. They can be typed without it too."""
VERBS: Final = tuple(each for verbs in (*SECTIONS.values(), OTHERS, *BELOW.values()) for each in verbs.items())
"""Each verb and its summary."""

_SYNONYMS = {
    "listing": "disas disasm disassemble disassembly objdump nvdisasm",
    "symbolize": "lookup resolve",
    "hot": "hotspots hottest",
    "info": "readelf readobj cuobjdump inspect",
    "names": "nm functions funcs symbols sources source-files",
    "lines": "line-table linetable dwarfdump",
    "locate": "break breakpoint",
    "variables": "vars locals",
    "view": "web html page",
    "slim": "strip",
    "add": "load upload push put",
}
"""Verb to words of other tools that do as it does."""
SYNONYMS = {word: verb for verb, words in _SYNONYMS.items() for word in words.split()}
_KINDS: Final = {
    "--kind=kernel --kind=function --or-part": "functions funcs",
    "--kind=file --or-part": "sources source-files",
}
"""Options by which symd names shows names of some kinds alone, and its synonyms that do."""
_TOP: Final = ("hot", "--by=function")
"""The call that top stands for, as reports of pprof and perf rank functions; unless another sum is asked for."""
_BY_OPTION: Final[Mapping[str, Mapping[str, str]]] = {
    "objdump": {
        "names": "-t --syms -T",
        "info": "--headers --section-headers --all-headers -x -f --offloading",
        "listing": "-d --disassemble -S --source",
    },
    "readelf": {"names": "-s --syms --symbols --dyn-syms", "lines": "--debug-dump -w -wl -wL -wi"},
    "cuobjdump": {
        "listing": "-sass --dump-sass",
        "info": "-res-usage --res-usage --dump-resource-usage -lelf --list-elf -elf --dump-elf -lptx --list-ptx",
        "extract": "-xelf --extract-elf -xptx",
    },
    "dwarfdump": {
        "verify": "--verify",
        "names": "--name --find -n --debug-info --debug-abbrev --debug-names",
        "lines": "--debug-line -debug-line --all -a",
        "symbolize": "--lookup -lookup",
    },
    "perf": {"profile --to=folded": "script"},
    "pprof": {
        "profile --to=speedscope": "-svg -png -pdf -gif -dot -web",
        "profile --to=pprof": "-proto -raw",
        "hot --by=line": "-lines --lines",
        "hot --by=instruction": "-addresses --addresses",
        "hot --by=file": "-files --files",
        "hot --by function": "-functions --functions -filefunctions --filefunctions",
        "hot --by=function": "-top -text -tree -traces",
    },
    "strip": {"slim": "--strip-debug --strip-unneeded --strip-all"},
    "debuginfod-find": {"fetch": "debuginfo executable source"},
    "nvdisasm": {"listing": "-hex --print-code --print-instruction-encoding --print-line-info -gi -plr"},
    "clang-offload-bundler": {"info": "--list -list", "extract": "--unbundle -unbundle"},
    "dump": {"lines": "--debug-line --debug-lines --lines", "listing": "-sass --dump-sass --sass"},
}
"""Tools of which an option says what they do, and the verb that does it."""
_TOOL = re.compile(r"(?:llvm-|eu-|gnu-)?(\w+?)(?:-[0-9]+)?", re.ASCII)
"""A tool as distributions and toolchains name theirs."""
_FIRST: Final = frozenset(("-e", "--exe", "--obj"))
"""Options of addr2line and llvm-symbolizer that name FILE, which comes first."""
_LETTERS_AND_E: Final = re.compile(r"-[A-Za-z]+e")
"""Several options of one letter, FILE behind them, such as addr2line -fie."""
_ASK_A_FILE: Final = frozenset(
    ("info", "lines", "locate", "variables", "names", "listing", "view", "extract", "verify", "check")
)
"""Verbs that take these options; symd symbolize has them in its help."""
_LAST: Final[Mapping[str, frozenset[str]]] = {
    "extract": frozenset(("-o", "--output", "--outdir", "-C", "--directory")),
    "slim": frozenset(("-o", "--output")),
}
"""Options of other tools for what a verb writes, which comes last."""


def keys_of(table: Mapping[str, str], word: str) -> list[str]:
    """What a table has a word for."""
    return [key for key, words in table.items() if word in words.split()]


def full_name(verb: str) -> str:
    """The verb as it is shown: behind the one that the help lists it below."""
    return next((f"{above} {verb}" for above, verbs in BELOW.items() if verb in verbs), verb)


def understood(words: Sequence[str]) -> list[str]:
    """A call with the verb that its first word stands for; the words themselves where it stands for none. ``report``
    writes a page where a file for it is named."""
    if asked := lldb_call(words):
        is_answered = asked.is_whole and (is_at_once(asked.words) or asked.words[0] == "modules")
        return asked.words if is_answered else [*words]
    if (call := gdb_call(words)) and is_at_once(call):
        return call
    typed, *rest = gdbs_info(words)
    named = _TOOL.fullmatch(typed)
    known = {verb for verb, _ in VERBS}
    tool = named[1] if named and typed not in known else typed
    if by_option := call_by_option(tool, rest):
        return by_option
    if typed == "annotate" and (listing := samples_on_code(rest)):  # perf annotate
        return listing
    if typed == "report" and any(word.startswith(("-o", "--output")) or ".htm" in word for word in rest):
        tool = "view"
    if typed == "top":
        sums = _TOP[:1] if any(word.startswith("--by") for word in rest) else _TOP
        return call_by_option("pprof", rest) or [*sums, *rest]
    verb = SYNONYMS.get(tool, tool if tool in known else typed)
    if verb == "names" and not any(word.startswith("--kind") for word in rest):
        rest = [*" ".join(keys_of(_KINDS, typed)).split(), *rest]
    if verb == "listing":
        rest = [re.sub("^--disassemble=", "--function=", word) for word in rest]
        rest = [word for word in rest if not re.fullmatch(r"/[a-z]{1,2}", word) or os.path.exists(word)]  # noqa: PTH110 - pathlib is slow to load
    return [verb, *in_order(verb, rest)]


def call_by_option(tool: str, words: Sequence[str]) -> list[str]:
    """The call that is meant where one of a tool's options says what it does; [] elsewhere."""
    for verb, options in _BY_OPTION.get(tool, {}).items():
        at = next((number for number, word in enumerate(words) if word.partition("=")[0] in options.split()), None)
        if at is not None:
            rest, value = words[at + 1 :], words[at].partition("=")[2]
            named = [value] if is_number(value) or (verb == "listing" and value) else []
            return [*verb.split(), *in_order(verb, [*words[:at], *rest[[*rest[:1]] == ["all"] :], *named])]
    return []


def call_by_any_option(words: Sequence[str]) -> list[str]:
    """The call that is meant by an option of any tool that says what it does; [] where there is none."""
    return next(filter(None, (call_by_option(tool, words) for tool in _BY_OPTION)), [])


def names_file_first(words: Sequence[str]) -> bool:
    """Whether an option of addr2line or llvm-symbolizer names FILE."""
    return any(word.partition("=")[0] in _FIRST or _LETTERS_AND_E.fullmatch(word) for word in words)


def in_order(verb: str, words: Sequence[str]) -> list[str]:
    """The words behind a verb, with the values of other tools' options where symd has an argument for them."""
    firsts, lasts = _FIRST if verb in _ASK_A_FILE else frozenset(), _LAST.get(verb, frozenset())
    end = [*words, "--"].index("--")
    first: list[str] = []
    kept: list[str] = []
    last: list[str] = []
    rest = iter(words[:end])
    for word in rest:
        name, equals, value = word.partition("=")
        if firsts and _LETTERS_AND_E.fullmatch(word):
            kept.append(word[:-1])
            name = "-e"
        if name in firsts or name in lasts:
            value = value if equals else next(rest, "")
            (first if name in firsts else last).append(value)
        else:
            kept.append(word)
    return [*filter(None, first), *kept, *filter(None, last), *words[end:]]


_AT_ONCE: Final = {
    *SECTIONS["Ask about a file"], *SECTIONS["Profiles, logs, core dumps"], *SECTIONS["Check"],
}.difference(["view"])  # fmt: skip
"""Verbs that answer and end."""


def is_at_once(call: Sequence[str]) -> bool:
    """Whether a call answers about a file that is there, and ends: it waits for no queries but for those that options
    of addr2line leave to standard input, which is no log."""
    is_asked = call[0] != "symbolize" or any(map(is_place, call[1:]))
    is_asked = is_asked or (names_file_first(call) and is_standard_input_sent() and not standard_input_log())
    return call[0] in _AT_ONCE and is_asked and bool(files_among(call[1:]))
