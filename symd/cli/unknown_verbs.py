"""What is said of a word that is no verb, and the calls that may be meant by it: by what other tools mean with it, by
its spelling, or by the files and options behind it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from symd.cli.call_files import (
    PAGE,
    behind,
    calls_for,
    file_kind,
    files_among,
    is_spirv,
    page_about,
    parted,
    profile_among,
    standard_input_log,
)
from symd.cli.debugger_commands import batch_commands, gdb_call, is_frame, lldb_call
from symd.cli.other_tools import IN_A_BROWSER
from symd.cli.verbs import VERBS, call_by_any_option, full_name, is_at_once, keys_of, names_file_first, understood
from symd.model.addresses import is_number, is_place
from symd.system.messages import alike

MEANT: Final = {
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
    "symd daemon start starts a daemon in the background, symd symbolize --server default FILE ADDRESS asks it,"
    " symd daemon status shows how it is doing, symd daemon stop ends it"
)
_DIFF: Final = (
    "symd info A B shows what is in two files, symd verify FILE compares two readings of one,"
    " and go tool pprof -diff_base two profiles that symd profile wrote"
)
_EXPLAINED: Final = {
    "symd hot -m FILE PROFILE prints the hottest lines, and symd view FILE --profile PROFILE -o PAGE writes a page": "report",
    "symd info FILE says what a file is, and symd profile --to writes pprof, folded, speedscope, perfetto and firefox": "formats",
    "symd names -C FILE NAME shows the readable name": "c++filt cu++filt",
    "symd setup samples . writes them into this folder": "examples",
    _DIFF: "diff delta compare",
    "symd symbolize FILE PLACE shows the callers that PLACE is inlined into, and symd hot -m FILE PROFILE --by instruction those of a profile": "inline inlines inlined caller callers",
    "samples of Nsight Compute are read as folded stacks, one line KERNEL+0xOFFSET COUNT for each instruction: symd hot -m FILE PROFILE prints the hottest lines": "ncu",
    "symd listing FILE shows machine code beside its source, and symd lines --level ptx FILE the lines of the PTX that it was compiled from": "ptx",
    "symd VERB --help explains a verb, docs/quickstart.md begins at the beginning, and docs/index.md lists the pages": "man docs tutorial quickstart",
    "the daemon writes its log to standard error (docs/operations.md), and symd daemon watch follows what happens to modules": "logs",
    "write symd --version": "version",
    "symd daemon stop ends the daemon, and symd daemon start starts it": "restart",
    "a debugger runs the program, and symd answers it: docs/tutorials/debugger.md": "step next stepi nexti finish continue c s n",
    "symd setup samples DIR copies the extension (vscode) and the debug adapter (clients/debug_adapter.py): docs/integrations.md": "vscode code editor dap",
}
"""What to do, and the words for it that mean no verb."""


_ASK_FOR_A_SUM: Final = ("--by", "-lines", "--lines", "--sort", "--group", "--order", "--stall", "--kernels")
"""What words begin with that ask for a sum in reports of other tools."""


def no_verb(words: Sequence[str], above: str = "") -> tuple[str, list[list[str]]]:
    """What is said of the first of ``words``, which is no verb, and the calls that may be meant, by its meaning or its
    spelling; ``above`` is the verb in front of it."""
    typed, rest = words[0], list(words[1:])
    said = f"no verb {f'{above} {typed}'.lstrip()!r}"
    if not above and (asked := lldb_call(words)):
        return f"{asked.command!r} is a command of LLDB", _calls_of(asked.words)
    if not above and os.path.lexists(typed) and (calls := _of_a_batch(words)):
        return "a verb comes before the file:", calls
    if not above and (call := gdb_call(words)):
        return f"{said}; did you mean {call[0]}?", [call]
    if not above and rest and typed in _WITH_VERBS and (calls := _of_a_tool(rest)):
        return said, calls
    return _by_meaning(said, words if above or typed not in _STACKS else _of_a_stack(words), above)


def _of_a_stack(words: Sequence[str]) -> list[str]:
    """A debugger's command for a stack without the words that choose its frames, and with the words for what is missing
    where a module is not asked for a place."""
    rest = [word for word in words[1:] if not is_frame(word)]
    is_asked = any(file_kind(each) != "module" for each in rest)
    return [words[0], *rest] if is_asked else [words[0], *(rest or ["FILE"]), "ADDRESS"]


def _by_meaning(said: str, words: Sequence[str], above: str) -> tuple[str, list[list[str]]]:
    """What is said behind ``said`` of the first of ``words``, by its own meaning or spelling, and the calls that may be
    meant."""
    typed, rest = words[0], list(words[1:])
    meant = _meant(typed)
    if typed == "list" and not rest:
        meant = ["daemon modules"]
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
    page = page_about(meant[0].split()[0], rest)
    calls = [page] if page else [[*verb.split(), *(rest or _ALONE.get(verb, ()))] for verb in meant]
    if meant[0].startswith("profile") and any(word.endswith(PAGE) for word in rest):  # no profile: the call is mended
        return f"{said}; {IN_A_BROWSER}:" if meant[0].endswith("speedscope") else said, calls
    return f"{said}; did you mean {'view' if page else ' or '.join(meant)}?", calls


def _calls_of(words: list[str]) -> list[list[str]]:
    """The calls that words are which may begin with a verb, or with a word for one."""
    asked = understood(words)
    if lldb_call(words) or asked[0] not in dict(VERBS):
        return no_verb(words)[1]
    return [asked if is_at_once(asked) else [*full_name(words[0]).split(), *words[1:]]]


def _of_a_tool(words: list[str]) -> list[list[str]]:
    """The calls that are meant by what follows the name of a tool that has verbs of its own."""
    if calls := _of_a_batch(words):
        return calls
    return _calls_of(words) if _is_known(words) and not words[0].startswith("-") else _of_a_core(words)


def _is_known(words: Sequence[str]) -> bool:
    """Whether a call begins with a verb, or with a command or a word of other tools for one."""
    is_command = lldb_call(words) or gdb_call(words)
    return bool(understood(words)[0] in dict(VERBS) or is_command or _meant(words[0]))


def _of_a_batch(words: Sequence[str]) -> list[list[str]]:
    """The calls that are meant by the first command that gdb or LLDB is to run by an option, with the files beside it;
    that about a core dump where it is none of symd's."""
    command = next(iter(batch_commands(words)), [])
    calls = _calls_of(command) if command and _is_known(command) else []
    return calls or (_of_a_core(words) if command else [])


def _of_a_core(words: Sequence[str]) -> list[list[str]]:
    """The call about the core dump among some files, and the modules beside it."""
    kinds = {file: file_kind(file) for file in files_among(words)}
    core = next((file for file, kind in kinds.items() if kind == "core"), "")
    return [["core", core, *(file for file, kind in kinds.items() if kind == "module")]] if core else []


def batch_calls(words: Sequence[str]) -> list[list[str]]:
    """The calls that are meant by several commands that gdb or LLDB is to run by options, each once; [] where there is
    one or none."""
    commands = batch_commands(words) if words and words[0] not in dict(VERBS) else []
    if len(commands) < 2:
        return []
    files = files_among(words)
    calls: dict[tuple[str, ...], list[str]] = {}
    for command in commands:
        one = ["-ex", " ".join(command[: len(command) - len(files)]), *files]
        meant = [understood(call) for call in _of_a_batch(one)]
        calls.setdefault(tuple(next(iter(meant), one)), one)
    return [*calls.values()]


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


_STACKS: Final = ("bt", "backtrace", "frame", "frames", "stack")
"""Commands of debuggers for a stack, or for one of its frames."""
_ALONE: Final[Mapping[str, Sequence[str]]] = {"symbolize": ("FILE",), "collect": ("FOLDER",)}
"""What a verb does not do without, although it can be called so."""
_WITH_VERBS: Final = frozenset(
    ("perf", "ocloc", "gdb", "cuda-gdb", "rocgdb", "gdb-oneapi", "lldb", "nsys", "ncu", "symd", "llvm")
)
"""Tools that have verbs of their own."""


def call_at_once(words: Sequence[str]) -> list[str]:
    """The only call that may be meant by words of which the first is no verb, where it is about a file that is there;
    [] elsewhere."""
    _, calls = ("", []) if _is_in_part(words) else no_verb(words)
    (call,) = calls if len(calls) == 1 else ([""],)
    asked = lldb_call(words)
    typed = asked.words[0] if asked else words[0]
    is_meant = typed in dict(VERBS) or _meant(typed) or batch_commands(words)
    return call if is_at_once(call) and is_meant else []


def _is_in_part(words: Sequence[str]) -> bool:
    """Whether a call has a command of LLDB which symd answers only with more words, or not all of it."""
    commands = map(lldb_call, (words, words[1:], *batch_commands(words)[:1]))
    return any(each is not None and not each.is_whole for each in commands)


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
    command = next(iter(batch_commands(words)), [])
    if command and understood(command)[0] not in dict(VERBS):
        return no_verb(command)
    log = "" if any(map(is_place, words)) or not names_file_first(words) else standard_input_log()
    if log:
        return "standard input is a log:", [["annotate", "-m", next(iter(files_among(words)), "FILE"), log]]
    if names_file_first(words) and files_among(words) and not any(map(is_place, words)):
        return "no address is given, and none comes on standard input:", [["symbolize", *words, "ADDRESS"]]
    return f"{said} a verb's options come after the verb:", calls_by_options(words) or _by_files(words)


_CORE: Final = ("-c", "-core", "--core")
"""Options by which gdb and LLDB are given a core dump."""


def calls_by_options(words: Sequence[str]) -> list[list[str]]:
    """The calls that are meant by words of which the first is an option, by a verb, an option of another tool, a
    command of gdb's or a place among them; none where these do not say."""
    if core := _of_a_core(words) if behind(parted(words), *_CORE) else []:
        return core
    at = next((number for number, word in enumerate(words) if understood([word])[0] in dict(VERBS)), None)
    if at is not None:
        return [[words[at], *words[:at], *words[at + 1 :]]]
    if names_file_first(words):
        return [["symbolize", *words]]
    files, places = files_among(words), [word for word in words if is_place(word)]
    if calls := _of_a_batch(words):
        return [] if _is_in_part(words) else [understood(each) for each in calls]
    if places and files and file_kind(files[0]) == "module" and not batch_commands(words):
        return [["symbolize", files[0], *places]]
    call = ["listing", *words] if "-fun" in words else call_by_any_option(words)
    return [call] if call else []


def _by_files(words: Sequence[str]) -> list[list[str]]:
    """The calls that may be meant by options alone, by what the files among them are."""
    found = profile_among(words)
    if found.profile and any(word.lstrip("-").partition("=")[0] == "http" for word in words):
        return [found.view()]
    return calls_for(found.files[0], found.files[1:]) if found.files else []
