"""`python -m tests.survey [NAME...] [--keep] [--no-page]`: exit code 1, with what was wrong, unless nothing was; 3 where something
could not be had."""

from __future__ import annotations

import argparse
import json
import shutil

from tests.survey import page
from tests.survey.artefacts import ARTEFACTS, named
from tests.survey.case import SurveyError
from tests.survey.registries import Unreachable
from tests.survey.surveyed import Row, survey
from tests.survey.toolbox import BUILD

WRONG, MISSING = 1, 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.survey", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(each.name for each in ARTEFACTS))
    parser.add_argument("--keep", action="store_true", help="leave what was unpacked in build/survey")
    parser.add_argument("--no-page", action="store_true", help="leave docs/formats.md alone")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - {each.name for each in ARTEFACTS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    outcomes = [one(name, keep=chosen.keep, write=not chosen.no_page) for name in chosen.names or every()]
    return max(outcomes, key=(0, MISSING, WRONG).index)


def every() -> list[str]:
    return [each.name for each in ARTEFACTS]


def one(name: str, *, keep: bool, write: bool) -> int:
    """Survey an artefact, tell, and write its row; the exit code."""
    artefact, folder = named(name), BUILD / name
    print(f"{name}: {artefact.title}", flush=True)
    code = 0
    try:
        row = survey(artefact, folder)
    except Unreachable as reason:
        print(f"  not surveyed: {reason}", flush=True)
        return MISSING
    except SurveyError as error:
        row = Row(problems=[str(error)])
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"  {page.line(artefact, row)}")
    for problem in row.problems:
        print(f"  WRONG: {problem}", flush=True)
        code = WRONG
    (BUILD / f"{name}.json").write_text(json.dumps(row.json(), indent=1))
    if write and row.files:
        page.write({name: page.line(artefact, row)})
    return code


if __name__ == "__main__":
    raise SystemExit(main())
