"""The rules of the Level Zero environment, on modules written here."""
