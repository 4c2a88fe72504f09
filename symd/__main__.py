"""``python -m symd`` is the command ``symd``."""

from symd.cli import main

if __name__ == "__main__":
    main()
