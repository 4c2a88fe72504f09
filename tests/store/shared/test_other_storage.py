"""A catalogue together with an object storage that is not its own: a prefix with a slip, a folder that is not mounted."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from symd.cli import command_line
from symd.config import Limits
from symd.errors import FailedPrecondition
from symd.store import Store
from symd.store.shared import shared_urls
from tests.object_server import BUCKET, Proxy

LIMITS = Limits(free_disk=0)
OTHER = "there is no module, and the catalogue has 1 module: it is that of another storage"


def test_nobody_takes_the_modules_of_a_catalogue_for_lost_because_the_folder_is_another(
    database: str, tmp_path: Path
) -> None:
    own, other = f"file://{tmp_path}/own", f"file://{tmp_path}/other"
    with closing(shared_urls(own, database, LIMITS).opened(tmp_path / "cache", make=True)) as store:
        digest = store.put(b"module", "label", "raw")
    for make in (True, False):  # a daemon, and who only asks
        with pytest.raises(FailedPrecondition) as caught:
            shared_urls(other, database, LIMITS).opened(tmp_path / "cache of another", make=make)
        assert (caught.value.message, caught.value.where) == (OTHER, other)
        assert caught.value.hint
    with closing(shared_urls(own, database, LIMITS).opened(tmp_path / "cache", make=False)) as store:
        assert store.missing([digest]) == []


def test_storages_that_have_nothing_begin_with_a_catalogue_that_has_nothing(database: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        with closing(
            shared_urls(f"file://{tmp_path}/{name}", database, LIMITS).opened(tmp_path / "cache", make=True)
        ) as store:
            assert store.missing(["0" * 64]) == ["0" * 64]


def test_a_copy_into_another_storage_does_not_find_everything_there_already(
    database: str, proxy: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path / "store") as store:
        store.put(b"module", "label", "raw")
    first, second = (f"s3://{BUCKET}/other-storage/{name}" for name in ("first", "second"))
    both = ["--catalogue", database, "--to-catalogue", database]
    assert command_line.invoke(["store", "copy", str(tmp_path / "store"), first, "--catalogue", database]) == 0
    assert command_line.invoke(["store", "copy", first, second, *both]) == 3
    assert f"symd: {second}: {OTHER}" in capsys.readouterr().err
