"""The verbs with their summaries and their places in the help, and the words of other tools for them: what is taken for
a verb, what is answered with one, and which arguments of a verb other tools have as options or in another order."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from symd.cli.call_files import (
    behind,
    calls_for,
    file_kind,
    files_among,
    is_spirv,
    profile_among,
    profile_kind,
    standard_input_log,
)
from symd.model.addresses import is_number, is_place
from symd.system.messages import alike

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
        "daemon": "Manage a daemon: status, modules, health, token, store, stop, ...",
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
        "status": "Show how a daemon is doing.",
        "health": "Ask whether a daemon is serving.",
        "stop": "Stop your daemon.",
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
_SUMS: Final = ("--by", "-lines", "--lines")
"""What words begin with that ask for a sum."""
_ASK_FOR_A_SUM: Final = (*_SUMS, "--sort", "--group", "--order", "--stall", "--kernel")
"""What words begin with that ask for a sum in reports of other tools."""
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
MEANT = {
    "listing": "asm sass isa dump dis source list x iga iga64",
    "symbolize": "addr2sym ask line srcline frame frames where address bt backtrace stack inline inlines inlined caller callers",
    "annotate": "decode crash log stacktrace",
    "hot --by stall": "stall stalls reason reasons",
    "hot --by function": "report annotate-profile report-profile perf pprof stat stats analyze ncu rocprofv3 rocprof unitrace vtune",
    "profile": "convert export symbolize-profile",
    "profile --to speedscope": "flamegraph flame speedscope",
    "profile --to folded": "folded fold collapse collapsed stackcollapse",
    "profile --to perfetto": "timeline perfetto chrome-trace",
    "info": "file show kernels ls-file registers regs resources resource-usage res-usage zeinfo metadata sections headers spirv roc-obj-ls spill spills size occupancy",
    "names": "search find grep demangle",
    "lines": "debug-line decodedline",
    "locate": "b tbreak bp breakpoints line2addr addresses",
    "variables": "scope print p ptype types whatis",
    "view": "open browse gui http",
    "extract": "unpack split unbundle bundler roc-obj-extract",
    "core": "coredump coredumpctl cuda-gdb rocgdb gdb-oneapi",
    "run": "capture trace exec launch",
    "collect": "import ingest",
    "collect --caches": "cache caches",
    "grab": "build compile ocloc",
    "check": "spirv-val lint validate",
    "verify": "compare validate",
    "slim": "shrink objcopy split-debug",
    "serve": "server listen up",
    "daemon fetch --debuginfod-urls": "debuginfod download",
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
    "setup install-shim": "shim",
    **{f"setup completion {shell}": shell for shell in ("bash", "zsh", "fish")},
    "setup lldb-script": "lldb",
}
"""Verb to words of other tools that may mean it."""

START: Final = (
    "symd serve & starts a daemon in the background, symd daemon status shows how it is doing, symd daemon stop ends it"
)
_DIFF: Final = (
    "symd info A B shows what is in two files, symd verify FILE compares two readings of one,"
    " and go tool pprof -diff_base two profiles that symd profile wrote"
)
_ADD: Final = "add load upload push put"
"""Words for bringing a file to a daemon."""
_EXPLAINED: Final = {
    "symd hot -m FILE PROFILE prints the hottest lines, and symd view FILE --profile PROFILE -o PAGE writes a page": "report",
    "symd info FILE says what a file is, and symd profile --to writes pprof, folded, speedscope, perfetto and firefox": "formats",
    "symd names -C FILE NAME shows the readable name": "c++filt cu++filt",
    "symd setup samples . writes them into this folder": "examples",
    "symd info --server default FILE adds a file to your daemon, and symd collect FOLDER the modules of a folder": _ADD,
    _DIFF: "diff delta compare",
    "symd symbolize FILE PLACE shows the callers that PLACE is inlined into, and symd hot -m FILE PROFILE --by instruction those of a profile": "inline inlines inlined caller callers",
    "samples of Nsight Compute are read as folded stacks, one line KERNEL+0xOFFSET COUNT for each instruction: symd hot -m FILE PROFILE prints the hottest lines": "ncu",
    "symd listing FILE shows machine code beside its source, and symd lines --level ptx FILE the lines of the PTX that it was compiled from": "ptx",
    "symd VERB --help explains a verb, docs/quickstart.md begins at the beginning, and docs/index.md lists the pages": "man docs tutorial quickstart",
    "the daemon writes its log to standard error (docs/operations.md), and symd daemon watch follows what happens to modules": "logs",
    "write symd --version": "version",
    START: "start",
    "symd daemon stop ends the daemon, and symd serve starts it": "restart",
    "a debugger runs the program, and symd answers it: docs/tutorials/debugger.md": "step next stepi nexti finish continue c s n",
    "symd setup samples DIR copies the extension (vscode) and the debug adapter (clients/debug_adapter.py): docs/integrations.md": "vscode code editor dap",
}
"""What to do, and the words for it that mean no verb."""
_GDBS_INFO: Final = {
    "variables": "scope locals args variables frame",
    "symbolize": "line symbol source",
    "names": "types address",
    "functions": "functions kernels",
    "core": "threads",
    "sources": "sources",
    "info": "registers all-registers",
}
"""The verb that answers gdb's info, and the first words of that; where a line is asked about, locate does."""


def keys_of(table: Mapping[str, str], word: str) -> list[str]:
    """What a table has a word for."""
    return [key for key, words in table.items() if word in words.split()]


def full_name(verb: str) -> str:
    """The verb as it is shown: behind the one that the help lists it below."""
    return next((f"{above} {verb}" for above, verbs in BELOW.items() if verb in verbs), verb)


def understood(words: Sequence[str]) -> list[str]:
    """A call with the verb that its first word stands for; the words themselves where it stands for none. ``report``
    writes a page where a file for it is named."""
    typed, rest = words[0], list(words[1:])
    asked = keys_of(_GDBS_INFO, rest[0]) if typed == "info" and rest and not os.path.lexists(rest[0]) else []
    if asked:
        typed = "locate" if any(":" in word for word in rest) else asked[0]
        rest = [word.removeprefix("*") for word in rest[1:]]
    named = _TOOL.fullmatch(typed)
    known = {verb for verb, _ in VERBS}
    tool = named[1] if named and typed not in known else typed
    if by_option := _by_option(tool, rest):
        return by_option
    shown = behind(rest, "-i") if typed == "annotate" else ""
    if shown and profile_kind(shown) is not None:  # perf annotate
        at = rest.index("-i")
        return ["listing", *rest[:at], *rest[at + 2 :], "--profile", shown]
    if typed == "report" and any(word.startswith(("-o", "--output")) or ".htm" in word for word in rest):
        tool = "view"
    if typed == "top":
        return [*(_TOP[:1] if any(word.startswith(_SUMS) for word in rest) else _TOP), *rest]
    verb = SYNONYMS.get(tool, tool if tool in known else typed)
    if verb == "names" and not any(word.startswith("--kind") for word in rest):
        rest = [*" ".join(keys_of(_KINDS, typed)).split(), *rest]
    if verb == "listing":
        rest = [re.sub("^--disassemble=", "--function=", word) for word in rest]
        rest = [word for word in rest if not re.fullmatch(r"/[a-z]{1,2}", word) or os.path.exists(word)]  # noqa: PTH110 - pathlib is slow to load
    return [verb, *in_order(verb, rest)]


def _by_option(tool: str, words: Sequence[str]) -> list[str]:
    """The call that is meant where one of a tool's options says what it does; [] elsewhere."""
    for verb, options in _BY_OPTION.get(tool, {}).items():
        at = next((number for number, word in enumerate(words) if word.partition("=")[0] in options.split()), None)
        if at is not None:
            rest, value = words[at + 1 :], words[at].partition("=")[2]
            named = [value] if is_number(value) or (verb == "listing" and value) else []
            return [*verb.split(), *in_order(verb, [*words[:at], *rest[[*rest[:1]] == ["all"] :], *named])]
    return []


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


def no_verb(words: Sequence[str], above: str = "") -> tuple[str, list[list[str]]]:
    """What is said of the first of ``words``, which is no verb, and the calls that may be meant, by its meaning or its
    spelling; ``above`` is the verb in front of it."""
    typed, rest = words[0], list(words[1:])
    said = f"no verb {f'{above} {typed}'.lstrip()!r}"
    if not above and rest and typed in _WITH_VERBS and not rest[0].startswith("-") and _is_known(rest[0]):
        return said, [rest] if understood(rest)[0] in dict(VERBS) else no_verb(rest)[1]
    meant = _meant(typed)
    if typed == "list" and not rest:
        meant = ["daemon modules"]
    elif typed in _ADD.split() and rest:
        return _added(said, rest)
    elif (told := keys_of(_EXPLAINED, typed)) and not (meant and rest and _is_answered(typed, meant[0], rest)):
        return f"{said}; {_of_files(told[0], rest)}", []
    meant = meant or [full_name(verb) for verb in alike(typed, [verb for verb, _ in VERBS])]
    if not meant:
        return (said, []) if above else _without_verb(words, said)
    if "--" in rest and meant[0].startswith(("hot", "profile")):
        meant = ["run"]
    elif files_among(rest):
        meant = list(dict.fromkeys((_for_files(meant[0], rest), *(meant[1:] if meant[0] != "check" else ()))))
    if any(word.startswith(_ASK_FOR_A_SUM) for word in rest):
        meant = ["hot" if verb.startswith("hot --by") else verb for verb in meant]
    calls = [[*verb.split(), *(rest or _ALONE.get(verb, ()))] for verb in meant]
    if meant[0].startswith("profile") and any(word.endswith(PAGE) for word in rest):
        return said, calls  # a page is no profile, and the call is mended
    return f"{said}; did you mean {' or '.join(meant)}?", calls


def _added(said: str, words: Sequence[str]) -> tuple[str, list[list[str]]]:
    """What brings the words' files to a daemon; or with a number what says where on the device they are."""
    if any(map(is_number, words)):
        return f"{said}; symd daemon record takes what is loaded where, a line of JSON for each load", []
    is_folder = os.path.isdir(words[-1])  # noqa: PTH112 - pathlib is slow to load
    return said, [["collect" if is_folder else "info", "--server", "default", *words]]


def _is_answered(typed: str, meant: str, words: Sequence[str]) -> bool:
    """Whether the verb that is meant answers what is also explained: symd symbolize where a place is named, verify for
    one file, and hot for a profile, which an option of Nsight Compute or a module is none of."""
    if meant == "symbolize":
        return any(map(is_place, words))
    if meant == "verify":
        return not files_among(words)[1:]
    if typed != "ncu" or "--" in words or profile_among(words).profile:
        return True
    return not words[0].startswith("-") and [file_kind(each) for each in files_among(words)] != ["module"]


def _of_files(told: str, words: Sequence[str]) -> str:
    """What is explained, of the modules among the words."""
    modules = [shlex.quote(each) for each in files_among(words) if file_kind(each) == "module"]
    if told == _DIFF and len(modules) > 1:
        return f"symd info {' '.join(modules)} shows both"
    return re.sub(r"\bFILE\b", lambda _: modules[0], told) if modules else told


PAGE = (".html", ".htm")
"""What the names of pages end with."""
_ALONE: Final[Mapping[str, Sequence[str]]] = {"symbolize": ("FILE",), "collect": ("FOLDER",)}
"""What a verb does not do without, although it can be called so."""
_WITH_VERBS: Final = frozenset(("perf", "ocloc", "gdb", "cuda-gdb", "rocgdb", "nsys", "ncu", "symd", "llvm"))
"""Tools that have verbs of their own."""


_AT_ONCE: Final = {
    *SECTIONS["Ask about a file"], *SECTIONS["Profiles, logs, core dumps"], *SECTIONS["Check"],
}.difference(["view"])  # fmt: skip
"""Verbs that answer and end."""


def is_at_once(call: Sequence[str]) -> bool:
    """Whether a call answers about a file that is there, and ends: it waits for no queries."""
    is_asked = call[0] != "symbolize" or any(map(is_place, call[1:]))
    return call[0] in _AT_ONCE and is_asked and bool(files_among(call[1:]))


def call_at_once(words: Sequence[str]) -> list[str]:
    """The only call that may be meant by words of which the first is no verb, where it is about a file that is there;
    [] elsewhere."""
    _, calls = no_verb(words)
    (call,) = calls if len(calls) == 1 else ([""],)
    return call if is_at_once(call) and _meant(words[0]) else []


def _is_known(word: str) -> bool:
    """Whether a word is a verb, or means one."""
    return understood([word])[0] in dict(VERBS) or bool(_meant(word))


_COMPOUND: Final = re.compile(r"[\w-]+|x/\w+", re.ASCII)
"""A word that may be made of several, or gdb's command to examine memory."""


def _meant(word: str) -> list[str]:
    """The verbs that a word of other tools, or a part of it, means."""
    parts = reversed(re.split(r"[-_/]", word)) if _COMPOUND.fullmatch(word) else ()
    for part in (word, *parts):
        found = keys_of(MEANT, part.lower())
        verb, *options = understood([part]) if part and part != word else [""]
        if found or verb in dict(VERBS):
            return found or [" ".join([full_name(verb), *options])]
    return []


_TAKE_PROFILES: Final = frozenset(("hot", "profile", "view", "annotate", "listing", "info"))
"""Verbs that are about a profile among their files."""


def _for_files(meant: str, words: Sequence[str]) -> str:
    """The verb that is meant by ``meant`` in a call whose files are of another kind than it takes."""
    for file in files_among(words):
        kind = file_kind(file)
        if meant == "symbolize" and kind in ("core", "text"):
            return "core" if kind == "core" else "annotate"
        if meant == "check" and kind == "module" and not is_spirv(file):
            return "verify"
        if meant.startswith("hot") and kind == "module" and not profile_among(words).profile:
            return "view"
        if kind == "profile" and meant.split(maxsplit=1)[0] not in _TAKE_PROFILES:
            return "hot"
        if kind in ("module", "core") and meant.startswith("daemon"):
            return "info"
    return meant


def _without_verb(words: Sequence[str], said: str) -> tuple[str, list[list[str]]]:
    """What is said where a file or an address stands in the place of a verb, and the calls that may be meant; ``said``
    and none elsewhere."""
    if os.path.exists(words[0]):  # noqa: PTH110 - pathlib is slow to load
        return "a verb comes before the file, as in", calls_for(words[0], words[1:]) or [
            ["info", words[0]],
            ["symbolize", words[0], *(words[1:] or ["ADDRESS"])],
        ]
    if is_number(words[0]):
        return "a verb and a file come before the address:", [["symbolize", *(words[1:] or ["FILE"]), words[0]]]
    return said, []


def no_option(option: str, words: Sequence[str]) -> tuple[str, list[list[str]]]:
    """What is said of an option in front of the verb, as it was typed, and the calls that may be meant."""
    long = (word.partition("=")[0] for word in words if word.startswith(option) and not word.startswith("--"))
    said = f"symd itself has no option {next(long, option)};"
    if option in ("-v", "-V"):
        return f"{said} write symd --version", []
    log = "" if any(map(is_place, words)) or not _names_file_first(words) else standard_input_log()
    if log:
        return f"{said} standard input is a log:", [["annotate", "-m", next(iter(files_among(words)), "FILE"), log]]
    return f"{said} a verb's options come after the verb:", calls_by_options(words) or _by_files(words)


def _names_file_first(words: Sequence[str]) -> bool:
    """Whether an option of addr2line or llvm-symbolizer names FILE."""
    return any(word.partition("=")[0] in _FIRST or _LETTERS_AND_E.fullmatch(word) for word in words)


def calls_by_options(words: Sequence[str]) -> list[list[str]]:
    """The calls that are meant by words of which the first is an option, by a verb, an option of another tool, a
    command of gdb's or a place among them; none where these do not say."""
    at = next((number for number, word in enumerate(words) if understood([word])[0] in dict(VERBS)), None)
    if at is not None:
        return [[words[at], *words[:at], *words[at + 1 :]]]
    if _names_file_first(words):
        return [["symbolize", *words]]
    files, places = files_among(words), [word for word in words if is_place(word)]
    if "-ex" in words[:-1]:
        call = [*words[words.index("-ex") + 1].split(), *files]
        return [understood(call)] if understood(call)[0] in dict(VERBS) else no_verb(call)[1]
    if places and files and file_kind(files[0]) == "module":
        return [["symbolize", files[0], *places]]
    if "-fun" in words:
        return [["listing", *words]]
    return [each for each in [next(filter(None, (_by_option(tool, words) for tool in _BY_OPTION)), [])] if each]


def _by_files(words: Sequence[str]) -> list[list[str]]:
    """The calls that may be meant by options alone, by what the files among them are."""
    found = profile_among(words)
    if found.profile and any(word.lstrip("-").partition("=")[0] == "http" for word in words):
        return [found.view()]
    return calls_for(found.files[0], found.files[1:]) if found.files else []
