"""``python -m symd`` is the command ``symd``."""

from symd.cli.start import main

if __name__ == "__main__":
    main()
