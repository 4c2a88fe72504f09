"""Files in any order: of the words of a call that have no option, what is a module or a profile by its first bytes goes
where the verb takes it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from shlex import quote

import click

from symd.cli.advice import MissingOut, file_head, profile_format
from symd.errors import SymdError
from symd.formats.containers import identify


class _Word(str):
    """A word of a call, which is another object than the same word elsewhere in it."""

    __slots__ = ()


class _FilesInAnyOrder(click.Command):
    """A verb that puts an option in front of some of the files that come without one."""

    option = ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Called by click with the words behind the verb."""
        if ctx.resilient_parsing:  # a shell completes the call, as it stands
            return super().parse_args(ctx, args)
        words = [_Word(each) for each in args]
        moved = {id(each) for each in self._moved(self._without_option(ctx, words))}
        return super().parse_args(
            ctx, [str(part) for each in words for part in ((self.option, each) if id(each) in moved else (each,))]
        )

    def _without_option(self, context: click.Context, words: list[_Word]) -> list[_Word]:
        """The words that are arguments; none where the call has the option, or is wrong in another way."""
        try:
            found, left, _ = self.make_parser(context).parse_args(list(words))
        except click.UsageError:
            return []
        if any(found.get(str(each.name)) for each in self.params if self.option in each.opts):
            return []
        arguments = [found.get(str(each.name)) for each in self.params if isinstance(each, click.Argument)]
        values = {
            id(each)
            for value in (*arguments, left)
            for each in (value if isinstance(value, (tuple, list)) else [value])
        }
        return [each for each in words if id(each) in values]

    def _moved(self, words: Sequence[_Word]) -> Sequence[_Word]:
        """Return the arguments that the option is put in front of."""
        raise NotImplementedError


class ProfileAndModules(_FilesInAnyOrder):
    """A verb about a profile: modules go after -m."""

    option = "-m"

    def _moved(self, words: Sequence[_Word]) -> Sequence[_Word]:
        kinds = _kinds(words)
        has_profile = any(word == "-" or kind == "profile" for word, kind in zip(words, kinds, strict=True))
        return [word for word, kind in zip(words, kinds, strict=True) if kind == "module"] if has_profile else []


class ProfileToOut(ProfileAndModules):
    """One that writes the profile to OUT, which the call must name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Called by click with the words behind the verb."""
        rest = super().parse_args(ctx, args)
        given = ctx.params
        if (
            not ctx.resilient_parsing
            and given.get("target") is None
            and given.get("output") is None
            and file_kind(given["source"]) != "module"
        ):
            modules = " ".join(f"-m {quote(each)}" for each in given.get("modules") or ("FILE",))
            to = f"--to {given['to']} -o " if given.get("to") else ""
            shown = f"symd profile {modules} {quote(given['source'])} {to}OUT"
            raise MissingOut(f"Missing argument 'OUT' (or -o OUT); write, for example: {shown}", ctx)
        return rest


class ModuleAndProfile(_FilesInAnyOrder):
    """A verb about a module: the profile to show on it goes after --profile."""

    option = "--profile"

    def _moved(self, words: Sequence[_Word]) -> Sequence[_Word]:
        kinds = _kinds(words)
        shown = [word for word, kind in zip(words, kinds, strict=True) if kind == "profile"]
        return shown if len(shown) == 1 and "module" in kinds else []


def _kinds(words: Sequence[str]) -> list[str]:
    """What the words are, by the bytes of the files that they name; "" for what is neither. No file is read where only
    one of the words is a file or standard input: it is where it belongs."""
    files = [os.path.isfile(each) for each in words]  # noqa: PTH113 - pathlib is slow to load
    if sum(files) + words.count("-") < 2:
        return [""] * len(words)
    return [file_kind(word) if is_file else "" for word, is_file in zip(words, files, strict=True)]


def file_kind(path: str) -> str:
    """Return what a file is by its first bytes: "profile" or "module"; "" where it is neither, or cannot be read."""
    head = file_head(path)
    if profile_format(head) is not None:
        return "profile"
    try:
        return "module" if identify(head) is not None else ""
    except SymdError:
        return ""
