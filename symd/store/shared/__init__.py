"""A store that daemons on several machines share: the catalogue in PostgreSQL, the bytes of modules and indexes in an
object storage with a cache of whole files on each machine. It has the interface of ``symd.store`` and keeps the same
promises.
"""
