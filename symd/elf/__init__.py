"""ELF as GPU compilers write it: the reader, compressed sections, and a writer."""
