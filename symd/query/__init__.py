"""One pure module for each question that an index answers."""
