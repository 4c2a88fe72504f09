"""What to type instead of a call that is wrong: the whole call where it is nearly right, the option that a word belongs
to, what other tools call an option, and an example."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import click

from symd.cli.options import first_example
from symd.errors import SymdError
from symd.model.addresses import is_place
from symd.model.texts import alike

_PROFILE_VERBS = ("profile", "hot", "record")
"""Verbs of which other tools have some that start a program and sample it."""
_NO_SAMPLES = (
    "symd does not sample a program:",
    " collects its modules, and symd profile and symd hot read what a profiler wrote",
)
_ONE_FILE = ("listing", "lines", "view")
"""Verbs that take FILE alone, and places in it by options."""
_HEAD = 1 << 26
"""Bytes of a file from which it is known for a profile."""
_ALIKE = 0.6000001
"""The least part of an option's name that is that of another which it may stand for: more than six letters of ten."""
_SOURCE_LINE = re.compile(r"[^:]*\.\w+:[0-9]+(:[0-9]+)?", re.ASCII)
_MOST_ERRORS = 8
"""Errors of one call that are mended before it is given up."""


class Advice(NamedTuple):
    """What to do instead: ``text``, which the whole call of ``words`` follows where there are any, and then ``after``.
    ``otherwise`` is said where that call would be refused too."""

    text: str
    words: Sequence[str] = ()
    after: str = ""
    otherwise: str = ""


_NOTHING = Advice("")


class MissingOut(click.UsageError):
    """The call does not say where its result goes; ``words`` is the call with a place for it."""

    def __init__(self, message: str, context: click.Context) -> None:
        super().__init__(message, context)
        self.words = [*_typed(context), "-o", "OUT"]


def usage_text(error: click.ClickException) -> str:
    """What is said of a call that is wrong: click's words, what to write instead, and whose help says more."""
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return f"{error.format_message().rstrip('.')} (see symd --help)"
    context = error.ctx
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        near = _near(error.option_name, error.possibilities)
        error = click.NoSuchOption(error.option_name, possibilities=near, ctx=context)
    verb = context.command_path
    said = error.format_message().rstrip(".")
    advice = _advice(error, said, context)
    if advice == _NOTHING and (respelled := _respelled(error, context)):
        called = whole_call(respelled, context)
        return f"{said} Write {called} (see {verb} --help)" if called else f"{said} (see {verb} --help)"
    shown = _shown(advice, context)
    if shown and isinstance(error, click.NoSuchOption):
        said = f"No such option {error.option_name!r}"  # without the options that are spelled like it
    return f"{said}{f'; {shown}' if shown else ''} (see {verb} --help)"


def _shown(advice: Advice, context: click.Context) -> str:
    """The advice as it is printed."""
    if not advice.words:
        return advice.text
    called = whole_call(advice.words, context)
    return f"{advice.text} {called}{advice.after}" if called else advice.otherwise


def whole_call(words: Sequence[str], context: click.Context) -> str:
    """The call as it is printed, with what else would be refused in it mended; "" where that is not known."""
    mended = _mended(words, context.find_root().command)
    return _call(mended) if mended else ""


def _mended(words: Sequence[str], group: click.Command) -> Sequence[str]:
    """A call that is not refused: ``words`` with one error after the other mended; () where one cannot be."""
    for _ in range(_MOST_ERRORS):
        error = _refusal(words, group)
        if error is None:
            return words
        words = _instead(error)
        if not words:
            break
    return ()


def _refusal(words: Sequence[str], group: click.Command) -> Exception | None:
    """The error that the call would be refused with; it is parsed, and nothing is done."""
    context, rest = click.Context(group, info_name="symd", obj=tuple(words)), list(words)
    if not {"-h", "--help", "--version"}.isdisjoint(words):
        return None
    try:
        while isinstance(context.command, click.Group) and rest:
            name, command, rest = context.command.resolve_command(context, rest)
            if isinstance(command, click.Group):
                context = click.Context(command, context, name)
            elif command is not None:
                context = command.make_context(name, rest, context)
    except (click.ClickException, SymdError) as error:
        return error
    return None


def _instead(error: Exception) -> Sequence[str]:
    """The words of the call that is meant by one that is refused; () where that is not known."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None or not isinstance(error, click.UsageError):
        return ()
    if isinstance(error, MissingOut):
        return error.words
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Argument):
        return [*_typed(context), error.param.human_readable_name.strip("[].")]
    advice = _advice(error, error.format_message().rstrip("."), context)
    return advice.words or (_respelled(error, context) if advice == _NOTHING else ())


def _respelled(error: click.UsageError, context: click.Context) -> Sequence[str]:
    """The words of the call with the one option that a wrong one is like; () where there is none, or several."""
    near = _near(error.option_name, error.possibilities or ()) if isinstance(error, click.NoSuchOption) else ()
    if not isinstance(error, click.NoSuchOption) or len(near) != 1:
        return ()
    return _replaced(_typed(context), error.option_name, near[0])


def _replaced(words: Sequence[str], wrong: str, right: str) -> Sequence[str]:
    """The words with ``right`` for ``wrong``, which may have an option in front of it, and an offset or a value behind
    it; () where no word has it."""
    parts = re.compile(rf"(|--?[\w-]+=)({re.escape(wrong)})([+=].*|)", re.DOTALL)
    found = [parts.fullmatch(word) for word in words]
    if not any(found):
        return ()
    return [f"{each[1]}{right}{each[3]}" if each else word for word, each in zip(words, found, strict=True)]


def corrected(words: Sequence[str], wrong: str, meant: Sequence[str]) -> str:
    """The whole call with what may be ``meant`` by ``wrong``, the first two of these; "" where no word of the call has
    it."""
    calls = (_replaced(words, wrong, right) for right in [*dict.fromkeys(meant)][:2])
    return " or ".join(_call(each) for each in calls if each)


def corrected_call(wrong: str, meant: Sequence[str]) -> str:
    """``corrected`` for the call under way."""
    return corrected(_typed(click.get_current_context()), wrong, meant)


def call_with(more: Sequence[str]) -> str:
    """The call under way, with ``more`` words behind its verb."""
    verb, *rest = _typed(click.get_current_context()) or ("",)
    return _call([verb, *more, *rest])


_DID_YOU_MEAN = re.compile(r"did you mean (.+)\?", re.DOTALL)


def with_call(error: SymdError, words: Sequence[str]) -> str:
    """The hint of an error. Where it says what may be meant by a word of the call, the whole call follows."""
    hint = _DID_YOU_MEAN.fullmatch(error.hint)
    if hint is None:
        return error.hint
    meant = [shlex.split(each)[0] if each.startswith("'") else each for each in hint[1].split(" or ")]
    quoted = re.search(r"'(.+?)'$", error.message)
    called = corrected(words, quoted[1] if quoted else error.where, meant)
    return f"{error.hint} Write {called}" if called else error.hint


def instead_of_a_query(file: str, words: Sequence[str]) -> str:
    """What to type where one of the words for places in FILE is a file: a profile, or else a log; "" elsewhere."""
    meant = next((each for each in words if os.path.isfile(each)), None)  # noqa: PTH113 - pathlib is slow to load
    if meant is None:
        return ""
    if (kind := profile_kind(meant)) is not None:
        out = "-" if kind == "folded" else "OUT"
        return (
            f"it is a profile: {hottest_lines(file, meant)},"
            f" {_call(['profile', '-m', file, meant, out])} writes it with source lines"
        )
    return f"it is a file; if it is a log, {_call(['annotate', '-m', file, meant])} adds source lines to it"


def _near(option: str, others: Sequence[str]) -> list[str]:
    """The options that ``option`` may be a misspelling of."""
    bare = option.lstrip("-")
    return [each for each in others if alike(each.lstrip("-"), [bare], least=_ALIKE)]


def file_head(path: str) -> bytes:
    """The bytes of a file from which it is known for a profile or a module; b"" where it cannot be read."""
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - pathlib is slow to load
            return stream.read(_HEAD)
    except OSError:
        return b""


def profile_format(head: bytes) -> str | None:
    """The format of what begins so, where it is a profile and no module."""
    from symd import profiles  # noqa: PLC0415 - 60 to 110 ms: a call that is wrong

    try:
        found = profiles.identify_file(head)
    except SymdError:
        return None
    return None if found is None else found.NAME


def profile_kind(path: str) -> str | None:
    """The format of a file that is a profile and no module."""
    return profile_format(file_head(path))


def hottest_lines(module: str, profile: str) -> str:
    """The call that prints a profile's hottest lines, and that it does."""
    return f"{_call(['hot', '-m', module, profile])} prints its hottest lines"


def profile_for_a_module(path: str) -> str:
    """What to type where ``path``, which was given as a module, is a profile; "" where it is none."""
    kind, shown = profile_kind(path), shlex.quote(path)
    if kind is None:
        return ""
    return (
        f"it is a profile ({kind}): {hottest_lines('MODULE', path)},"
        f" symd view MODULE --profile {shown} shows the code,"
        f" symd profile -m MODULE {shown} OUT writes it with source lines"
    )


def _advice(error: click.UsageError, said: str, context: click.Context) -> Advice:
    """What to write instead, where that is known."""
    verb, typed = str(context.info_name), _typed(context)
    if verb in _PROFILE_VERBS and "--" in typed:
        before, after = _NO_SAMPLES
        return Advice(before, _run_of(typed), after)
    if verb == "annotate" and (words := _of_samples(typed)):
        return Advice("for samples write", words)
    if isinstance(error, click.NoSuchOption):
        return _other_option(error.option_name, verb, typed)
    if isinstance(error, click.BadParameter) and error.param is not None and not said.startswith("Missing "):
        return Advice(
            next((each.advice for each in _VALUES if each.is_meant(verb, error.param.opts, error.message)), "")
        )
    if said.startswith("Missing ") and "write, for example" not in said:
        return Advice(f"write, for example: {shown}") if (shown := _example(context)) else _NOTHING
    return _misplaced(error.message, verb, context)


def _run_of(typed: Sequence[str]) -> list[str]:
    """The call that captures the modules of a program which is to be sampled."""
    at = typed.index("--")
    folder = next((typed[number + 1] for number in range(at - 1) if typed[number] in ("-o", "--out", "--output")), "")
    return ["run", *(["--out", folder] if folder else []), *typed[at:]]


def _typed(context: click.Context) -> Sequence[str]:
    """The words behind symd."""
    words = context.find_root().obj
    return words if isinstance(words, tuple) else ()


def _call(words: Sequence[str]) -> str:
    return f"symd {' '.join(map(shlex.quote, words))}"


def _example(context: click.Context) -> str:
    """The first example of the verb's help, with FILE as it was typed."""
    shown, file = first_example(context.command), context.params.get("file")
    words = shown.split(" ", 3)
    if isinstance(file, str) and len(words) > 2 and not words[2].startswith("-"):
        words[2] = shlex.quote(file)
    return " ".join(words)


class _OptionOfOthers(NamedTuple):
    """Options as other tools have them, what is typed instead ("" where nothing is), and why. What ``instead`` has
    after a space begins the value."""

    verbs: str
    options: str
    instead: str | None
    why: str = ""


_ASKS_A_DAEMON = "status health stop modules rm fetch contexts watch record symbolize listing locate variables info names lines view hot profile"
_OPTIONS: Final = (
    _OptionOfOthers("hot", "--sort --sort-by --group-by", "--by"),
    _OptionOfOthers("hot", "--csv", "--json"),
    _OptionOfOthers("hot", "-addresses --addresses -instructions --instructions", "--by=instruction"),
    _OptionOfOthers("hot", "-functions --functions", "--by=function"),
    _OptionOfOthers("hot", "-files --files", "--by=file"),
    _OptionOfOthers("hot", "-kernels --kernels", "--by=kernel"),
    _OptionOfOthers("hot", "--nodecount", "-n"),
    _OptionOfOthers("hot profile", "--sample_index --sample-index", "--value"),
    _OptionOfOthers("hot", "-cum --cum", None, "a sample counts where it was taken; symd profile IN OUT.pb.gz writes lines for go tool pprof -top -cum"),
    _OptionOfOthers("hot", "-focus --focus --ignore --show", None, "--json prints an object per place to choose from, and symd listing --profile PROFILE --function NAME FILE shows one kernel"),
    _OptionOfOthers("hot", "-http --http --port", None, "symd view FILE --profile PROFILE opens a page"),
    _OptionOfOthers("hot", "--sum --total", "", "values are summed by place, and the first line has their total"),
    _OptionOfOthers("hot", "-k --kernel", None, "write --by kernel, or for one kernel symd listing --profile PROFILE --function NAME FILE"),
    _OptionOfOthers("hot info names lines listing symbolize", "-o --output", None, "the answer goes to standard output; add > OUT to write it to a file"),
    _OptionOfOthers("listing", "-D -r --disassemble-all --reloc --dump-sass -sass", "", "instructions and their source lines are always shown"),
    _OptionOfOthers("listing", "--address --addr --pc", "--around"),
    _OptionOfOthers("listing", "--disassemble-symbols --symbol --kernels", "--function"),
    _OptionOfOthers("view listing", "-p", "--profile"),
    _OptionOfOthers("view", "--port --http", None, "write --address 127.0.0.1:PORT"),
    _OptionOfOthers("serve", "--port", None, "write --address HOST:PORT (gRPC) or --http HOST:PORT (browsers)"),
    _OptionOfOthers("serve", "-d -D --daemon --daemonize --detach --background", None, "symd serve & runs it in the background; docs/operations.md has a service for systemd"),
    _OptionOfOthers("serve", "--stop --restart --status", None, "write symd daemon stop, or symd daemon status"),
    _OptionOfOthers("attach", "-p --pid", "", "PID needs no option"),
    _OptionOfOthers("core annotate hot profile batch", "-e --exe --obj --symbols", "-m"),
    _OptionOfOthers("run attach collect", "--output --outdir", "--out"),
    _OptionOfOthers(_ASKS_A_DAEMON, "--socket", "--server unix:"),
    _OptionOfOthers("serve", "--socket", "--address unix:"),
    _OptionOfOthers("info", "-sass --dump-sass", None, "symd listing FILE shows instructions"),
    _OptionOfOthers(_ASKS_A_DAEMON, "--host --port --url", None, "write --server HOST:PORT or --server unix:PATH"),
)  # fmt: skip


def _other_option(option: str, verb: str, typed: Sequence[str]) -> Advice:
    """What to write instead of an option that the verb does not have."""
    if (advice := _special(option, verb, typed)) != _NOTHING:
        return advice
    long = {option, *(word.partition("=")[0] for word in typed if len(option) == len("-x") and word.startswith(option))}
    found = next((each for each in _OPTIONS if verb in each.verbs.split() and long & {*each.options.split()}), None)
    if found is None:
        return _NOTHING
    if found.instead is None:
        return Advice(found.why)
    instead = {
        name: each.instead
        for each in _OPTIONS
        if verb in each.verbs.split() and each.instead is not None
        for name in each.options.split()
    }
    words: list[str] = []
    rest = iter(typed)
    for word in rest:  # what is typed next must not be refused for another option
        name, equals, value = word.partition("=")
        if name in instead:
            meant, begins, prefix = instead[name].partition(" ")
            if begins:
                equals, value = "=", prefix + (value if equals else next(rest, ""))
            words += filter(None, [meant, value if equals else ""])
        elif re.fullmatch(r"-[A-Za-z]{2,}", word):  # several options of one letter
            letters = "".join(letter for letter in word[1:] if instead.get(f"-{letter}") != "")
            words += [f"-{letters}"] if letters else []
        else:
            words.append(word)
    said = f"{found.why}: write" if found.why else "write"
    return Advice(said, words, otherwise=found.why or f"write {found.instead}")


def _special(option: str, verb: str, typed: Sequence[str]) -> Advice:
    """What to write instead of an option that stands for another call."""
    if verb == "symbolize" and option in ("-o", "--output"):
        files, profile, module = _profile_among(typed)
        if profile:
            out = dict(pairwise(typed)).get(option, "OUT")
            words = ["profile", "-m", module, profile, out if out not in files else "OUT"]
            return Advice("it is a profile:", words, " writes it with source lines")
    if re.fullmatch(r"-[0-9]", option):
        return Advice("addresses are not negative")
    if verb == "hot" and option in ("-l", "-list", "--list") and (words := _one_function(option, typed)):
        return Advice("write", words)
    if verb in ("symbolize", "variables") and option in ("--kernel", "-k", "--function", "--section", "-j"):
        return Advice(_in_the_query(option, typed))
    return _NOTHING


def _one_function(option: str, typed: Sequence[str]) -> list[str]:
    """The call that lists a function with its samples, as ``pprof -list=FUNCTION`` does."""
    words = [part for word in typed for part in (word.split("=", 1) if word.startswith("-") else [word])]
    if option not in words and "-list" not in words:
        return []
    after = dict(pairwise(words))
    name = after.get("-list") or after.get("--list") or "NAME"
    module = after.get("-m") or after.get("--module") or "FILE"
    files = [each for each in words if each not in (name, module) and os.path.isfile(each)]  # noqa: PTH113 - pathlib is slow to load
    return ["listing", "--function", name, "--profile", *(files[:1] or ["PROFILE"]), module]


def _profile_among(words: Sequence[str]) -> tuple[list[str], str, str]:
    """The files among some words, the profile among these ("" for none), and another one, which may be its module."""
    files = [each for each in words if os.path.isfile(each)]  # noqa: PTH113 - pathlib is slow to load
    profile = next((each for each in files if profile_kind(each) is not None), "")
    return files, profile, next((each for each in files if each != profile), "FILE")


def _of_samples(typed: Sequence[str]) -> list[str]:
    """The call that shows samples on a module's code, where a profile is among the files of one that annotates a log;
    [] elsewhere."""
    words = [part for word in typed[1:] for part in (word.split("=", 1) if word.startswith("--") else [word])]
    files, profile, module = _profile_among(words)
    if not profile:
        return []
    name = next((each for each in words if not each.startswith("-") and each not in files), "")
    return ["listing", module, name, "--profile", profile] if name else ["hot", "-m", module, profile]


def _in_the_query(option: str, typed: Sequence[str]) -> str:
    """The query that says whose offset a number is, where an option says it in other tools."""
    is_section = option in ("--section", "-j")
    words = [part for word in typed for part in (word.split("=", 1) if word.startswith(f"{option}=") else [word])]
    value, number = "".join(words[words.index(option) + 1 :][:1]), words[-1]
    if not value or number == value or not re.fullmatch(r"0[xX][0-9a-fA-F]+|[0-9]+", number, re.ASCII):
        value, number = ("SECTION" if is_section else "FUNCTION"), "OFFSET"
    return f"write {shlex.quote(f'({value})+{number}' if is_section else f'{value}+{number}')}"


class _ValueOfOthers(NamedTuple):
    """A value that an option does not take, as its error begins, and what to write instead."""

    verbs: str
    option: str
    value: str
    advice: str

    def is_meant(self, verb: str, options: Sequence[str], message: str) -> bool:
        return verb in self.verbs.split() and self.option in options and re.match(self.value, message) is not None


_VALUES: Final = (
    _ValueOfOthers("profile", "--to", "'(flame.*|svg|html)'", "--to folded for flamegraph.pl and inferno, --to speedscope for a flame graph in a browser"),
    _ValueOfOthers("profile", "--to", "'(chrome|trace|json|ctf)'", "--to perfetto opens in ui.perfetto.dev, --to speedscope in www.speedscope.app"),
    _ValueOfOthers("profile", "--to", "'(gecko|collapsed|perf|pb|proto)'", "--to firefox, --to folded and --to pprof are these formats' names"),
    _ValueOfOthers("hot", "--by", "'(stall.*|reasons?)'", "--by stall sums by stall reason"),
    _ValueOfOthers("hot", "--limit", "'[0-9]+'", "-n N shows N places"),
    _ValueOfOthers("hot", "--top", "'odecount", "-n N shows N places"),
    _ValueOfOthers("hot", "--top", "-", "-n 0 shows all"),
    _ValueOfOthers("grab", "--device", "'", "--simulate PRODUCT builds for a device that is not here"),
)  # fmt: skip


def file_first(verb: str, file: str, words: Sequence[str]) -> str:
    """The call in the right order, where FILE is not there and one of the words behind it is; "" elsewhere."""
    turned = _file_first(verb, file, words)
    return f"FILE comes first: {_call(turned)}" if turned else ""


def _file_first(verb: str, file: str, words: Sequence[str]) -> list[str]:
    """The words of that call."""
    meant = next((each for each in words if os.path.isfile(each)), None)  # noqa: PTH113 - pathlib is slow to load
    if meant is None or os.path.exists(file):  # noqa: PTH110 - as above
        return []
    return _with_place(verb, meant, [file, *(each for each in words if each != meant)])


def _with_place(verb: str, file: str, words: Sequence[str]) -> list[str]:
    """The words of the call about places in FILE, with the options that name them."""
    place = words[0]
    if verb in _ONE_FILE and _SOURCE_LINE.fullmatch(place):
        return ["locate", *(["--all"] if verb == "lines" else []), file, place]
    if verb == "listing":
        return [verb, file, "--around" if is_place(place) else "--function", place]
    if verb == "lines":
        return ["symbolize", file, place] if is_place(place) else [verb, "--kernel", place, file]
    return [verb, file, *words]


def _with_option(option: str, value: str, context: click.Context) -> list[str]:
    """The words of a call, with an option in front of one of them."""
    return [part for word in _typed(context) for part in ([option, word] if word == value else [word])]


def _file_of(context: click.Context) -> str:
    """The first word of a call that is a file."""
    return next((word for word in _typed(context)[1:] if os.path.isfile(word)), "FILE")  # noqa: PTH113 - pathlib is slow to load


def _misplaced(message: str, verb: str, context: click.Context) -> Advice:
    """The whole call with an argument that is one too many where it belongs: a module, a profile, a page, a place or a
    function behind FILE, a daemon's address."""
    extra = re.fullmatch(r"Got unexpected extra arguments? \((.+)\)", message, re.DOTALL)
    if extra is None:
        return _NOTHING
    text = extra[1]
    first, second = (
        str(next((context.params[each] for each in names if context.params.get(each)), ""))
        for names in (("source", "file", "log"), ("target", "query"))
    )
    if verb == "serve" and os.path.isfile(text):  # noqa: PTH113 - pathlib is slow to load
        return Advice("a daemon takes no file; for a page in the browser write", ["view", text])
    if verb in _ONE_FILE and (turned := _file_first(verb, first, [text])):
        return Advice("FILE comes first:", turned)
    if verb == "serve" and text.isdecimal():
        return Advice(f"write --http 127.0.0.1:{text} for browsers, or --address 127.0.0.1:{text} for gRPC")
    options = {option for each in context.command.params for option in each.opts}
    shows, is_line = "--profile" in options, _SOURCE_LINE.fullmatch(text) is not None
    belongs: tuple[tuple[bool, str, Sequence[str]], ...] = (
        (verb in ("hot", "profile"), "modules go after -m:", _with_option("-m", first, context)),
        (verb == "core", "modules go after -m:", _with_option("-m", text, context)),
        (verb == "annotate" and os.path.isfile(first) and os.path.isfile(text), "modules go after -m:", _with_option("-m", first, context)),  # noqa: PTH113 - as above
        (shows and text.endswith((".html", ".htm")), "the page's file goes after -o:", ["view", *_with_option("-o", text, context)[1:]]),
        (shows and os.path.exists(text), "a profile goes after --profile:", _with_option("--profile", text, context)),  # noqa: PTH110 - pathlib is slow to load
        (verb == "view" and not is_line, "choose a kernel on the page, or write one alone:", [verb, first, "-o", "PAGE", "--kernel", text]),
        (verb == "listing" and is_line, "for the ADDRESS that --around takes, write", _with_place(verb, first, [text])),
        (verb in _ONE_FILE, "write", _with_place(verb, first, [text])),
        (verb == "variables" and is_place(text), "a place is one word:", [verb, first, f"{second}+{text}"]),
        (verb == "annotate" and not os.path.exists(text), "for samples on instructions, write", ["listing", "--profile", "PROFILE", "--function", text, _file_of(context)]),  # noqa: PTH110 - pathlib is slow to load
        ("--server" in options and not first, "a daemon's address goes after --server:", _with_option("--server", text, context)),
    )  # fmt: skip
    return next(
        (Advice(said, words, otherwise=said.rstrip(":")) for applies, said, words in belongs if applies), _NOTHING
    )
