"""``python -m symd`` is the command ``symd``."""

from symd.start import main

if __name__ == "__main__":
    main()
