"""Engines that have the samples and ask symd inside: `python -m benchmarks.batch_engines ENGINE SAMPLES STORE FOLDER` leaves
FOLDER/ENGINE.parquet: hot lines."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from symd.batch import BatchSymbolizer

KEYS = ["function", "file", "line", "reason"]


def duckdb_join(samples: Path, store: Path, target: Path) -> None:
    """DuckDB finds the distinct places, symd answers these, DuckDB joins and sums up."""
    import duckdb  # noqa: PLC0415

    database = duckdb.connect()
    database.execute("SET threads = 2")
    database.read_parquet(str(samples)).create_view("samples")
    places = database.sql("SELECT DISTINCT module, address FROM samples").to_arrow_table()
    database.register("answers", BatchSymbolizer(store=store)(places))
    query = """
        WITH leaves AS (SELECT module, address, reason, frames[1] AS leaf FROM answers),
        lines AS (
            SELECT module, address, coalesce(leaf.function, leaf.linkage_name) AS function,
                   CASE WHEN leaf.line IS NOT NULL THEN leaf.file END AS file,
                   CASE WHEN leaf.file IS NOT NULL THEN leaf.line END AS line,
                   CASE WHEN leaf.file IS NULL OR leaf.line IS NULL THEN reason END AS reason
            FROM leaves
        )
        SELECT function, file, line, reason, sum(weight)::BIGINT AS weight
        FROM samples JOIN lines USING (module, address) GROUP BY ALL"""
    pq.write_table(database.sql(query).to_arrow_table(), target)


def ray_actors(samples: Path, store: Path, target: Path) -> None:
    """Two actors that map the index of the store; their partial sums are summed up here."""
    import ray  # noqa: PLC0415

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=2 << 30)
    ray.data.DataContext.get_current().enable_progress_bars = False
    lines = ray.data.read_parquet(str(samples)).map_batches(
        BatchSymbolizer,
        fn_constructor_kwargs={"store": str(store), "form": "hot-lines"},
        batch_format="pyarrow",
        batch_size=1 << 20,
        concurrency=2,
        num_cpus=0.5,
    )
    parts = pa.concat_tables(lines.iter_batches(batch_format="pyarrow", batch_size=None))
    summed = parts.group_by(KEYS).aggregate([("weight", "sum")]).rename_columns({"weight_sum": "weight"})
    pq.write_table(summed, target)
    ray.shutdown()


def copy(samples: Path, _store: Path, target: Path) -> None:
    """What reading and writing take alone."""
    with pq.ParquetFile(samples) as file, pq.ParquetWriter(target, file.schema_arrow, compression="zstd") as writer:
        for batch in file.iter_batches(1 << 19):
            writer.write_batch(batch)


ENGINES = {"duckdb": duckdb_join, "ray": ray_actors, "copy": copy}

if __name__ == "__main__":
    ENGINES[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]) / f"{sys.argv[1]}.parquet")
