"""Opening what a user names: files, code object URIs, standard input, modules of a daemon."""
