"""Readable names of C++, Rust and D, as the demangler of binutils or LLVM writes them; each name is demangled once.
Names that users write are read by ``symd.query.function_spellings``, which takes what all of these write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from symd.errors import ToolFailed, ToolMissing
from symd.model.answers import Answer, Frame
from symd.system.installed import on_path

LLVM_PROGRAMS = ("llvm-cxxfilt", *(f"llvm-cxxfilt-{version}" for version in range(22, 13, -1)), "c++filt")
PROGRAMS = ("c++filt", *LLVM_PROGRAMS[:-1])
_AS_ADDR2LINE = "--no-verbose"
"""Makes c++filt write names as addr2line does: without the hashes of Rust, and ``std::string`` in short."""
DEMANGLE_SECONDS = 30.0
"""Time that the demangler gets for the names of one question."""
_MEMORY = 1 << 30
"""Address space of the demangler's process."""
_ANSWER_BYTES = 256 << 20
"""A mangled name that repeats its own parts reads as a far longer one."""
_HINT = "leave out -C"
_MANGLED = ("_Z", "_R", "_D")
"""What names begin with that a demangler may read: those of C++ and older Rust, of Rust, and of D."""


class Demangler:
    """A demangler that is installed, run as a process of its own. Raises ToolMissing when none is."""

    def __init__(self, programs: Sequence[str] = PROGRAMS) -> None:
        """The first of the ``programs`` that is installed."""
        found = next((path for path in map(on_path, programs) if path), None)
        if found is None:
            raise ToolMissing("no demangler is installed", hint="install binutils (c++filt), or leave out -C")
        self._command = [found, _AS_ADDR2LINE] if found.endswith("c++filt") else [found]
        self._known: dict[str, str] = {}
        self._unread: set[str] = set()

    def learn(self, names: Iterable[str]) -> None:
        """Look up many names in one go."""
        new = {name: _own(name) for name in names if name not in self._known and name not in self._unread}
        new = {
            name: own for name, own in new.items() if own.startswith(_MANGLED) and own.isprintable() and " " not in own
        }
        if new:
            answers = zip(new.items(), self._ask(list(new.values())), strict=True)
            self._known.update({name: answer for (name, own), answer in answers if answer != own})
            self._unread.update(new.keys() - self._known.keys())

    def names(self, names: Iterable[str]) -> dict[str, str]:
        """Each mangled name that can be read, as it was written."""
        wanted = list(dict.fromkeys(names))
        self.learn(wanted)
        return {name: self._known[name] for name in wanted if name in self._known}

    def answers(self, answers: Sequence[Answer]) -> list[Answer]:
        """The answers with each frame's function as its linkage name says it, where that is a mangled one."""
        self.learn_frames(frame for answer in answers for frame in answer.frames)
        return [answer._replace(frames=self.frames(answer.frames)) for answer in answers]

    def learn_frames(self, frames: Iterable[Frame]) -> None:
        """Look up the names of many frames in one go."""
        self.learn(map(_mangled, frames))

    def frames(self, frames: Sequence[Frame]) -> tuple[Frame, ...]:
        """The frames with each function as its linkage name says it, of the names that were looked up."""
        return tuple(map(self._frame, frames))

    def _frame(self, frame: Frame) -> Frame:
        readable = self._known.get(_mangled(frame))
        return frame._replace(function=readable) if readable else frame

    def _ask(self, names: list[str]) -> list[str]:
        """The readable names in the same order. Raises ToolFailed, ToolCrashed, DeadlineExceeded, LimitExceeded."""
        from symd.system.process.run import run_filter  # noqa: PLC0415 - 9 to 20 ms: most modules have no mangled name

        limits = {"memory": _MEMORY, "most_bytes": _ANSWER_BYTES}
        answers = run_filter(self._command, names, seconds=DEMANGLE_SECONDS, **limits, hint=_HINT)
        if len(answers) != len(names):
            raise ToolFailed(
                f"the demangler answered {len(answers)} of {len(names)} names", where=self._command[0], hint=_HINT
            )
        return answers


def _own(name: str) -> str:
    """Where NVIDIA's tools fold a function into a kernel its name follows the last "$"."""
    return name.rpartition("$")[2] if name.startswith("$") else name


def _mangled(frame: Frame) -> str:
    return frame.linkage_name or frame.function or ""
