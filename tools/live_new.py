"""Set up the newer Intel driver generation in a folder of its own, without root, and run its compiler.

    python tools/live_new.py setup                     # about 80 MB (450 MB unpacked) from the machine's own Debian mirror, suite sid
    python tools/live_new.py ocloc compile -file vadd.cl -device pvc -options -g -out_dir out
    python tools/live_new.py test                      # the live tests against it: pytest, with SYMD_LIVE_NEW_ROOT set

Nothing is installed: packages are unpacked below the folder (default `.cache/live-new`, chosen with `--root`) and started
through the C library that came with them. The versions that were taken stand in `ROOT/versions.txt`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

PACKAGES = (
    "intel-ocloc", "libze-intel-gpu1", "intel-opencl-icd", "libigc2", "libigdfcl2", "libigdgmm12", "libze1", "libc6",
    "libgcc-s1", "libstdc++6", "zlib1g", "ocl-icd-libopencl1", "libigc2-tools",
)  # fmt: skip
SUITE = "sid"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
PROJECT = Path(__file__).resolve().parent.parent
DEFAULT_ROOT = PROJECT / ".cache" / "live-new"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = "usr/lib64/ld-linux-x86-64.so.2"


class Source(NamedTuple):
    """One mirror that apt knows: where, for which suites, and the keyring that signs it."""

    uri: str
    suites: tuple[str, ...]
    keyring: str


class SetupError(Exception):
    """What stands in the way, and what to do; printed as one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options, unknown = parser.parse_known_args(arguments)
    if unknown and "rest" not in options:
        parser.error(f"unknown: {' '.join(unknown)}")
    options.rest = [*unknown, *getattr(options, "rest", ())]
    root = options.root.resolve()
    try:
        return int(options.action(root, options))
    except SetupError as error:
        print(f"live_new: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=DEFAULT_ROOT, help="where the drivers live (%(default)s)")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    setup = verbs.add_parser("setup", help="download and unpack, unless that was done before")
    setup.add_argument("--again", action="store_true", help="start over, with today's versions")
    setup.set_defaults(action=set_up)
    test = verbs.add_parser(
        "test", add_help=False, help="run the live tests against these drivers; what follows goes to pytest"
    )
    test.add_argument("rest", nargs=argparse.REMAINDER)
    test.set_defaults(action=run_tests)
    ocloc = verbs.add_parser(
        "ocloc", add_help=False, help="run the newer offline compiler with the arguments that follow"
    )
    ocloc.add_argument("rest", nargs=argparse.REMAINDER)
    ocloc.set_defaults(action=run_ocloc)
    return parser


def set_up(root: Path, options: argparse.Namespace) -> int:
    """Fill ``root``; the file versions.txt is written last and says that everything is there."""
    if options.again or not (root / "versions.txt").exists():
        _clear(root)
        packages = _download(root, _debian_source())
        for package in packages:
            _run(["dpkg", "-x", str(package), str(root)])
        _check(root)
        shutil.rmtree(root / "apt" / "lists")
        shutil.rmtree(root / "apt" / "cache")
        (root / "versions.txt").write_text("".join(f"{package.stem}\n" for package in packages))
    print((root / "versions.txt").read_text(), end="")
    print(f"ready: SYMD_LIVE_NEW_ROOT={root}")
    return 0


def _clear(root: Path) -> None:
    """Remove what an earlier run left; a folder that holds anything else is not touched."""
    if not root.exists() or not any(root.iterdir()):
        return
    if not (root / "apt" / "sources.list").exists():
        raise SetupError(f"{root} holds other things; choose an empty folder")
    shutil.rmtree(root)


def run_ocloc(root: Path, options: argparse.Namespace) -> int:
    return subprocess.run([*ocloc_command(root), *options.rest], check=False).returncode


def run_tests(root: Path, options: argparse.Namespace) -> int:
    if not (root / "versions.txt").exists():
        raise SetupError(f"no drivers below {root}; run `python tools/live_new.py setup` first")
    command = [sys.executable, "-m", "pytest", "-m", "live_new", "tests/live", *options.rest]
    return subprocess.run(
        command, check=False, cwd=PROJECT, env={**os.environ, "SYMD_LIVE_NEW_ROOT": str(root)}
    ).returncode


def ocloc_command(root: Path) -> list[str]:
    """The words that start the newer ocloc. `usr/bin/ocloc` is an absolute link, so the versioned name is called."""
    programs = sorted((root / "usr" / "bin").glob("ocloc-*"))
    if not programs:
        raise SetupError(f"no ocloc below {root}; run `python tools/live_new.py setup` first")
    return [str(root / LOADER), "--library-path", str(root / LIBRARIES), str(programs[-1])]


def _download(root: Path, source: Source) -> list[Path]:
    """All packages, below ``root/packages``, by a private apt configuration that leaves the machine's own alone."""
    private, packages = root / "apt", root / "packages"
    for folder in (private / "lists" / "partial", private / "cache" / "archives" / "partial", packages):
        folder.mkdir(parents=True, exist_ok=True)
    sources = private / "sources.list"
    sources.write_text(f"deb [signed-by={source.keyring}] {source.uri} {SUITE} main\n")
    apt = ["apt-get", "-q", *_apt_options(private, sources)]
    _run([*apt, "update"])
    _run([*apt, "download", *PACKAGES], cwd=packages)
    found = sorted(packages.glob("*.deb"))
    missing = [name for name in PACKAGES if not any(path.name.startswith(f"{name}_") for path in found)]
    if missing:
        raise SetupError(f"the mirror did not give {', '.join(missing)}")
    return found


def _apt_options(private: Path, sources: Path) -> list[str]:
    values = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": private / "lists",
        "Dir::Cache": private / "cache",
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Languages": "none",
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "root",
    }
    return [word for name, value in values.items() for word in ("-o", f"{name}={value}")]


def _check(root: Path) -> None:
    ocloc_command(root)
    wanted = (LOADER, f"{LIBRARIES}/libze_intel_gpu.so.1", f"{LIBRARIES}/intel-opencl/libigdrcl.so")
    missing = [name for name in wanted if not (root / name).exists()]
    if missing:
        raise SetupError(f"the packages no longer carry {', '.join(missing)}; this script needs to follow them")


def _debian_source() -> Source:
    """The mirror that this machine takes its own Debian release from."""
    release = _codename()
    for source in apt_sources(Path("/etc/apt")):
        if release in source.suites:
            return source
    raise SetupError(f"no mirror for suite {release!r} among the apt sources; this needs a Debian machine")


def _codename() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    facts = dict(line.split("=", 1) for line in lines if "=" in line)
    return facts.get("VERSION_CODENAME", "").strip('"')


def apt_sources(folder: Path) -> Iterator[Source]:
    """Every binary source below an apt folder: one-line files (`*.list`) and deb822 files (`*.sources`), sources.list(5)."""
    lists = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))]
    for path in lists:
        if path.exists():
            yield from one_line_sources(path.read_text())
    for path in sorted((folder / "sources.list.d").glob("*.sources")):
        yield from deb822_sources(path.read_text())


def one_line_sources(text: str) -> Iterator[Source]:
    """Sources of the one-line form: ``deb [option=value ...] URI suite component ...``."""
    for line in text.splitlines():
        words = line.split("#", 1)[0].replace("[", " [ ").replace("]", " ] ").split()
        if len(words) < 3 or words[0] != "deb":
            continue
        options: dict[str, str] = {}
        rest = words[1:]
        if rest[0] == "[":
            end = rest.index("]")
            options = dict(word.split("=", 1) for word in rest[1:end] if "=" in word)
            rest = rest[end + 1 :]
        if len(rest) >= 2:
            yield Source(rest[0], (rest[1],), options.get("signed-by", KEYRING))


def deb822_sources(text: str) -> Iterator[Source]:
    """Sources of the deb822 form: paragraphs of ``Field: value``, comments between them."""
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for paragraph in kept.split("\n\n"):
        pairs = (line.split(":", 1) for line in paragraph.splitlines() if ":" in line and not line.startswith(" "))
        fields = {name.strip().lower(): value.strip() for name, value in pairs}
        if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes") != "no":
            suites = tuple(fields.get("suites", "").split())
            for uri in fields.get("uris", "").split():
                yield Source(uri, suites, fields.get("signed-by") or KEYRING)


def _run(command: list[str], cwd: Path | None = None) -> None:
    if shutil.which(command[0]) is None:
        raise SetupError(f"{command[0]} is not here; this needs a Debian machine")
    done = subprocess.run(
        command, cwd=cwd, check=False, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
    )
    if done.returncode:
        raise SetupError(
            f"`{' '.join(command[:1] + command[-3:])}` failed ({done.returncode}): {done.stderr.strip()[-800:]}"
        )


if __name__ == "__main__":
    sys.exit(main())
