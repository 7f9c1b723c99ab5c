"""``python -m offpolicy``."""

from offpolicy.cli import main

if __name__ == "__main__":
    main()
