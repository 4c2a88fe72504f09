"""What is inside a module: containers, code objects and kernels; and a daemon's record of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from symd.model.json import to_json
from symd.model.summaries import (
    ContainerSummary,
    KernelSummary,
    ModuleRecord,
    ModuleSummary,
    ObjectSummary,
    SectionAddresses,
)

_PLACE = KernelSummary._fields[:-1]
"""What is in front of a kernel's facts, which come last: the other fields of the record, by their names. A fact of
such a name is not shown."""
_TAKEN = frozenset((*_PLACE, "address"))
_KEPT_TEXTS = 1024
"""Some hundred bytes to some thousand each."""


def module_json(file: str, module: ModuleSummary) -> dict[str, Any]:
    """The module, with its own notes and the containers that were opened at the end; ``file`` is what the user called
    it."""
    return {
        "file": file,
        "format": module.format,
        "sha256": module.sha256,
        "objects": [object_json(item) for item in module.objects],
        "notes": list(module.notes),
        "containers": [container_json(container) for container in module.containers],
    }


def module_pieces(file: str, module: ModuleSummary, addresses: SectionAddresses | None = None) -> Iterator[str]:
    """The text of ``module_json`` in pieces, one a kernel: of a library with tens of thousands no more is made at a
    time. With the ``addresses`` of sections kernels have their object addresses too."""
    without = module_json(file, module._replace(objects=()))
    yield from _with_array(without, "objects", (_object_pieces(item, addresses) for item in module.objects))


def _object_pieces(item: ObjectSummary, addresses: SectionAddresses | None) -> Iterator[str]:
    texts = _KernelTexts(None if addresses is None else addresses.get(item.path, {}))
    return _with_array(object_json(item._replace(kernels=())), "kernels", zip(map(texts.text, item.kernels)))


class _KernelTexts:
    """The texts of ``kernel_json``, kernel after kernel. Formats give many kernels the same facts in the same
    dictionary, or the same list of arguments in several: each is written once, as long as not too many different ones
    come."""

    def __init__(self, addresses: Mapping[int, int] | None) -> None:
        self._addresses = addresses
        """The addresses of sections by their numbers; all others are at 0. None: kernels are written without one."""
        self._known: dict[int, tuple[object, str]] = {}
        """What was written by its number (``id``); it stays, so that nothing else gets that."""

    def text(self, kernel: KernelSummary) -> str:
        facts = kernel.facts
        if type(facts) is not dict or not facts or not facts.keys().isdisjoint(_TAKEN):
            return to_json(kernel_json(kernel, self._address(kernel)))
        values = zip(_PLACE, kernel[:-1], strict=True)
        place = [f'"{name}": {value if type(value) is int else to_json(value)}' for name, value in values]
        if self._addresses is not None:
            place.append(f'"address": {self._address(kernel)}')
        known = self._known.get(id(facts)) or self._remember(facts, self._facts(facts))
        return f"{{{', '.join(place)}, {known[1]}}}"

    def _address(self, kernel: KernelSummary) -> int | None:
        return None if self._addresses is None else self._addresses.get(kernel.section_index, 0) + kernel.offset

    def _facts(self, facts: dict[str, Any]) -> str:
        """What is between the braces. A list that comes last, as arguments do, is written by itself once it came
        before."""
        *others, (name, last) = facts.items()
        if type(last) is not list or not others:
            return to_json(facts)[1:-1]
        known = self._known.get(id(last))
        if known is None:
            self._remember(last, "")
            return to_json(facts)[1:-1]
        text = known[1] or self._remember(last, to_json(last))[1]
        return f"{to_json(dict(others))[1:-1]}, {to_json(name)}: {text}"

    def _remember(self, value: object, text: str) -> tuple[object, str]:
        if len(self._known) >= _KEPT_TEXTS:
            self._known.clear()
        self._known[id(value)] = value, text
        return value, text


def _with_array(fields: dict[str, Any], name: str, members: Iterable[Iterable[str]]) -> Iterator[str]:
    """The text of an object whose array ``name``, neither its first field nor its last, has these members."""
    at = [*fields].index(name)
    before, after = (dict(part) for part in ([*fields.items()][:at], [*fields.items()][at + 1 :]))
    yield f'{to_json(before)[:-1]}, "{name}": ['
    for number, member in enumerate(members):
        if number:
            yield ", "
        yield from member
    yield f"], {to_json(after)[1:]}"


def container_json(container: ContainerSummary) -> dict[str, Any]:
    """One container with the facts that its format tells."""
    return {
        "container": container.path,
        "format": container.format,
        "size": container.size,
        "facts": dict(container.facts),
    }


def object_json(item: ObjectSummary) -> dict[str, Any]:
    """One code object: its path as ``object``, the other fields of the record by their names, then its kernels, notes
    and facts."""
    fields = item._asdict()
    lists = ("kernels", "notes", "facts")
    return {
        "object": item.path,
        **{name: value for name, value in fields.items() if name not in ("path", *lists)},
        "kernels": [kernel_json(kernel) for kernel in item.kernels],
        "notes": list(item.notes),
        "facts": dict(item.facts),
    }


def kernel_json(kernel: KernelSummary, address: int | None = None) -> dict[str, Any]:
    """The kernel's name and place, with its object address where that is given, then whatever its format says of it; a
    fact never hides what is before it."""
    fields = kernel._asdict()
    facts = fields.pop("facts")
    if address is not None:
        fields["address"] = address
    return {**fields, **{name: value for name, value in facts.items() if name not in fields}}


def record_json(record: ModuleRecord) -> dict[str, Any]:
    """A line of a daemon's catalogue; ``create_time`` is seconds since the epoch, ``failure`` null where it can be
    read."""
    return {
        "module": f"modules/{record.sha256}",
        "sha256": record.sha256,
        "format": record.format or None,
        "size": record.size,
        "label": record.label,
        "create_time": record.create_time,
        "failure": record.failure or None,
    }
