"""One address read without NumPy."""
