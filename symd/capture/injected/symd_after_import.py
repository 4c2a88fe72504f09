"""A call as soon as a program has imported a module. Stands alone, as ``symd_capture`` does, and imports nothing that
Python has not imported anyway."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from typing import Any


class AfterImport:
    """A finder of ``sys.meta_path`` that calls ``then`` with the module ``name`` when it was imported, and is gone."""

    def __init__(self, name: str, then: Callable[[Any], None]) -> None:
        self._name, self._then = name, then

    def start(self) -> None:
        """Wait for the import; a module that is there already is given at once."""
        if self._name in sys.modules:
            self._then(sys.modules[self._name])
        else:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Wait no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """What the other finders find, with a call behind the module's own code."""
        if fullname != self._name:
            return None
        finders = list(sys.meta_path)
        behind = finders.index(self) + 1 if self in finders else len(finders)
        for finder in finders[behind:]:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find is not None else None
            if spec is not None:
                self._follow(spec.loader)
                return spec
        return None

    def _follow(self, loader: Any) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: Any) -> None:
            if vars(loader).get("exec_module") is exec_module:
                del loader.exec_module
            execute(module)
            if self in sys.meta_path:  # a module may be looked for, and executed, more than once
                self.stop()
                self._then(module)

        loader.exec_module = exec_module
