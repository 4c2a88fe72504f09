"""The files of a call: what each is by its first bytes, which call is for it, and verbs that take files in any order,
with their options or without."""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import click

from symd.errors import SymdError
from symd.formats.containers import identify, spirv

if TYPE_CHECKING:
    from symd.profiles.samples import SampledProfile

_HEAD = 1 << 26
"""Bytes of a file from which it is known for a profile."""
_LOG_HEAD = 1 << 14
"""Bytes of a text from which it is known for a log."""
PROSE = re.compile(r"[A-Za-z]{2,} +[A-Za-z]{2,}")
"""Two words side by side, as lines of logs have them and addresses do not."""
_QUERY = re.compile(r"[^(<]*[(<].*\+ *(?:0[xX][0-9a-fA-F]+|[0-9]+)\s*")
"""A function as it is written in the source, with its parameters, and an offset: a query that has several words."""
_COUNTER = re.compile(r"\b(?:PC|pc)[^\w+]{0,3}0[xX][0-9a-fA-F]")
"""A program counter, as logs name it; with a plus behind it, it is the end of a function's name."""
_WRITES = frozenset(("-o", "--out", "--output"))
"""Options for what a call writes."""
NAMED_IN_A_CALL = 4
"""The most modules that a call names one by one; a folder stands for more."""
_THE_PROFILE = re.compile(r"^the( [\w-]+)? profile\b")
_MODULES = ("file://", "modules/")
"""What begins the name of a module that is no path: a part of a file, or a daemon's module."""
_TABLE = b"PAR1"
"""What Parquet files begin with."""
PAGE = (".html", ".htm")
"""What the names of pages end with."""


def typed_words(context: click.Context) -> Sequence[str]:
    """The words behind symd."""
    words = context.find_root().obj
    return words if isinstance(words, tuple) else ()


def call_text(words: Sequence[str]) -> str:
    """A call as it is typed."""
    return f"symd {shlex.join(words)}"


def call_with(more: Sequence[str]) -> str:
    """The call under way, with ``more`` words behind its verb."""
    verb, *rest = typed_words(click.get_current_context()) or ("",)
    return call_text([verb, *more, *rest])


def with_word(words: Sequence[str], wrong: str, right: str) -> Sequence[str]:
    """The words with ``right`` for ``wrong``, which may have an option in front of it, and an offset or a value behind
    it; () where no word has it."""
    parts = re.compile(rf"(|--?[\w-]+=)({re.escape(wrong)})([+=].*|)", re.DOTALL)
    found = [parts.fullmatch(word) for word in words]
    if not any(found):
        return ()
    return [f"{each[1]}{right}{each[3]}" if each else word for word, each in zip(words, found, strict=True)]


def parted(words: Sequence[str], option: str = "-") -> list[str]:
    """The words of a call, with what an option has behind "=" as a word of its own; of options that begin so."""
    return [part for word in words for part in (word.split("=", 1) if word.startswith(option) else [word])]


def behind(words: Sequence[str], *options: str) -> str:
    """The word behind the first of some options in a call; "" for none."""
    return next((value for word, value in pairwise(words) if word in options), "")


def with_option(option: str, value: str, words: Sequence[str]) -> list[str]:
    """The words of a call, with an option in front of one of them."""
    return [part for word in words for part in ([option, word] if word == value else [word])]


def file_head(path: str) -> bytes:
    """The bytes of a file from which it is known for a profile or a module; b"" where it cannot be read."""
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - pathlib is slow to load
            return stream.read(_HEAD)
    except OSError:
        return b""


def load_profiles() -> ModuleType:
    """``symd.profiles``, imported now."""
    from symd import profiles  # noqa: PLC0415 - 60 to 110 ms: a call that is wrong

    return profiles


def profile_format(head: bytes) -> str | None:
    """The format of what begins so, where it is a profile and no module."""
    try:
        found = load_profiles().identify_file(head)
    except SymdError:
        return None
    return None if found is None else found.NAME


def profile_kind(path: str) -> str | None:
    """The format of a file that is a profile and no module."""
    return profile_format(file_head(path))


def file_kind(path: str) -> str:
    """What a file is by its first bytes: "profile", "module", "core" (a module, too), "table" or "text"; "" where it is
    nothing of these, or cannot be read."""
    head = file_head(path)
    if profile_format(head) is not None:
        return "profile"
    with suppress(SymdError):
        found = identify(head)
        if found is not None:
            return "core" if found.NAME.endswith("-core") else "module"
    if head.startswith(_TABLE):
        return "table"
    return "text" if head and b"\0" not in head else ""


def is_spirv(path: str) -> bool:
    """Whether a file is SPIR-V."""
    with suppress(SymdError):
        found = identify(file_head(path))
        return found is not None and found.NAME == spirv.NAME
    return False


def standard_input_file() -> str:
    """The path of the regular file that standard input is, from the working directory; "" where it is something
    else."""
    with suppress(OSError, ValueError):
        path = os.readlink(f"/proc/self/fd/{sys.stdin.fileno()}")  # noqa: PTH115 - pathlib is slow to load
        return os.path.relpath(path) if os.path.isfile(path) else ""  # noqa: PTH113 - as above
    return ""


def is_standard_input_sent() -> bool:
    """Whether something comes on standard input: it is a pipe or a socket, or a file that is not empty."""
    with suppress(OSError, ValueError):
        status = os.fstat(sys.stdin.fileno())
        return stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode) or status.st_size > 0
    return False


def standard_input_log() -> str:
    """The path of the file that standard input is, where that is a log: a text of which one of the first lines names a
    program counter, or has several words and is no query; "" elsewhere."""
    path = standard_input_file()
    lines = file_head(path)[:_LOG_HEAD].decode("utf-8", "replace").splitlines() if file_kind(path) == "text" else []
    is_log = any(_COUNTER.search(line) or (PROSE.search(line) and not _QUERY.fullmatch(line)) for line in lines)
    return path if is_log else ""


def calls_for(file: str, queries: Sequence[str] = ()) -> list[list[str]]:
    """The calls that are for a file by what it is, ``queries`` being typed behind it, among which may be other files;
    none where that is not known."""
    _, profile, modules = profile_among([file, *queries])
    if profile:
        return [call_about_profile("hot", modules, profile)]
    kind = file_kind(file)
    if kind == "module":
        if more := files_among(queries):
            return [["info", file, *more]]
        return [["info", file], ["symbolize", file, *(queries or ["ADDRESS"])]]
    call = {
        "core": ["core", file],
        "table": ["batch", "-m", "FILE", file, "OUT.parquet"],
        "text": ["annotate", "-m", "FILE", file],
    }.get(kind)
    return [call] if call else []


def files_among(words: Sequence[str]) -> list[str]:
    """The words that name files, or what follows "=" in them."""
    return [each for each in parted(words) if os.path.isfile(each)]  # noqa: PTH113 - pathlib is slow to load


class ProfileCall(NamedTuple):
    """The files of a call, the profile among these ("" for none), and the others, which may be its modules, with the
    names that they are given, as in NAME=FILE."""

    files: list[str]
    profile: str
    modules: list[str]

    @property
    def module(self) -> str:
        """The first of the modules, or the word that stands for one."""
        first = next(iter(self.modules), "FILE")
        return first if first in self.files else first.partition("=")[2] or first

    def view(self, *more: str) -> list[str]:
        """The call that shows the profile on a module's code in the browser."""
        return ["view", self.module, "--profile", self.profile or "PROFILE", *more]

    def listing(self, *more: str) -> list[str]:
        """The call that lists a module's code with the profile beside it."""
        return ["listing", *more, "--profile", self.profile or "PROFILE", self.module]


def profile_among(words: Sequence[str]) -> ProfileCall:
    """The files among some words, and what they are for each other."""
    written = {value for word, value in pairwise(words) if word in _WRITES}
    files = [each for each in files_among(words) if each not in written]
    profile = next((each for each in files if profile_kind(each) is not None), "")
    named = [each for each in parted(words) if each not in files and files_among(each.split("=", 1)[1:])]
    return ProfileCall(files, profile, [each for each in (*files, *named) if each != profile])


def page_about(verb: str, words: Sequence[str]) -> list[str]:
    """The call that writes the page of a module with a profile, where the words behind a verb about code or samples
    name both, and a page or --html; [] elsewhere, as where only the code around a place is asked for."""
    parts = parted(words)
    page = next((word for word in parts if word.endswith(PAGE)), "")
    is_asked = bool(page) or not {"--html", "-html"}.isdisjoint(parts)
    if verb not in _HAVE_PAGES or not is_asked or not _PARTS.isdisjoint(parts):
        return []
    found = profile_among(words)
    found = found._replace(modules=[each for each in found.modules if each != page])
    names = [
        word
        for before, word in pairwise(["", *parts])
        if not word.startswith("-") and word not in (page, *found.files) and (before in _FLAGS or before[:1] != "-")
    ]
    kept = [part for word, value in pairwise(parts) if word in _OF_PAGES for part in (_OF_PAGES[word], value)]
    kept += [part for each in names[:1] if verb == "listing" for part in ("--kernel", each)]
    return found.view(*kept, "-o", page or f"PAGE{PAGE[0]}") if found.profile and found.modules else []


_HAVE_PAGES = frozenset(("hot", "listing", "annotate", "lines"))
"""Verbs about code or samples, which a page shows together."""
_PARTS = frozenset(("--around", "--start-address", "--stop-address"))
"""Options for a part of the code, which no page shows alone."""
_FLAGS = frozenset(("--html", "-html", "--by-address"))
"""Options without a value that are in front of a function's name in calls of these."""
_FUNCTIONS = ("-k", "--kernel", "--function", "-s", "--symbol")
"""Options for a function in calls about code or samples."""
_OF_PAGES = {
    **dict.fromkeys(_FUNCTIONS, "--kernel"),
    **{each: each for each in ("--map", "--source-root", "--server")},
}
"""Options of verbs about code or samples, and what they are called for a page."""


def samples_on_code(words: Sequence[str]) -> list[str]:
    """The call that lists a module's code with a profile, where both are among the files of a call that annotates;
    [] elsewhere. What -m names is the module of a log, unless an option names the profile."""
    parts = parted(words, "--")
    is_named = not {*_PROFILES}.isdisjoint(parts)
    missing = behind(parts, *_PROFILES)
    files = parts if is_named else [word for before, word in pairwise(["", *parts]) if before not in _MODULE]
    found = profile_among(files) if len(files_among(files)) > 1 else None  # a log alone is not looked at: that is slow
    if missing and not os.path.lexists(missing) and files_among(parts):
        found = ProfileCall([], missing, [])
    elif found is None or not found.profile or not found.modules:
        return []
    names = [value for word, value in pairwise(parts) if word in _FUNCTIONS]
    left_out = {*_FUNCTIONS, *_PROFILES, *_MODULE, *names, found.profile}
    return ["listing", "--profile", found.profile, *(word for word in parts if word not in left_out), *names]


_MODULE = ("-m", "--module")
_PROFILES = ("-i", "-p", "--profile")
"""Options for a module, and for the profile, in calls that annotate."""


def word_for_modules(profile: str) -> str:
    """What stands for the modules of a profile in a call: FOLDER where it has several, else FILE."""
    with suppress(SymdError):
        return "FOLDER" if profile and len(_samples(profile).modules) > 1 else "FILE"
    return "FILE"


def call_about_profile(verb: str, modules: Sequence[str], profile: str, *more: str) -> list[str]:
    """The words of a call of symd hot or symd profile; where no modules are given, a word stands for them."""
    named = modules or [word_for_modules(profile)]
    return [verb, *(part for each in named for part in ("-m", each)), profile, *more]


@contextmanager
def naming_profile(source: str) -> Iterator[None]:
    """Raise errors about the profile with its file's name; ``source`` "-" is standard input."""
    try:
        yield
    except SymdError as error:
        name = "standard input" if source == "-" else source
        error.where = _THE_PROFILE.sub(lambda _: name, error.where)
        raise


def _samples(profile: str) -> SampledProfile:
    read: SampledProfile = load_profiles().samples(file_head(profile), load_profiles().Options())
    return read


def needs_module(words: Sequence[str]) -> bool:
    """Whether a call about a profile's hottest places names no module, and the profile has no lines of its own; or one
    that converts a profile, which has no symbols."""
    options = ("-m", "--module", "--server", "--by=stall")
    if any(word.startswith(options) for word in words) or ("--by", "stall") in pairwise(words):
        return False
    _, profile, modules = profile_among(words)
    if not profile or any(file_kind(each) == "module" for each in modules):
        return not profile
    with suppress(SymdError):
        read = _samples(profile)
        if any(word.partition("=")[0] == "--to" for word in words):
            return not any(address.frames for address in read.addresses)
        leaves = {sample.stack[0] for sample in read.samples if sample.stack}
        return not any(frame.line for each in leaves for frame in read.addresses[each].frames[:1])
    return True


def hottest_lines(modules: Sequence[str], profile: str) -> str:
    """The call that prints a profile's hottest lines, and that it does."""
    return f"{call_text(call_about_profile('hot', modules, profile))} prints its hottest lines"


def profile_for_a_module(path: str) -> str:
    """What to type where ``path``, which was given as a module, is a profile; "" where it is none."""
    kind, shown = profile_kind(path), shlex.quote(path)
    if kind is None:
        return ""
    return (
        f"it is a profile ({kind}): {hottest_lines((), path)}, symd view FILE --profile {shown} shows the code,"
        f" {call_text(call_about_profile('profile', (), path, 'OUT'))} writes it with source lines"
    )


def instead_of_a_query(file: str, words: Sequence[str]) -> str:
    """What to type where one of the words for places in FILE is a file: a profile, or else a log; "" elsewhere."""
    files, profile, modules = profile_among([file, *words])
    if profile:
        out = "-" if profile_kind(profile) == "folded" else "OUT"
        return (
            f"{profile} is a profile: {hottest_lines(modules, profile)},"
            f" {call_text(call_about_profile('profile', modules, profile, out))} writes it with source lines"
        )
    meant = next((each for each in files if each != file), None)
    if meant is None:
        return ""
    return f"it is a file; if it is a log, {call_text(['annotate', '-m', file, meant])} adds source lines to it"


class _Word(str):
    """A word of a call, which is another object than the same word elsewhere in it."""

    __slots__ = ()


def _parsed(
    command: click.Command, context: click.Context, words: list[_Word]
) -> tuple[Mapping[str, object], list[_Word]]:
    """The values of a command's parameters in a call, and those of its words that are arguments; none of both where the
    call is wrong."""
    try:
        found, left, _ = command.make_parser(context).parse_args(list(words))
    except click.UsageError:
        return {}, []
    arguments = [found.get(str(each.name)) for each in command.params if isinstance(each, click.Argument)]
    values = {
        id(each) for value in (*arguments, left) for each in (value if isinstance(value, (tuple, list)) else [value])
    }
    return found, [each for each in words if id(each) in values]


def with_file_first(command: click.Command, context: click.Context, words: list[str]) -> list[str]:
    """The words behind a verb about FILE with FILE in front of what is asked about it: the only argument that is a
    module, where the first one is none."""
    first = next((each for each in command.params if isinstance(each, click.Argument)), None)
    if first is None or first.name != "file" or "--" in words or not files_among(words):
        return words
    typed = [_Word(each) for each in words]
    _, arguments = _parsed(command, click.Context(command, context), typed)
    files = [each for each in arguments if os.path.isfile(each)]  # noqa: PTH113 - pathlib is slow to load
    if not files or arguments[0] == "-" or arguments[0].startswith(_MODULES) or files == arguments[:1]:
        return words
    files = [each for each in files if file_kind(each) in ("module", "core")]
    if len(files) != 1 or files[0] is arguments[0] or os.path.isdir(arguments[0]):  # noqa: PTH112 - as above
        return words
    return [str(files[0]), *(str(each) for each in typed if each is not files[0])]


class FilesInAnyOrder(click.Command):
    """A verb that takes files with their option or without: one about a profile, a core dump or a log puts -m in front
    of the modules beside it, one about a module --profile in front of the profile to show on it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Called by click with the words behind the verb."""
        if ctx.resilient_parsing:  # a shell completes the call, as it stands
            return super().parse_args(ctx, args)
        words, about = [_Word(each) for each in args], _ABOUT.get(str(self.name))
        option = "-m" if about else "--profile"
        found, arguments = _parsed(self, ctx, words)
        is_given = any(found.get(str(each.name)) for each in self.params if option in each.opts)
        moved = {id(each) for each in ([] if is_given else _without_option(arguments, about))}
        return super().parse_args(
            ctx, [str(part) for each in words for part in ((option, each) if id(each) in moved else (each,))]
        )


_ABOUT = {"hot": "profile", "profile": "profile", "core": "core", "annotate": "text"}
"""The verbs that are about files of one kind, beside which modules are given; others are about a module."""


def _without_option(words: Sequence[_Word], about: str | None) -> Sequence[_Word]:
    """The arguments of a call that lack their option: the modules beside a file of the kind that the verb is ``about``,
    or the one profile beside a module."""
    kinds = _kinds(words)
    moved = [word for word, kind in zip(words, kinds, strict=True) if kind == ("module" if about else "profile")]
    if about:
        return moved if about in kinds or "-" in words else []
    return moved if len(moved) == 1 and not {"module", "core"}.isdisjoint(kinds) else []


def _kinds(words: Sequence[str]) -> list[str]:
    """What the words are, by the bytes of the files that they name; "" for what is neither. No file is read where only
    one of the words is a file or standard input: it is where it belongs."""
    files = [os.path.isfile(each) for each in words]  # noqa: PTH113 - pathlib is slow to load
    if sum(files) + words.count("-") < 2:
        return [""] * len(words)
    return [file_kind(word) if is_file else "" for word, is_file in zip(words, files, strict=True)]
