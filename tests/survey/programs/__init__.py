"""Programs that make GPU code with compilers that packages carry. Each is run by itself, `python PROGRAM.py PACKAGES OUT`: PACKAGES
is the folder in which the packages are unpacked, and files are left in OUT."""
