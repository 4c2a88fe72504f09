"""Tables of samples as profilers keep them (Apache Arrow, Parquet): a place a row in, frames or hot lines out.

``places`` are the places of the rows, ``answering`` finds for each row an entry of the ``location_registry``, which has
each distinct location once; ``arrow_places`` and ``tables`` are the way from and to tables of Arrow, ``sample_files``
and ``parquet_files`` from file to file."""
