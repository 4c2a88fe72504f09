"""The verbs with their summaries and their places in the help, and the words of other tools for them: what is taken for
a verb, what is answered with one, and which arguments of a verb other tools have as options."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from symd.model.addresses import is_number
from symd.system.messages import alike

VERBS: tuple[tuple[str, str], ...] = (
    ("info", "Show what is inside files, at any depth of nesting."),
    ("symbolize", "Turn addresses into source lines."),
    ("lines", "Print the decoded line table."),
    ("locate", "Turn a source line into addresses for breakpoints."),
    ("variables", "Show which variables are in scope at an address, and where they live."),
    ("names", "Find functions, kernels and source files by name."),
    ("listing", "Show source beside instructions (disassembly)."),
    ("view", "Show source beside instructions in the browser, or write it as a page."),
    ("extract", "Write each code object to a file of its own."),
    ("hot", "Show the hottest lines, instructions or kernels of a profile."),
    ("profile", "Add source lines to a profile, or convert it for a viewer."),
    ("batch", "Add source lines to samples in a Parquet file."),
    ("annotate", "Add source lines to a crash log or other text."),
    ("core", "Show every stopped warp or wave in a GPU core dump."),
    ("run", "Run a program and capture the modules that it builds."),
    ("attach", "Capture the modules of a process that is already running."),
    ("collect", "Take modules from compiler caches and dump folders."),
    ("grab", "Build a module with a real driver and take its debug data."),
    ("check", "Check SPIR-V against the rules of the Level Zero environment."),
    ("verify", "Compare symd's reading of the debug data with pyelftools'."),
    ("serve", "Run the daemon: gRPC on a Unix socket, or on TCP if you ask for it."),
    ("daemon", "Manage a daemon: status, modules, health, token, store, stop, ..."),
    ("setup", "Set up a shell, a debugger or an assistant; copy the samples."),
    ("doctor", "Show which drivers, devices and tools are here, and what to install."),
    ("slim", "Strip an AMD code object, keeping its debug data in a second file."),
    ("addr2line", "Answer in the format of binutils' addr2line."),
    ("llvm-symbolizer", "Answer in the format of llvm-symbolizer."),
    ("status", "Show how a daemon is doing."),
    ("health", "Ask whether a daemon is serving."),
    ("stop", "Stop your daemon."),
    ("modules", "List the modules that a daemon has."),
    ("rm", "Remove modules from a daemon."),
    ("fetch", "Get a module, or one of its source files, from debuginfod servers."),
    ("contexts", "List the processes that loaded modules, and what each loaded when."),
    ("watch", "Follow what happens to modules, and where breakpoints land in them."),
    ("record", "Tell a daemon what a debugger or profiler sees loaded, and where."),
    ("token", "Make a token for a client that connects over TCP."),
    ("store", "Check, repair, clean up or copy the folder of modules and indexes."),
    ("completion", "Print a script that completes verbs, options and files in your shell."),
    ("install-shim", "Let programs that run addr2line or llvm-symbolizer ask symd instead."),
    ("gdb-script", "Print the path of a script that adds GPU source lines to gdb."),
    ("lldb-script", "Print the path of a script that connects LLDB to a daemon."),
    ("mcp", "Answer an assistant over the Model Context Protocol."),
    ("samples", "Copy modules, sources and clients to try symd with."),
)
"""Verb and summary."""
SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Ask about a file",
        ("info", "symbolize", "lines", "locate", "variables", "names", "listing", "view", "extract"),
    ),
    ("Profiles, logs, core dumps", ("hot", "profile", "batch", "annotate", "core")),
    ("Get modules", ("run", "attach", "collect", "grab")),
    ("Check", ("check", "verify")),
    ("Daemon", ("serve", "daemon")),
    ("Setup", ("setup", "doctor")),
)
"""Headings of the help with their verbs."""

BELOW: dict[str, tuple[str, ...]] = {
    "daemon": ("status", "health", "stop", "modules", "rm", "fetch", "contexts", "watch", "record", "token", "store"),
    "setup": ("completion", "install-shim", "gdb-script", "lldb-script", "mcp", "samples"),
}
"""Verbs that the help shows below another one. They can be typed without it too."""
OTHERS = ("slim", "addr2line", "llvm-symbolizer")
"""Verbs that the help only names."""

_SYNONYMS = {
    "listing": "disas disasm disassemble disassembly objdump nvdisasm",
    "symbolize": "lookup resolve",
    "hot": "top hotspots hottest",
    "info": "readelf cuobjdump inspect",
    "names": "nm functions symbols",
    "lines": "line-table linetable",
    "locate": "break breakpoint",
    "variables": "vars locals",
    "view": "web html page",
    "slim": "strip",
}
"""Verb to words of other tools that do as it does."""
SYNONYMS = {word: verb for verb, words in _SYNONYMS.items() for word in words.split()}
_FIRST: Final = frozenset(("-e", "--exe", "--obj"))
"""Options of addr2line and llvm-symbolizer that name FILE, which comes first."""
_ASK_A_FILE: Final = frozenset(
    ("info", "lines", "locate", "variables", "names", "listing", "view", "extract", "verify", "check")
)
"""Verbs that take these options; symd symbolize has them in its help."""
_LAST: Final[Mapping[str, frozenset[str]]] = {
    "extract": frozenset(("-o", "--output", "--outdir", "-C", "--directory")),
    "slim": frozenset(("-o", "--output")),
}
"""Options of other tools for what a verb writes, which comes last."""
MEANT = {
    "listing": "asm sass isa dump source list x",
    "symbolize": "addr2sym line srcline frames where address bt backtrace stack",
    "annotate": "decode crash log stacktrace",
    "hot": "annotate-profile report-profile perf stat stats analyze",
    "profile": "convert export symbolize-profile flamegraph",
    "info": "file show kernels ls-file",
    "names": "search find grep demangle",
    "lines": "debug-line decodedline",
    "locate": "line2addr addresses",
    "variables": "scope print p ptype types whatis",
    "view": "open browse gui http",
    "extract": "unpack split unbundle",
    "core": "coredump",
    "run": "capture trace exec launch",
    "collect": "import ingest cache",
    "grab": "build compile ocloc",
    "check": "spirv-val lint",
    "verify": "compare diff validate",
    "slim": "shrink",
    "serve": "start server listen",
    "daemon": "load",
    "daemon modules": "ls",
    "daemon rm": "remove delete forget",
    "daemon contexts": "ps processes",
    "daemon watch": "events follow",
    "daemon status": "ping",
    "daemon stop": "kill shutdown quit",
    "daemon store": "backup copy repair gc",
    "doctor": "diagnose devices drivers",
    "setup": "install config configure",
    "setup gdb-script": "gdb",
    "setup lldb-script": "lldb",
}
"""Verb to words of other tools that may mean it."""

_EXPLAINED = {
    "report": "symd hot -m FILE PROFILE prints the hottest lines, and symd view FILE --profile PROFILE -o PAGE writes a page",
    "examples": "symd setup samples . writes them into this folder",
    "add": "symd info --server default FILE adds a file to your daemon, and symd collect FOLDER the modules of a folder",
    "start": "symd serve starts a daemon and stays in the foreground; symd serve & runs it in the background",
    "restart": "symd daemon stop ends the daemon, and symd serve starts it",
    **dict.fromkeys(
        ("step", "next", "stepi", "nexti", "finish", "continue", "c", "s", "n"),
        "a debugger runs the program, and symd answers it: docs/tutorials/debugger.md",
    ),
    **dict.fromkeys(
        ("vscode", "code", "editor", "dap"),
        "symd setup samples DIR copies the extension (vscode) and the debug adapter (clients/debug_adapter.py): docs/integrations.md",
    ),
}
"""Words that mean no verb, and what to do."""


def verb_sections() -> list[tuple[str, list[tuple[str, str]]]]:
    """Each heading with its verbs and their summaries."""
    summaries = dict(VERBS)
    return [(heading, [(verb, summaries[verb]) for verb in verbs]) for heading, verbs in SECTIONS]


def full_name(verb: str) -> str:
    """The verb as it is shown: behind the one that the help lists it below."""
    return next((f"{above} {verb}" for above, verbs in BELOW.items() if verb in verbs), verb)


def verb_of(words: Sequence[str]) -> str:
    """The verb that the first word of a call stands for; the word itself where it stands for none. ``report`` writes a
    page where a file for it is named; perf's report is explained."""
    if words[0] == "report" and any(word.startswith(("-o", "--output")) or ".htm" in word for word in words):
        return "view"
    return SYNONYMS.get(words[0], words[0])


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
        if firsts and re.fullmatch(r"-[A-Za-z]+e", word):  # several options of one letter, such as addr2line -fie
            kept.append(word[:-1])
            name = "-e"
        if name in firsts or name in lasts:
            value = value if equals else next(rest, "")
            (first if name in firsts else last).append(value)
        else:
            kept.append(word)
    return [*filter(None, first), *kept, *filter(None, last), *words[end:]]


def no_verb(words: Sequence[str], above: str = "") -> tuple[str, list[list[str]]]:
    """What is said of the first of ``words``, which is no verb, and the calls that may be meant, by its meaning or its
    spelling; ``above`` is the verb in front of it."""
    typed, rest = words[0], list(words[1:])
    said = f"no verb {f'{above} {typed}'.lstrip()!r}"
    meant = [verb for verb, others in MEANT.items() if typed.lower() in others.split()]
    if typed == "list" and not rest:
        meant = ["daemon modules"]
    elif typed == "add" and rest:
        is_folder = os.path.isdir(rest[-1])  # noqa: PTH112 - pathlib is slow to load
        return said, [["collect" if is_folder else "info", "--server", "default", *rest]]
    elif typed in _EXPLAINED and not (meant and rest):
        return f"{said}; {_EXPLAINED[typed]}", []
    if not meant:
        meant = [full_name(verb) for verb in alike(typed, [verb for verb, _ in VERBS])]
    if not meant:
        return said, []
    return f"{said}; did you mean {' or '.join(meant)}?", [[*verb.split(), *rest] for verb in meant] if rest else []


def without_verb(words: Sequence[str]) -> tuple[str, list[list[str]]]:
    """What is said where a file or an address stands in the place of a verb, and the calls that may be meant; "" and
    none elsewhere."""
    if os.path.exists(words[0]):  # noqa: PTH110 - pathlib is slow to load
        return "a verb comes before the file, as in", [
            ["info", words[0]],
            ["symbolize", *words, *([] if words[1:] else ["ADDRESS"])],
        ]
    if is_number(words[0]):
        return "a verb and a file come before the address:", [["symbolize", *(words[1:] or ["FILE"]), words[0]]]
    return "", []


def no_option(option: str, words: Sequence[str]) -> tuple[str, list[list[str]]]:
    """What is said of an option in front of the verb, and the calls that may be meant."""
    said = f"symd itself has no option {option};"
    if option in ("-v", "-V"):
        return f"{said} write symd --version", []
    if option in _FIRST:
        return f"{said} a verb's options come after the verb:", [["symbolize", *words]]
    return f"{said} a verb's options come after the verb: symd VERB {option}", []
