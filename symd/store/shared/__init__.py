"""A store that several daemons on several machines share: the catalogue in PostgreSQL, the bytes of modules and indexes
in an object storage with a cache of whole files on each machine. It has the face of ``symd.store`` and keeps the same
promises."""
