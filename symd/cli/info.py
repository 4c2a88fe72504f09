"""``symd info FILE``: what is inside, however nested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.text import Text
from rich.tree import Tree

from symd.answers_json import to_json
from symd.answers_json.summaries import module_json
from symd.cli.module import open_module
from symd.cli.options import example, file_verb
from symd.cli.output import printable, write_json, write_rich
from symd.config import Limits
from symd.model.summaries import ContainerSummary, ModuleSummary, ObjectSummary


@click.command("info", epilog=example("symd info program.bin\nsymd info --json libkernels.so"))
@file_verb
def command(file: str, server: str | None, limits: Limits, as_json: bool) -> None:
    """Show what is inside FILE: containers, code objects, targets, kernels and their debug data.

    FILE may be "-" for standard input, or file://PATH#offset=N&size=N for a part of a file.
    """
    with open_module(file, server, limits) as module:
        summary = module.summary()
    if as_json:
        write_json(module_json(file, summary))
    else:
        write_rich(_tree(file, summary))


def _tree(file: str, module: ModuleSummary) -> Tree:
    tree = Tree(_text((file, "bold"), f"{module.format}, {module.size} bytes"))
    tree.add(_text(("sha256", "dim"), module.sha256))
    _add_notes(tree, module.notes)
    for container in module.containers:
        _add_container(tree, container)
    for item in module.objects:
        _add_object(tree, item)
    return tree


def _add_container(tree: Tree, container: ContainerSummary) -> None:
    """What the module itself says stands under its own line."""
    branch = tree
    if container.path:
        branch = tree.add(_text("container", (container.path, "cyan"), f"{container.format}, {container.size} bytes"))
    plain = {name: value for name, value in container.facts.items() if name != "entries"}
    if plain:
        branch.add(_text(_facts(plain)))
    for entry in container.facts.get("entries", ()):
        branch.add(_text("entry", _facts(_said(entry)) if isinstance(entry, Mapping) else str(entry)))


def _said(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without what it leaves empty."""
    return {name: value for name, value in entry.items() if value not in ("", None, False)}


def _add_object(tree: Tree, item: ObjectSummary) -> None:
    target = f" for {item.target}" if item.target else ""
    branch = tree.add(
        _text(
            (item.path or "(the file itself)", "cyan"),
            f"{item.format}{target}, {item.size} bytes, debug {item.debug}",
        )
    )
    if item.facts:
        branch.add(_text(_facts(item.facts)))
    _add_notes(branch, item.notes)
    for kernel in item.kernels:
        place = f"{kernel.section or f'#{kernel.section_index}'}+{kernel.offset:#x}, {kernel.size} bytes"
        leaf = branch.add(_text("kernel", (kernel.name, "green"), place))
        if kernel.facts:
            leaf.add(_text(_facts(kernel.facts)))


def _add_notes(tree: Tree, notes: Sequence[str]) -> None:
    for note in notes:
        tree.add(_text(("note", "yellow"), note))


def _facts(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_value(name, value)}" for name, value in facts.items())


def _value(name: str, value: Any) -> str:
    if name == "arguments" and value and all(isinstance(one, Mapping) for one in value):
        return f"({', '.join(map(_argument, value))})"
    return value if isinstance(value, str) else to_json(value)


def _argument(argument: Mapping[str, Any]) -> str:
    """Address space, type and name as a declaration has them; the size where the format knows no more."""
    known = [argument.get(key) for key in ("address_space", "type", "name")]
    words = [str(word) for word in known if word]
    return " ".join(words) or f"{argument.get('size', '?')} bytes"


def _text(*parts: str | tuple[str, str]) -> Text:
    """Words side by side, each plain or with a style."""
    pairs = [part if isinstance(part, tuple) else (part, "") for part in parts]
    return Text("  ").join(Text(printable(text), style) for text, style in pairs)
