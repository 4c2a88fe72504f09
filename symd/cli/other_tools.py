"""Options and values of options as other tools have them, and the calls of symd that are meant by them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from symd.cli.call_files import (
    PAGE,
    behind,
    call_about_profile,
    files_among,
    hottest_lines,
    parted,
    profile_among,
    with_word,
)
from symd.model.addresses import is_number


class Advice(NamedTuple):
    """What to do instead: ``text``, which the whole call of ``words`` follows where there are any, and then ``after``.
    ``otherwise`` is said where that call would be refused too."""

    text: str
    words: Sequence[str] = ()
    after: str = ""
    otherwise: str = ""


NOTHING = Advice("")
FLAME_GRAPHS: Final = "--to folded for flamegraph.pl and inferno, --to speedscope for a flame graph in a browser"
"""What draws a flame graph of a profile."""
IN_A_BROWSER: Final = "www.speedscope.app draws a flame graph in the browser from the file that this writes"
"""What shows a flame graph as a page."""

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
        f"{dashes}{each}"
        for each in words.split()
        for dashes in ("-", "--")
        if (len(each) > 2 or dashes == "--")
        and f"{dashes}{each}" not in ("--kernel", "--function", "-kernel", "-kernels")
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
    _OptionOfOthers("hot", "--csv", "--json"),
    _OptionOfOthers("hot", "--nodecount -nodecount --head --count --lines-limit", "-n"),
    _OptionOfOthers("hot profile", "--sample_index --sample-index", "--value"),
    _OptionOfOthers("hot", "-focus --focus --ignore --show", None, "--json prints an object per place to choose from, and --kernel NAME counts only one kernel"),
    _OptionOfOthers("profile", "-f -t -T --type --output-format --export-format --as --export", "--to"),
    _OptionOfOthers("info names lines listing symbolize hot", "-o --output", None, "the answer goes to standard output; add > OUT to write it to a file"),
    _OptionOfOthers("hot profile view", "--object", None, "symd extract FILE DIR writes each code object to a file of its own; give the one that ran"),
    _OptionOfOthers("listing", "--address --addr --pc", "--around"),
    _OptionOfOthers("listing", "-n -c --count --lines", None, "--before N --after N say how many instructions are shown around a place"),
    _OptionOfOthers("lines", "--function --func --symbol", "--kernel"),
    _OptionOfOthers("names", "-r -e -E --regex --pattern --name --filter --match", ""),
    _OptionOfOthers("locate", "--file --source --line --location", ""),
    _OptionOfOthers("listing", "--disassemble-symbols --symbol --kernels -fun --fun", "--function"),
    _OptionOfOthers("gc repair", "--dry-run -n", None, "symd store check looks, and changes nothing"),
    _OptionOfOthers("view listing", "-p", "--profile"),
    _OptionOfOthers("view", "--port --http -http", None, "write --address 127.0.0.1:PORT"),
    _OptionOfOthers("serve", "--port", None, "write --address HOST:PORT (gRPC) or --http HOST:PORT (browsers)"),
    _OptionOfOthers("serve", "-d -D --daemon --daemonize --detach --background", None, "symd daemon start runs it in the background; docs/operations.md has a service for systemd"),
    _OptionOfOthers("serve", "--server", "--address"),
    _OptionOfOthers("add", "-b --base --address --at", None, "symd daemon record takes what is loaded where, a line of JSON for each load"),
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
    parts = parted(words, "--by=")
    values = [value for name, value in pairwise(parts) if name == "--by"]
    wanted = [by for value in values for each in value.split(",") for by, named in _BY.items() if each in named.split()]
    if len(values) < 2 and values == wanted:
        return [*words]
    by = next((each for each in wanted if each != "stall"), "stall" if wanted else "")
    at = parts.index("--by")
    kept = [part for number, part in enumerate(parts) if part != "--by" and (not number or parts[number - 1] != "--by")]
    return [*kept[:at], *(["--by", by] if by else []), *kept[at:]]


def _another_call(option: str, verb: str, typed: Sequence[str]) -> Advice:
    """What to write instead of an option that stands for another call."""
    if re.match(r"-[0-9]", option):
        return Advice("addresses are not negative")
    if verb == "symbolize" and (advice := _of_samples(option, typed)) != NOTHING:
        return advice
    if verb == "hot" and any(word.startswith("-http") for word in typed):  # click says its first letter
        option = "-http"
    found = (call for verbs, options, call in _CALLS if verb in verbs.split() and option in options.split())
    return next((call(option, typed) for call in found), NOTHING)


def _page(_option: str, typed: Sequence[str]) -> Advice:
    """The page as a file."""
    found = profile_among(typed)
    page = next((word for word in parted(typed) if word.endswith(PAGE)), "PAGE.html")
    shown = ["--profile", found.profile] if found.profile else []
    return Advice("write", ["view", found.module, *shown, "-o", page])


def _one_kernel(option: str, typed: Sequence[str]) -> Advice:
    """What shows one kernel."""
    return Advice("write", ["names", next(iter(files_among(typed)), "FILE"), _value_of(option, typed) or "*"])


def _of_eu_strip(_option: str, typed: Sequence[str]) -> Advice:
    """The files as eu-strip names them."""
    debug, out = behind(typed, "-f"), behind(typed, "-o")
    file = next((each for each in files_among(typed[1:]) if each not in (debug, out)), "IN")
    return Advice("write", ["slim", file, out or "OUT", "--debug-out", debug or "OUT.debug"])


def _of_objcopy(_option: str, typed: Sequence[str]) -> Advice:
    """The file for debug data, as objcopy names it."""
    files = files_among(typed[1:])[:1]
    out = next((each for each in typed[1:] if not each.startswith("-") and each not in files), "OUT.debug")
    return Advice("write", ["slim", *(files or ["IN"]), "OUT", "--debug-out", out])


def _run(option: str, typed: Sequence[str]) -> Advice:
    """What runs a program and collects its modules."""
    if len(typed) < len(("record", option, "DIR", "PROGRAM")):
        return NOTHING
    words = parted(typed[1:], f"{option}=")
    at = words.index(option) if option in words else len(words)
    rest = [*words[:at], *words[at + 2 :]]
    program = rest if "--" in rest else ["--", *rest]
    return Advice("write", ["run", "--out", _value_of(option, typed) or "DIR", *program])


def _of_samples(option: str, typed: Sequence[str]) -> Advice:
    """What adds source lines to samples, where a call that asks about places names a profile or a table of samples."""
    found, out = profile_among(typed), behind(parted(typed), "-o", "--output")
    if found.profile:
        out = "OUT" if not out or out in found.files else out
        words = call_about_profile("profile", found.modules, found.profile, out)
        told = f" writes it with source lines, {hottest_lines(found.modules, found.profile)}"
        return Advice("it is a profile:", words, told)
    table = next((each for each in typed if each.endswith(".parquet")), "")
    if table and option in ("-o", "--output"):
        return Advice("samples in a Parquet file:", ["batch", "-m", "FILE", table, out or "OUT.parquet"])
    return NOTHING


def _value_of(option: str, typed: Sequence[str]) -> str:
    """The value of an option in a call; "" for none, or where a file or another option follows."""
    value = behind(parted(typed), option)
    return "" if value.startswith("-") or files_among([value]) else value


def _one_function(option: str, typed: Sequence[str]) -> Advice:
    """The call that lists a function with its samples, as ``pprof -list=FUNCTION`` does."""
    name = _value_of("-list" if option == "-l" else option, typed)  # click says the first letter of -list
    found = profile_among(typed)
    module = behind(parted(typed), "-m", "--module") or found.module
    shown = found.profile or next((each for each in found.files if each != module), "PROFILE")
    return Advice("write", ["listing", "--function", name or "NAME", "--profile", shown, module])


def _samples_of_kernel(option: str, typed: Sequence[str]) -> Advice:
    """The call that counts the samples of one kernel, where an option names it."""
    return Advice("write", with_word(typed, option, "--kernel")) if _value_of(option, typed) else NOTHING


def _of_two(_option: str, typed: Sequence[str]) -> Advice:
    """What shows two files that are to be compared."""
    if profile_among(typed).profile:
        return Advice("go tool pprof -diff_base compares two profiles that symd profile --to pprof wrote")
    return Advice("write", ["info", *files_among(typed)])


def _in_the_query(option: str, typed: Sequence[str]) -> Advice:
    """The query that says whose offset a number is, where an option says it in other tools."""
    is_section = option in ("--section", "-j")
    words = parted(typed, f"{option}=")
    value, number = behind(words, option), words[-1]
    if not value or number == value or not is_number(number):
        value, number = "SECTION" if is_section else "FUNCTION", "OFFSET"
    asked = f"({value})+{number}" if is_section else f"{value}+{number}"
    return Advice(f"write {asked!r}" if is_section else f"write {asked}")


_CALLS: Final[tuple[tuple[str, str, Callable[[str, Sequence[str]], Advice]], ...]] = (
    ("hot", "-http --http --port", lambda _, typed: Advice("write", profile_among(typed).view())),
    ("hot", "-S -source --source --annotate --with-source --show-source", lambda _, typed: Advice("for samples beside the source, write", profile_among(typed).listing())),
    ("annotate", "-p --profile", lambda _, typed: Advice("for samples write", profile_among(typed).listing())),
    ("hot view", "-html --html", _page),
    ("hot", "-l -list --list", _one_function),
    ("hot", "--func --symbol --symbols -focus --focus --kernel-name", _samples_of_kernel),
    ("listing lines view info names hot profile", "-diff --diff -compare --compare -diff_base --diff_base --diff-base", _of_two),
    ("info", "--kernel --function --symbol", _one_kernel),
    ("slim", "-f", _of_eu_strip),
    ("slim", "--only-keep-debug", _of_objcopy),
    ("record", "-o --out --output", _run),
    ("symbolize variables", "--kernel -k --function --section -j", _in_the_query),
)  # fmt: skip
"""Verbs with options of other tools for what another call of symd does, and that call."""


class _ValueOfOthers(NamedTuple):
    """A value that an option does not take, as its error begins, the value or the option that is meant, and what is
    said of it."""

    verb: str
    option: str
    value: str
    meant: str
    said: str = "write"


_VALUES: Final = (
    *(_ValueOfOthers("hot", "--by", f"'({'|'.join(words.split())})'", by, "--by stall sums by stall reason: write" if by == "stall" else "write") for by, words in _BY.items()),
    _ValueOfOthers("profile", "--to", "'(flame.*|svg|html)'", "speedscope", f"{FLAME_GRAPHS}: write"),
    _ValueOfOthers("profile", "--to", "'(chrome|trace|json|ctf)'", "perfetto", "--to perfetto opens in ui.perfetto.dev, --to speedscope in www.speedscope.app: write"),
    _ValueOfOthers("profile", "--to", "'gecko'", "firefox"),
    _ValueOfOthers("profile", "--to", "'(collapsed|perf)'", "folded"),
    _ValueOfOthers("profile", "--to", "'(pb|proto|pb.gz)'", "pprof"),
    _ValueOfOthers("hot", "--top", "-", "0", "-n 0 shows all: write"),
    _ValueOfOthers("hot", "--limit", "'[0-9]+'", "-n", "-n N shows N places: write"),
    _ValueOfOthers("grab", "--device", "'", "--simulate", "--simulate PRODUCT builds for a device that is not here: write"),
)  # fmt: skip


def instead_of_value(verb: str, options: Sequence[str], message: str, typed: Sequence[str]) -> Advice:
    """What to write instead of a value that an option does not take."""
    if (words := _translated(verb, typed)) != [*typed] and _are_of_others(verb, typed):
        return Advice("write", words)
    quoted = re.match(r"'(.*?)'", message)
    for row in _VALUES:
        if verb == row.verb and row.option in options and re.match(row.value, message):
            if row.meant.startswith("-"):
                return Advice(row.said, with_word(parted(typed, f"{row.option}="), row.option, row.meant))
            wrong = quoted[1] if quoted else "-1"
            return Advice(row.said, with_word(typed, wrong, row.meant), otherwise=row.said.removesuffix(": write"))
    return NOTHING


def _are_of_others(verb: str, typed: Sequence[str]) -> bool:
    """Whether a word is an option of others of more than one letter, which click takes for several of one letter."""
    names = {word.partition("=")[0] for word in typed if re.match(r"-[A-Za-z]{2}", word)}
    return any(verb in each.verbs.split() and names & {*each.options.split()} for each in _OPTIONS)
