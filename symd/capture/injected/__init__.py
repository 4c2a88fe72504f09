"""Files that are put into other programs: they stand alone, and nothing of symd is imported in them."""
