"""Public value types, one file a topic, imported directly: ``from symd.model.answers import Frame``. Nothing here knows
a file format, a file or a socket."""
