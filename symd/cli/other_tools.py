"""Options and values of options as other tools have them, and the calls of symd that are meant by them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from symd.cli.call_files import call_about_profile, files_among, hottest_lines, profile_among, with_word
from symd.model.addresses import is_number


class Advice(NamedTuple):
    """What to do instead: ``text``, which the whole call of ``words`` follows where there are any, and then ``after``.
    ``otherwise`` is said where that call would be refused too."""

    text: str
    words: Sequence[str] = ()
    after: str = ""
    otherwise: str = ""


NOTHING = Advice("")

_BY: Final = {
    "function": "func funcs function functions symbol symbols sym syms fn",
    "line": "line lines source sources src srcline srclines sourceline",
    "instruction": "instruction instructions address addresses addr addrs pc pcs ip insn instr sass asm isa",
    "file": "file files srcfile filename filenames",
    "kernel": "kernel kernels",
    "stall": "stall stalls stall_reason stall_reasons stall-reason stall-reasons reason reasons",
}
"""What symd hot groups by, and what it is called."""
_BY_OPTIONS: Final = {
    by: " ".join(
        f"{dashes}{each}" for each in words.split() for dashes in ("-", "--") if (len(each) > 2 or dashes == "--")
    )
    for by, words in _BY.items()
}


class _OptionOfOthers(NamedTuple):
    """Options as other tools have them, what is typed instead ("" where the value alone is), and why. What ``instead``
    has after a space begins the value."""

    verbs: str
    options: str
    instead: str | None
    why: str = ""


_ASKS_A_DAEMON = "status health stop modules rm fetch contexts watch record symbolize listing locate variables info names lines view hot profile"
_OPTIONS: Final = (
    _OptionOfOthers("hot", "--sort --sort-by --group-by --group --groupby --order-by", "--by"),
    *(_OptionOfOthers("hot", options, f"--by={by}") for by, options in _BY_OPTIONS.items()),
    _OptionOfOthers("hot", "-k", "--by=kernel"),
    _OptionOfOthers("hot", "--csv", "--json"),
    _OptionOfOthers("hot", "--nodecount -nodecount --head --count --lines-limit", "-n"),
    _OptionOfOthers("hot profile", "--sample_index --sample-index", "--value"),
    _OptionOfOthers("hot", "-focus --focus --ignore --show", None, "--json prints an object per place to choose from, and symd listing --profile PROFILE --function NAME FILE shows one kernel"),
    _OptionOfOthers("profile", "-f -t -T --type --output-format --export-format --as --export", "--to"),
    _OptionOfOthers("info names lines listing symbolize hot", "-o --output", None, "the answer goes to standard output; add > OUT to write it to a file"),
    _OptionOfOthers("listing", "--address --addr --pc", "--around"),
    _OptionOfOthers("lines", "--function --func --symbol", "--kernel"),
    _OptionOfOthers("names", "-r -e -E --regex --pattern --name --filter --match", ""),
    _OptionOfOthers("locate", "--file --source --line --location", ""),
    _OptionOfOthers("listing", "--disassemble-symbols --symbol --kernels -fun --fun", "--function"),
    _OptionOfOthers("gc repair", "--dry-run -n", None, "symd store check looks, and changes nothing"),
    _OptionOfOthers("view listing", "-p", "--profile"),
    _OptionOfOthers("view", "--port --http -http", None, "write --address 127.0.0.1:PORT"),
    _OptionOfOthers("serve", "--port", None, "write --address HOST:PORT (gRPC) or --http HOST:PORT (browsers)"),
    _OptionOfOthers("serve", "-d -D --daemon --daemonize --detach --background", None, "symd serve & runs it in the background; docs/operations.md has a service for systemd"),
    _OptionOfOthers("serve", "--stop --restart --status", None, "write symd daemon stop, or symd daemon status"),
    _OptionOfOthers("grab", "-device --target --platform --arch", "--simulate", "--simulate builds for a device that is not here"),
    _OptionOfOthers("grab", "-options --options --flags", "--build-flags"),
    _OptionOfOthers("core annotate hot profile batch", "-e --exe --obj --symbols", "-m"),
    _OptionOfOthers("run attach collect", "--output --outdir", "--out"),
    _OptionOfOthers(_ASKS_A_DAEMON, "--socket", "--server unix:"),
    _OptionOfOthers("serve", "--socket", "--address unix:"),
    _OptionOfOthers("info", "-sass --dump-sass", None, "symd listing FILE shows instructions"),
    _OptionOfOthers(_ASKS_A_DAEMON, "--host --port --url", None, "write --server HOST:PORT or --server unix:PATH"),
)  # fmt: skip


def instead_of_option(option: str, verb: str, typed: Sequence[str]) -> Advice:
    """What to write instead of an option that the verb does not have."""
    if (advice := _another_call(option, verb, typed)) != NOTHING:
        return advice
    found = next((each for each in _OPTIONS if verb in each.verbs.split() and option in each.options.split()), None)
    if found is None:
        return NOTHING
    if found.instead is None:
        return Advice(found.why)
    said = f"{found.why}: write" if found.why else "write"
    return Advice(said, _translated(verb, typed), otherwise=found.why or f"write {found.instead}")


def _translated(verb: str, typed: Sequence[str]) -> list[str]:
    """The words with symd's own options for those of others: what is typed next must not be refused for another one."""
    instead = {
        name: each.instead
        for each in reversed(_OPTIONS)
        if verb in each.verbs.split() and each.instead is not None
        for name in each.options.split()
    }
    words: list[str] = []
    rest = iter(typed)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in instead:
            meant, begins, prefix = instead[name].partition(" ")
            if meant.startswith("--by=") and any(each.startswith("--by") for each in words):
                continue  # one sum is asked for, and lines have their stall reasons
            if begins:
                equals, value = "=", prefix + (value if equals else next(rest, ""))
            words += filter(None, (meant, value if equals else ""))
        else:
            words.append(word)
    return _with_one_sum(words) if verb == "hot" else words


def _with_one_sum(words: Sequence[str]) -> list[str]:
    """The words of a call of symd hot with one --by: of several sums, as of ``--sort=line,stall``, the first that is
    not of stall reasons, which lines have; none where it is a value's, as of ``--sort=cycles``."""
    parts = [part for word in words for part in (word.split("=", 1) if word.startswith("--by=") else [word])]
    values = [value for name, value in pairwise(parts) if name == "--by"]
    wanted = [by for value in values for each in value.split(",") for by, named in _BY.items() if each in named.split()]
    if len(values) < 2 and values == wanted:
        return [*words]
    by = next((each for each in wanted if each != "stall"), "stall" if wanted else "")
    at = parts.index("--by")
    kept = [part for number, part in enumerate(parts) if part != "--by" and (not number or parts[number - 1] != "--by")]
    return [*kept[:at], *(["--by", by] if by else []), *kept[at:]]


_OF_ONE_FUNCTION = frozenset(
    [
        "-l",
        "-list",
        "--list",
        "-k",
        "--kernel",
        "-kernel",
        "--function",
        "--func",
        "--symbol",
        "--symbols",
        "-focus",
        "--focus",
        "--kernel-name",
    ]
)
"""Options of a profile's reports that choose a function."""


def _another_call(option: str, verb: str, typed: Sequence[str]) -> Advice:
    """What to write instead of an option that stands for another call."""
    if re.match(r"-[0-9]", option):
        return Advice("addresses are not negative")
    of_verb = _OF_VERBS.get(verb)
    return NOTHING if of_verb is None else of_verb(option, typed)


_PAGE = frozenset(("-html", "--html"))
"""Options of reports that write a page."""
_SOURCE = frozenset(("-S", "-source", "--source", "--annotate", "--with-source", "--show-source"))
"""Options of a profile's reports that show source texts."""


def _of_hot(option: str, typed: Sequence[str]) -> Advice:
    """The page, or the listing of one function."""
    if option in ("-http", "--http", "--port") or any(word.startswith("-http") for word in typed):
        _, profile, modules = profile_among(typed)
        return Advice("write", ["view", next(iter(modules), "FILE"), "--profile", profile or "PROFILE"])
    if option in _SOURCE:
        _, profile, modules = profile_among(typed)
        words = ["listing", "--profile", profile or "PROFILE", next(iter(modules), "FILE")]
        return Advice("for samples beside the source, write", words)
    if option in _PAGE:
        return _of_view(option, typed)
    words = _one_function(option, typed) if option in _OF_ONE_FUNCTION else []
    return Advice("write", words) if words else NOTHING


def _of_view(option: str, typed: Sequence[str]) -> Advice:
    """The page as a file."""
    if option not in _PAGE:
        return NOTHING
    _, profile, modules = profile_among(typed)
    words = [part for word in typed for part in (word.split("=", 1) if word.startswith("-") else [word])]
    page = next((word for word in words if word.endswith((".html", ".htm"))), "PAGE.html")
    shown = ["--profile", profile] if profile else []
    return Advice("write", ["view", next(iter(modules), "FILE"), *shown, "-o", page])


def _of_info(option: str, typed: Sequence[str]) -> Advice:
    """What shows one kernel."""
    if option not in ("--kernel", "--function", "--symbol"):
        return NOTHING
    return Advice("write", ["names", next(iter(files_among(typed)), "FILE"), _value_of(option, typed) or "*"])


def _of_slim(option: str, typed: Sequence[str]) -> Advice:
    """The file for debug data, as eu-strip and objcopy name it."""
    files = files_among(typed[1:])
    if option == "-f":
        value = dict(pairwise(typed))
        file = next((each for each in files if each not in (value.get("-f"), value.get("-o"))), "IN")
        return Advice("write", ["slim", file, value.get("-o", "OUT"), "--debug-out", value.get("-f", "OUT.debug")])
    if option != "--only-keep-debug":
        return NOTHING
    out = next((each for each in typed[1:] if not each.startswith("-") and each not in files[:1]), "OUT.debug")
    return Advice("write", ["slim", *(files[:1] or ["IN"]), "OUT", "--debug-out", out])


def _of_record(option: str, typed: Sequence[str]) -> Advice:
    """What runs a program and collects its modules."""
    if option not in ("-o", "--out", "--output") or len(typed) < len(("record", option, "DIR", "PROGRAM")):
        return NOTHING
    rest = [*_without(option, typed[1:])]
    return Advice(
        "write", ["run", "--out", _value_of(option, typed) or "DIR", *([] if "--" in rest else ["--"]), *rest]
    )


def _of_places(option: str, typed: Sequence[str]) -> Advice:
    """The place in one word."""
    if option not in ("--kernel", "-k", "--function", "--section", "-j"):
        return NOTHING
    return Advice(_in_the_query(option, typed))


def _of_symbolize(option: str, typed: Sequence[str]) -> Advice:
    """What adds source lines to samples, where a call that asks about places names a profile or a table of samples."""
    files, profile, modules = profile_among(typed)
    value = dict(pairwise(typed))
    if profile:
        out = value.get("-o") or value.get("--output") or "OUT"
        words = call_about_profile("profile", modules, profile, out if out not in files else "OUT")
        return Advice("it is a profile:", words, f" writes it with source lines, {hottest_lines(modules, profile)}")
    table = next((each for each in typed if each.endswith(".parquet")), "")
    if table and option in ("-o", "--output"):
        return Advice("samples in a Parquet file:", ["batch", "-m", "FILE", table, value.get(option, "OUT.parquet")])
    return _of_places(option, typed)


_OF_VERBS: Final[Mapping[str, Callable[[str, Sequence[str]], Advice]]] = {
    "hot": _of_hot,
    "info": _of_info,
    "record": _of_record,
    "slim": _of_slim,
    "symbolize": _of_symbolize,
    "variables": _of_places,
    "view": _of_view,
}
"""Verbs of which other tools have options for what another call of symd does."""


def _without(option: str, typed: Sequence[str]) -> Iterator[str]:
    """The words of a call without an option and its value."""
    rest = iter(typed)
    for word in rest:
        if word == option:
            next(rest, "")
        elif not word.startswith(f"{option}="):
            yield word


def _value_of(option: str, typed: Sequence[str]) -> str:
    """The value of an option in a call; "" for none, or where a file or another option follows."""
    words = [part for word in typed for part in (word.split("=", 1) if word.startswith("-") else [word])]
    value = "".join(words[words.index(option) + 1 :][:1]) if option in words else ""
    return "" if value.startswith("-") or files_among([value]) else value


def _one_function(option: str, typed: Sequence[str]) -> list[str]:
    """The call that lists a function with its samples, as ``pprof -list=FUNCTION`` does; [] where the call names
    none."""
    is_list = option == "-l"
    name = _value_of("-list" if is_list else option, typed)
    if not name and not option.endswith("list"):
        return []
    words = [part for word in typed for part in (word.split("=", 1) if word.startswith("-") else [word])]
    after = dict(pairwise(words))
    files, profile, modules = profile_among(typed)
    module = after.get("-m") or after.get("--module") or next(iter(modules), "FILE")
    shown = profile or next((each for each in files if each != module), "PROFILE")
    return ["listing", "--function", name or "NAME", "--profile", shown, module]


def _in_the_query(option: str, typed: Sequence[str]) -> str:
    """The query that says whose offset a number is, where an option says it in other tools."""
    is_section = option in ("--section", "-j")
    words = [part for word in typed for part in (word.split("=", 1) if word.startswith(f"{option}=") else [word])]
    value, number = "".join(words[words.index(option) + 1 :][:1]), words[-1]
    if not value or number == value or not is_number(number):
        value, number = ("SECTION" if is_section else "FUNCTION"), "OFFSET"
    asked = f"({value})+{number}" if is_section else f"{value}+{number}"
    return f"write {asked!r}" if is_section else f"write {asked}"


class _ValueOfOthers(NamedTuple):
    """A value that an option does not take, as its error begins, the value that is meant, and what is said of it."""

    verbs: str
    option: str
    value: str
    meant: str
    said: str = "write"


_VALUES: Final = (
    *(_ValueOfOthers("hot", "--by", f"'({'|'.join(words.split())})'", by, "--by stall sums by stall reason: write" if by == "stall" else "write") for by, words in _BY.items()),
    _ValueOfOthers("profile", "--to", "'(flame.*|svg|html)'", "speedscope", "--to folded for flamegraph.pl and inferno, --to speedscope for a flame graph in a browser: write"),
    _ValueOfOthers("profile", "--to", "'(chrome|trace|json|ctf)'", "perfetto", "--to perfetto opens in ui.perfetto.dev, --to speedscope in www.speedscope.app: write"),
    _ValueOfOthers("profile", "--to", "'gecko'", "firefox"),
    _ValueOfOthers("profile", "--to", "'(collapsed|perf)'", "folded"),
    _ValueOfOthers("profile", "--to", "'(pb|proto|pb.gz)'", "pprof"),
    _ValueOfOthers("hot", "--top", "-", "0", "-n 0 shows all: write"),
)  # fmt: skip
_OTHER_OPTION: Final = {
    ("hot", "--limit"): ("'[0-9]+'", "-n", "-n N shows N places: write"),
    ("grab", "--device"): ("'", "--simulate", "--simulate PRODUCT builds for a device that is not here: write"),
}
"""Options of symd's own whose values, as their errors begin, belong to another option."""


def instead_of_value(verb: str, options: Sequence[str], message: str, typed: Sequence[str]) -> Advice:
    """What to write instead of a value that an option does not take."""
    if (words := _translated(verb, typed)) != [*typed] and _are_of_others(verb, typed):
        return Advice("write", words)
    for option, (value, other, said) in ((each, _OTHER_OPTION.get((verb, each), ("", "", ""))) for each in options):
        if other and re.match(value, message):
            apart = (word.split("=", 1) if word.startswith(f"{option}=") else [word] for word in typed)
            return Advice(said, with_word([part for each in apart for part in each], option, other))
    quoted = re.match(r"'(.*?)'", message)
    for row in _VALUES:
        if verb in row.verbs.split() and row.option in options and re.match(row.value, message):
            wrong = quoted[1] if quoted else "-1"
            return Advice(row.said, with_word(typed, wrong, row.meant), otherwise=row.said.removesuffix(": write"))
    return NOTHING


def _are_of_others(verb: str, typed: Sequence[str]) -> bool:
    """Whether a word is an option of others of more than one letter, which click takes for several of one letter."""
    names = {word.partition("=")[0] for word in typed if re.match(r"-[A-Za-z]{2}", word)}
    return any(verb in each.verbs.split() and names & {*each.options.split()} for each in _OPTIONS)
