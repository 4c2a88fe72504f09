"""Command lines that ask for places in one file and nothing else, and answers as ``symd symbolize`` writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symd.model.frame_text import EXACT, NotPlain, PlainAnswer, frame_text, printable

Asked = tuple[str, list[tuple[str, str, int]]]
"""The file, and the queries, each with the kernel it names (none: ""), and an address or an offset."""

MODULE_BYTES = 2048 << 20
"""The largest module in bytes, the same number as ``Limits.module_size``."""
ELSEWHERE = 14
"""``Reason.DEBUG_DATA_ELSEWHERE``: files beside FILE may have what is not in it."""
_DECIMAL, _HEXADECIMAL = frozenset("0123456789"), frozenset("0123456789abcdefABCDEF")


def names_server(environment: Mapping[str, str]) -> bool:
    """Whether all verbs ask a daemon."""
    return environment.get("SYMD_SERVER") not in (None, "", "none")


def is_plain_file(file: str) -> bool:
    """Whether a word names a file, as it is and whole."""
    return not file.startswith(("modules/", "file:", "memory:")) and not file.endswith(".gz")


def plain_questions(words: Sequence[str]) -> Asked | None:
    """What words without options ask; None where one is an option, or a file or a query of another kind."""
    if len(words) < 2 or any(word.startswith("-") for word in words):
        return None
    file, *texts = words
    if not is_plain_file(file):
        return None
    queries = []
    for query in texts:
        kernel, _, number = query.rpartition("+")
        value = _number(number)
        if value is None or kernel.startswith("(") or kernel != kernel.strip() or query.startswith("+"):
            return None
        queries.append((query, kernel, value))
    return file, queries


def _number(text: str) -> int | None:
    if text[:2] in ("0x", "0X"):
        return int(text, 16) if 2 < len(text) <= 18 and _HEXADECIMAL.issuperset(text[2:]) else None
    return int(text) if 0 < len(text) < 19 and _DECIMAL.issuperset(text) else None


def answer_text(query: str, answer: PlainAnswer) -> str:
    """The lines of an answer as ``cli.answer_lines`` writes them. Raises NotPlain where more is to be looked for."""
    reason, frames = answer
    if reason == ELSEWHERE:
        raise NotPlain("debug data may be in files beside this one")
    shown = ""
    if reason != EXACT:
        from symd.model.reasons import Reason  # noqa: PLC0415 - most answers are exact

        shown = f" [{Reason(reason).name}]"
    first, *callers = (frame_text(*frame) for frame in frames)
    lines = [f"{query}: {first}{shown}", *(f"  (inlined by) {caller}" for caller in callers)]
    return "".join(f"{printable(line)}\n" for line in lines)
