"""`python -m tests.fuzz.folded.build`: the code objects of this folder, made anew with clang and ld.lld 14. They lie here as
files, so that an input of the fuzzer is the same wherever it is made."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.debuginfo import test_folded_sequences as sources
from tests.debuginfo.test_folded_sequences import linked
from tests.fuzz.folded.objects import FOLDER, MARK

TWO_KERNELS = """
__attribute__((noinline)) static int scaled_1(int x) { return x * 7 + 3; }
__attribute__((noinline)) static int scaled_2(int x) {
  int y = x * 7;
  return y + 3;
}
kernel void first(global int *p) { p[__builtin_amdgcn_workitem_id_x()] = scaled_1(p[0]); }
kernel void second(global int *p) {
  int at = __builtin_amdgcn_workitem_id_x();
  p[at] = scaled_2(p[0]);
}
"""


class Recipe(NamedTuple):
    """Units by the names of their sources, options of all, and of single ones what they have in the place of -g."""

    sources: Mapping[str, str]
    options: tuple[str, ...]
    debug: Mapping[str, str] = {}


def _with_helper(unit: str, before: str = "") -> str:
    return f"{before}{sources.SAME_HELPER}int {unit}(int x) {{ return helper(x) * {ord(unit)}; }}\n"


RECIPES = {
    "kernels": Recipe({"kernels.cl": TWO_KERNELS}, ("-O2",)),
    "one-unit-4": Recipe({"two.c": sources.TWO_HELPERS}, ("-O2", "-gdwarf-4"), {"two.c": "-g"}),
    "one-unit-5": Recipe({"later.c": sources.LATER_HELPER_STAYS}, ("-O0",), {"later.c": "-gdwarf-5"}),
    "lambdas": Recipe({"lambdas.cpp": sources.LAMBDAS}, ("-O2",)),
    "instances": Recipe({"instances.cpp": sources.INSTANCES}, ("-O2",), {"instances.cpp": "-gdwarf-4"}),
    "inlined": Recipe({"callers.c": sources.CALLERS}, ("-O2",)),
    "inlined-lines-alone": Recipe({"callers.c": sources.CALLERS}, ("-O2",), {"callers.c": "-g1"}),
    "two-units": Recipe({"a.c": _with_helper("a"), "b.c": _with_helper("b", "\n\n")}, ("-O2",)),
    "two-units-4": Recipe(
        {"a.c": _with_helper("a"), "b.c": _with_helper("b", "\n\n")}, ("-O2",), {"a.c": "-gdwarf-4", "b.c": "-gdwarf-4"}
    ),
    "two-units-lines-alone": Recipe(
        {"a.c": _with_helper("a"), "two.c": sources.TWO_HELPERS}, ("-O2",), {"a.c": "-g1", "two.c": "-g1"}
    ),
    "nobodys": Recipe(
        {"a.c": _with_helper("a"), "b.c": _with_helper("b"), "c.c": _with_helper("c", "\n")}, ("-O2",), {"a.c": "-g0"}
    ),
}


def main() -> None:
    for name, recipe in RECIPES.items():
        marked = {f"{MARK}{unit}": text for unit, text in recipe.sources.items()}
        debug = {f"{MARK}{unit}": option for unit, option in recipe.debug.items()}
        options = ["-fdebug-compilation-dir=/src", "-cl-std=CL2.0"] if "kernels.cl" in recipe.sources else []
        options = options or ["-fdebug-compilation-dir=/src"]
        with tempfile.TemporaryDirectory() as folder:
            data = linked(Path(folder), marked, [*recipe.options, *options], debug)
        (FOLDER / f"{name}.co").write_bytes(data)
        print(f"{len(data):>7}  {name}")


if __name__ == "__main__":
    main()
