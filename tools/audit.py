"""Audits the dependencies: that requirements.lock pins each one by digest and is what is installed, and that no advisory is
known for any of them.

    python tools/audit.py           as `make check` does
    python tools/audit.py --strict  also fails where the advisories cannot be reached

Advisories come from PyPI's JSON API (https://docs.pypi.org/api/json/, "vulnerabilities"), which has those of OSV; it is what
pip-audit asks by default. Where it cannot be reached, as behind a mirror that has the packages alone, that is said.
$SYMD_ADVISORIES names another service with the same API.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "requirements.lock"
SERVICE = "https://pypi.org"
SECONDS = 10.0
AT_ONCE = 8

_PINNED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")


@dataclass(frozen=True, slots=True)
class Pinned:
    """One requirement; ``hashes`` is how many archives it may come as."""

    name: str
    version: str
    hashes: int


class Unreachable(Exception):
    """The service that has the advisories does not answer as it should."""


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--strict"]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        pinned = read_lock(LOCK.read_text(encoding="utf-8"))
    except ValueError as error:
        print(f"audit: {LOCK.name}: {error}", file=sys.stderr)
        return 1
    wrong = [*unlike(pinned)]
    try:
        wrong += advisories(pinned, os.environ.get("SYMD_ADVISORIES", SERVICE))
        asked = "no advisory is known for any"
    except Unreachable as error:
        asked = f"advisories were not asked for: {error}"
        if arguments:
            wrong.append(asked)
    for each in wrong:
        print(f"audit: {each}", file=sys.stderr)
    if wrong:
        return 1
    print(f"audit: {len(pinned)} dependencies are pinned by digest and installed as pinned; {asked}")
    return 0


def read_lock(text: str) -> list[Pinned]:
    """The requirements of a lock file. Raises ValueError for one that is not pinned to a version and to digests."""
    found = []
    for entry in re.split(r"(?<!\\)\n", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)):
        if not entry.strip():
            continue
        match = _PINNED.match(entry)
        hashes = len(_HASH.findall(entry))
        if not match or not hashes:
            raise ValueError(f"not pinned to a version and a digest: {entry.split()[0]}")
        found.append(Pinned(match["name"], match["version"], hashes))
    return found


def unlike(pinned: list[Pinned]) -> list[str]:
    """What is installed in another version than the lock says; what is not installed is nobody's danger."""
    found = []
    for each in pinned:
        try:
            here = version(each.name)
        except PackageNotFoundError:
            continue
        if here != each.version:
            found.append(f"{each.name} {here} is installed, the lock has {each.version}: make venv")
    return found


def advisories(pinned: list[Pinned], service: str) -> list[str]:
    """A sentence for each advisory. Raises Unreachable."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        parts = pool.map(lambda each: _advisories(each, service), pinned)
        return [sentence for part in parts for sentence in part]


def _advisories(each: Pinned, service: str) -> list[str]:
    url = f"{service}/pypi/{each.name}/{each.version}/json"
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 - the scheme is ours or the user's
            entries = json.load(answer)["vulnerabilities"]
    except (OSError, ValueError, KeyError) as error:
        raise Unreachable(f"{url}: {error}") from error
    return [_sentence(each, entry) for entry in entries if not entry.get("withdrawn")]


def _sentence(each: Pinned, entry: dict[str, object]) -> str:
    fixed = ", ".join(entry.get("fixed_in") or ()) or "no version yet"  # type: ignore[arg-type]
    return f"{each.name} {each.version}: {entry.get('id')} ({entry.get('link', 'no link')}), mended in {fixed}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
