"""gdb's ``info scope``, ``info line`` and their like, which are no files: the calls of symd that answer them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Final

_VERBS: Final = {
    **dict.fromkeys(("scope", "locals", "args", "variables", "frame"), "variables"),
    **dict.fromkeys(("line", "symbol", "source"), "symbolize"),
    **dict.fromkeys(("functions", "types", "address"), "names"),
}
"""What gdb's info takes for its first word, and the verb that answers it."""


def call_for_gdbs_info(words: Sequence[str]) -> str:
    """The whole call that is meant by gdb's ``info`` with these words; "" where the first is none of gdb's, or a
    file."""
    verb = _VERBS.get(words[0])
    if verb is None or os.path.lexists(words[0]):  # pathlib is slow to load
        return ""
    rest = list(words[1:])
    file = next((each for each in rest if os.path.isfile(each)), "FILE")  # noqa: PTH113 - pathlib is slow to load
    about = next((each.lstrip("*") for each in rest if each != file), "")
    if verb == "names":
        about = as_glob(about)
    elif verb == "symbolize" and ":" in about:
        verb = "locate"
    return shlex.join(["symd", verb, file, about or "PLACE"])


def as_glob(expression: str) -> str:
    """The pattern of a shell that a simple regular expression means, which may be anywhere in a name unless it is
    tied."""
    plain = expression.strip("/")
    bare = plain.strip("^$").replace(".*", "*").replace(".+", "?*")
    if not bare:
        return "*"
    begin, end = "" if plain.startswith("^") else "*", "" if plain.endswith("$") else "*"
    return f"{begin}{bare}{end}".replace("**", "*")
