"""What to type instead of a call that is wrong: the whole call where it is nearly right, the option that a word belongs
to, and an example."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import click

from symd.cli.call_files import (
    PAGE,
    behind,
    call_text,
    file_kind,
    files_among,
    needs_module,
    page_about,
    parted,
    profile_among,
    standard_input_file,
    typed_words,
    with_option,
    with_word,
    word_for_modules,
)
from symd.cli.options import first_example
from symd.cli.other_tools import NOTHING, Advice, instead_of_option, instead_of_value
from symd.cli.verbs import BELOW, keys_of
from symd.config import DEFAULT_LIMITS
from symd.errors import SymdError
from symd.model.addresses import is_place
from symd.system.messages import alike

_PROFILE_VERBS = ("profile", "hot", "record")
"""Verbs of which other tools have some that start a program and sample it."""
_NO_SAMPLES = (
    "symd does not sample a program:",
    " collects its modules, and symd profile and symd hot read what a profiler wrote",
)
_ONE_FILE = ("listing", "lines", "view")
"""Verbs that take FILE alone, and places in it by options."""
_OF_PLACES = ("symbolize", "variables")
"""Verbs that are asked about places."""
_CHANGE = frozenset(("add", "rm", "stop", "gc", "repair", "copy", "serve", "start", "run", "collect", "record", "slim"))
"""Verbs that change something, which an option may have been meant to prevent."""
_ALIKE = 0.6000001
"""The least part of an option's name that is that of another which it may stand for: more than six letters of ten."""
_SOURCE_LINE = re.compile(r"[^:]*\.\w+:[0-9]+(:[0-9]+)?", re.ASCII)
_MOST_ERRORS = 8
"""Errors of one call that are mended before it is given up."""


class Meant(click.UsageError):
    """The call is wrong, and ``words`` is the one that is meant; ``said`` is in front of it."""

    def __init__(self, message: str, context: click.Context, words: Sequence[str], said: str = "write") -> None:
        super().__init__(message, context)
        self.words, self.said = words, said


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
    if advice == NOTHING and (respelled := _respelled(error, context)):
        called = whole_call(respelled, context)
        return f"{said} Write {called} (see {verb} --help)" if called else f"{said} (see {verb} --help)"
    shown = _shown(advice, context)
    if shown and isinstance(error, click.NoSuchOption):
        said = f"No such option {_word_with(error.option_name, typed_words(context)).partition('=')[0]!r}"  # without the options that are spelled like it
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
    if mended and mended[0] in ("hot", "top", "profile") and needs_module(mended):
        mended = [mended[0], "-m", word_for_modules(profile_among(mended)[1]), *mended[1:]]
    return call_text(mended) if mended else ""


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


def is_refused(words: Sequence[str], context: click.Context) -> bool:
    """Whether the call is wrong."""
    return _refusal(words, context.find_root().command) is not None


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
        if files_among(context.params.get("queries") or ()):
            return click.UsageError("a file is no place", context)
    except (click.ClickException, SymdError) as error:
        return error
    return None


def _instead(error: Exception) -> Sequence[str]:
    """The words of the call that is meant by one that is refused; () where that is not known."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None or not isinstance(error, click.UsageError):
        return ()
    if isinstance(error, Meant):
        return error.words
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Argument):
        return [*typed_words(context), error.param.human_readable_name.strip("[].")]
    advice = _advice(error, error.format_message().rstrip("."), context)
    return advice.words or (_respelled(error, context) if advice == NOTHING else ())


def _respelled(error: click.UsageError, context: click.Context) -> Sequence[str]:
    """The words of the call with the one option that a wrong one is like; () where there is none, or several."""
    if not isinstance(error, click.NoSuchOption):
        return ()
    near = _near(error.option_name, error.possibilities or ())
    return with_word(typed_words(context), error.option_name, near[0]) if len(near) == 1 else ()


def _of_letter(error: click.NoSuchOption, context: click.Context) -> Sequence[str]:
    """The words of the call with the one long option, of those about the answer, that begins with the letter of an
    unknown short one; () where none does, or several."""
    letter = re.fullmatch(r"-([A-Za-z])", error.option_name)
    has_value = _has_value(error.option_name, context)
    takes = (each for each in context.command.params if not (has_value and getattr(each, "is_flag", False)))
    options = {option for each in takes for option in each.opts} - {"--server", "--limit"}
    found = [each for each in options if letter and each.startswith(f"--{letter[1]}")]
    return with_word(typed_words(context), error.option_name, found[0]) if len(found) == 1 else ()


def _of_unknown(error: click.NoSuchOption, context: click.Context) -> Advice:
    """What to write instead of an option that no table has: the one that begins with its letter, or, of a verb that
    changes nothing, the call without it; nothing where it is spelled nearly like another."""
    if by_letter := _of_letter(error, context):
        return Advice("write", by_letter)
    if context.info_name in _CHANGE or _near(error.option_name, error.possibilities or ()):
        return NOTHING
    if words := _as_json(error.option_name, context):
        return Advice("write", words)
    words = _left_out(error.option_name, context)
    return Advice("without it:", words) if words else NOTHING


def _word_with(option: str, words: Sequence[str]) -> str:
    """The word in which an option was typed: of others' options of one dash and several letters click says the first
    letter that it does not know."""
    long = (each for each in words if each.partition("=")[0] == option)
    clusters = (each for each in words if re.match(rf"-\w*{re.escape(option[1:])}", each) and len(option) == len("-x"))
    return next(long, next(clusters, option))


def _has_value(typed: str, context: click.Context) -> bool:
    """Whether what follows an option, which no table has, can only be its value: no file, and no place, which a decimal
    number is where places are asked about and no other one is."""
    words = typed_words(context)
    value = behind(words, typed)
    if not value or "=" in typed or value.startswith("-") or files_among([value]):
        return False
    is_asked = context.info_name in _OF_PLACES and not any(is_place(each) for each in words if each != value)
    return not is_place(value) or (value.isdecimal() and not is_asked)


def _as_json(option: str, context: click.Context) -> Sequence[str]:
    """The words of the call with --json for an option that chooses it as the form of the answer; () elsewhere."""
    words, typed = typed_words(context), _word_with(option, typed_words(context))
    if typed not in words or not any("--json" in each.opts for each in context.command.params):
        return ()
    at, is_apart = words.index(typed), "=" not in typed
    value = behind(words, typed) if is_apart else typed.partition("=")[2]
    return [*words[:at], "--json", *words[at + 1 + is_apart :]] if value.lower() == "json" else ()


def _left_out(option: str, context: click.Context) -> Sequence[str]:
    """The words of the call without an option that no table has, and without what can only be its value."""
    words, typed = typed_words(context), _word_with(option, typed_words(context))
    if typed not in words:
        return ()
    at = words.index(typed)
    kept = files_among([typed.partition("=")[2]])
    if files_among(words) and _has_value(typed, context):
        return [*words[:at], *words[at + 2 :]]
    most = 0 if files_among(words[at + 1 : at + 2]) else 1
    calls = [[*words[:at], *kept, *words[at + 1 + more :]] for more in range(1 + most)]
    return next((call for call in calls if not is_refused(call, context)), calls[0])


def corrected(words: Sequence[str], wrong: str, meant: Sequence[str]) -> str:
    """The whole call with what may be ``meant`` by ``wrong``, the first two of these; "" where no word of the call has
    it."""
    calls = (with_word(words, wrong, right) for right in [*dict.fromkeys(meant)][:2])
    return " or ".join(call_text(each) for each in calls if each)


def corrected_call(wrong: str, meant: Sequence[str]) -> str:
    """``corrected`` for the call under way."""
    return corrected(typed_words(click.get_current_context()), wrong, meant)


_OTHER_VALUE = re.compile(r".*: (--[\w-]+) (\S+)", re.DOTALL)
_FILE_AND_PLACE = re.compile(r"(.+?)[:,@](.+)", re.DOTALL)
_MAY_BE_MEANT = re.compile(r"did you mean (.+)\?|(?:it has|write one of) (.+)", re.DOTALL)


def with_call(error: SymdError, words: Sequence[str]) -> str:
    """The hint of an error. Where it says what may be meant by a word of the call, the whole call follows; where it
    ends with another value for an option, the call with that."""
    joined = _FILE_AND_PLACE.fullmatch(error.where)
    if joined and error.where in words and os.path.isfile(joined[1]) and is_place(joined[2]):  # noqa: PTH113 - pathlib is slow to load
        parted = [part for word in words for part in (joined.groups() if word == error.where else (word,))]
        return f"write {call_text(parted)}"
    if other := _OTHER_VALUE.fullmatch(error.hint):
        return _with_value(error.hint, other[1], other[2], words)
    hint = _MAY_BE_MEANT.fullmatch(error.hint)
    if hint is None or (error.hint.startswith("it has") and error.where != "--value"):
        return error.hint
    try:
        meant = [
            shlex.split(each)[0] if each.startswith("'") else each for each in re.split(r" or |, ", hint[1] or hint[2])
        ]
    except ValueError:  # a name has an apostrophe or "or" in it
        return error.hint
    quoted = re.search(r"'(.+?)'$", error.message)
    called = corrected(words, quoted[1] if quoted else error.where, meant)
    if not called:
        return error.hint
    return f"{error.hint} Write {called}" if hint[1] else f"{error.hint}: write {called}"


def _with_value(hint: str, option: str, value: str, words: Sequence[str]) -> str:
    """A hint that ends with an option and its value, with the whole call in their place where it has that option."""
    parts = parted(words, f"{option}=")
    if option not in parts[:-1]:
        return hint
    at = parts.index(option) + 1
    return f"{hint.removesuffix(f'{option} {value}')}{call_text([*parts[:at], value, *parts[at + 1 :]])}"


def _near(option: str, others: Sequence[str]) -> list[str]:
    """The options that ``option`` may be a misspelling of."""
    bare = option.lstrip("-")
    return [each for each in others if alike(each.lstrip("-"), [bare], least=_ALIKE)]


_WITHOUT_FILES: Final = "symd doctor shows what is installed here, and symd info FILE shows what is in a file"


def _advice(error: click.UsageError, said: str, context: click.Context) -> Advice:
    """What to write instead, where that is known."""
    verb, typed = str(context.info_name), typed_words(context)
    verb = "serve" if verb == "start" else verb  # the same options
    if (advice := _of_verb(verb, said, typed)) != NOTHING:
        return advice
    if isinstance(error, Meant):
        return Advice(error.said, error.words)
    if isinstance(error, click.NoSuchOption):
        advice = instead_of_option(_word_with(error.option_name, typed).partition("=")[0], verb, typed)
        return _of_unknown(error, context) if advice == NOTHING else advice
    if isinstance(error, click.BadParameter) and error.param is not None and not said.startswith("Missing "):
        return instead_of_value(verb, error.param.opts, error.message, typed)
    if said.startswith("Missing "):
        shown = _example(context)
        return Advice(_WITHOUT_FILES if verb == "info" else f"write, for example: {shown}" if shown else "")
    return _misplaced(error.message, verb, context)


def _with_rule_for_source(typed: Sequence[str]) -> Advice:
    """The call with the --map by which a source file is found that is given as the folder of sources."""
    words = parted(typed, "--source-root=")
    at = words.index("--source-root") if "--source-root" in words else len(words)
    given = behind(words, "--source-root")
    module = next((each for each in files_among(typed) if file_kind(each) == "module"), "")
    if not module or not os.path.isfile(given):  # noqa: PTH113 - pathlib is slow to load
        return NOTHING
    from symd.engine.files.module import source_files_of  # noqa: PLC0415 - 400 ms: a call that is wrong

    folder, name = os.path.split(given)
    with suppress(SymdError):
        files = source_files_of(module, DEFAULT_LIMITS)
        named = next((each for each in files if os.path.basename(each) == name), "")  # noqa: PTH119 - as above
        rule = f"{os.path.dirname(named)}={folder or '.'}"  # noqa: PTH120 - as above
        return Advice("write", [*words[:at], *words[at + 2 :], "--map", rule]) if named else NOTHING
    return NOTHING


def _of_verb(verb: str, said: str, typed: Sequence[str]) -> Advice:
    """What to write instead of a call that another verb answers."""
    if verb in _PROFILE_VERBS and "--" in typed:
        before, after = _NO_SAMPLES
        return Advice(before, _run_of(typed), after)
    if said.startswith("Invalid value for '--source-root'"):
        return _with_rule_for_source(typed)
    if words := page_about(verb, typed[1:]):
        return Advice("write", words)
    if verb == "symbolize" and said.startswith("Missing argument 'FILE'") and (log := standard_input_file()):
        return Advice("if it is a log, write", ["annotate", "-m", "FILE", log])
    if group := re.fullmatch(r"No such command '(.+)'", said):
        return next((Advice("write", meant.split()) for meant in keys_of(_OF_STORES, group[1])), NOTHING)
    return NOTHING


_OF_STORES: Final = {
    "daemon modules": "ls list show modules",
    "daemon status": "status info stat stats",
    "daemon rm MODULE": "rm remove delete forget",
    "store check": "verify fsck",
    "store gc": "prune clean clear",
}
"""What symd store does, or a daemon, and words of other stores for it."""


def _run_of(typed: Sequence[str]) -> list[str]:
    """The call that captures the modules of a program which is to be sampled."""
    at = typed.index("--")
    folder = behind(typed[:at], "-o", "--out", "--output")
    return ["run", *(["--out", folder] if folder else []), *typed[at:]]


def _example(context: click.Context) -> str:
    """The first example of the verb's help, with FILE as it was typed."""
    shown, file = first_example(context.command), context.params.get("file")
    words = shown.split(" ", 3)
    if isinstance(file, str) and len(words) > 2 and not words[2].startswith("-"):
        words[2] = shlex.quote(file)
    return " ".join(words)


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


def _file_of(context: click.Context) -> str:
    """The first word of a call that is a file."""
    return next((word for word in typed_words(context)[1:] if os.path.isfile(word)), "FILE")  # noqa: PTH113 - pathlib is slow to load


def _file_and_place(context: click.Context) -> list[str]:
    """The file and the place among the words of a call, where these are in another order, or beside a name; [] where
    one of the two is missing."""
    words = typed_words(context)[1:]
    files, places = files_among(words), [each for each in words if is_place(each)]
    return [files[0], places[0]] if files and places and list(words) != [files[0], *words[1:-1], places[0]] else []


def _misplaced(message: str, verb: str, context: click.Context) -> Advice:
    """The whole call with an argument that is one too many where it belongs: a module, a profile, a page, a place or a
    function behind FILE, a daemon's address."""
    extra = re.fullmatch(r"Got unexpected extra arguments? \((.+)\)", message, re.DOTALL)
    if extra is None:
        return NOTHING
    text, typed = extra[1], typed_words(context)
    first, second = (
        str(next((context.params[each] for each in names if context.params.get(each)), ""))
        for names in (("source", "file", "log"), ("target", "query"))
    )
    if verb == "serve" and os.path.isfile(text):  # noqa: PTH113 - pathlib is slow to load
        return Advice("a daemon takes no file; for a page in the browser write", ["view", text])
    if verb == "serve" and text.isdecimal():
        return Advice(f"write --http 127.0.0.1:{text} for browsers, or --address 127.0.0.1:{text} for gRPC")
    if verb == "serve" and text in BELOW["daemon"]:
        return Advice("write", ["daemon", text])
    options, place = {option for each in context.command.params for option in each.opts}, context.params.get("place")
    asked = _file_and_place(context)
    shows, is_line = "--profile" in options, _SOURCE_LINE.fullmatch(text) is not None
    belongs: tuple[tuple[bool, str, Sequence[str]], ...] = (
        (verb in ("hot", "profile"), "modules go after -m:", with_option("-m", first, typed)),
        (verb == "record" and ":" not in text, _NO_SAMPLES[0], ["run", "--", *typed_words(context)[1:]]),
        (verb == "token" and not {"create", "new", "add", "make", "issue"}.isdisjoint(typed_words(context)), "it takes only NAME:", ["token", text]),
        (verb == "core", "modules go after -m:", with_option("-m", text, typed)),
        (verb == "annotate" and os.path.isfile(first) and os.path.isfile(text), "modules go after -m:", with_option("-m", first, typed)),  # noqa: PTH113 - as above
        (shows and text.endswith(PAGE), "the page's file goes after -o:", ["view", *with_option("-o", text, typed)[1:]]),
        (shows and "--source" in typed_words(context), "a folder of sources goes after --source-root:", with_word(typed_words(context), "--source", "--source-root")),
        (verb in _ONE_FILE and file_kind(text) == "module", "one file is shown at a time; for both write", ["info", first, text]),
        (shows and os.path.exists(text), "a profile goes after --profile:", with_option("--profile", text, typed)),  # noqa: PTH110 - pathlib is slow to load
        (verb == "view" and not is_line, "choose a kernel on the page, or write one alone:", [verb, first, "-o", "PAGE", "--kernel", text]),
        (verb == "listing" and text.isdecimal() and bool(place), "the code around a place goes after --around:", ["listing", first, "--around", str(place), "--before", text, "--after", text]),
        (verb == "listing" and is_line, "for the ADDRESS that --around takes, write", _with_place(verb, first, [text])),
        (verb in _ONE_FILE, "write", _with_place(verb, first, [text])),
        (verb == "variables" and bool(asked), "every variable at the place is shown:", [verb, *asked]),
        (verb == "variables" and is_place(text), "a place is one word:", [verb, first, f"{second}+{text}"]),
        (verb == "variables", "every variable at the place is shown:", [verb, first, second]),
        (verb == "annotate" and not os.path.exists(text), "for samples on instructions, write", ["listing", "--profile", "PROFILE", "--function", text, _file_of(context)]),  # noqa: PTH110 - pathlib is slow to load
        ("--server" in options and not first, "a daemon's address goes after --server:", with_option("--server", text, typed)),
    )  # fmt: skip
    return next(
        (Advice(said, words, otherwise=said.rstrip(":")) for applies, said, words in belongs if applies), NOTHING
    )
