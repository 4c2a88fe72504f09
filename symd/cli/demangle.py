"""Readable C++ names, by the demangler that comes with binutils or LLVM; each name is asked for once."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence

from symd.errors import DriverFailed, DriverMissing
from symd.model.answers import Answer, Frame

PROGRAMS = ("c++filt", "llvm-cxxfilt", *(f"llvm-cxxfilt-{version}" for version in range(21, 13, -1)))
SECONDS = 30.0


class Demangler:
    """Raises ``DriverMissing`` when no demangler is installed."""

    def __init__(self) -> None:
        found = next((path for path in map(shutil.which, PROGRAMS) if path), None)
        if found is None:
            raise DriverMissing("no demangler is installed", hint="install binutils (c++filt), or leave out -C")
        self._program = found
        self._known: dict[str, str] = {}

    def learn(self, names: Iterable[str]) -> None:
        """Look up many names in one go."""
        new = [name for name in dict.fromkeys(names) if name.startswith("_Z") and name not in self._known]
        new = [name for name in new if name.isprintable() and " " not in name]
        if new:
            self._known.update(zip(new, self._ask(new), strict=True))

    def names(self, names: Iterable[str]) -> dict[str, str]:
        """Each mangled name that can be read, as it was written."""
        wanted = list(dict.fromkeys(names))
        self.learn(wanted)
        return {name: self._known[name] for name in wanted if name in self._known}

    def answers(self, answers: Sequence[Answer]) -> list[Answer]:
        """The answers with each frame's function as its linkage name says it, where that is a mangled one."""
        self.learn(_mangled(frame) for answer in answers for frame in answer.frames)
        return [answer._replace(frames=tuple(map(self._frame, answer.frames))) for answer in answers]

    def _frame(self, frame: Frame) -> Frame:
        readable = self._known.get(_mangled(frame))
        return frame._replace(function=readable) if readable else frame

    def _ask(self, names: list[str]) -> list[str]:
        text = "\n".join(names) + "\n"
        try:
            done = subprocess.run(
                [self._program], input=text, capture_output=True, encoding="utf-8", timeout=SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DriverFailed(f"the demangler failed: {error}", where=self._program, hint="leave out -C") from error
        answers = done.stdout.splitlines()
        if done.returncode or len(answers) != len(names):
            raise DriverFailed(
                f"the demangler ended with {done.returncode} after {len(answers)} of {len(names)} names",
                where=self._program,
                hint="leave out -C",
            )
        return answers


def _mangled(frame: Frame) -> str:
    return frame.linkage_name or frame.function or ""
