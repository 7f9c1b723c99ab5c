"""By which door a user came, so that messages name parameters as they are given there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Door:
    """The way by which a user came: in Python, or by the command line."""

    options = False

    @classmethod
    @contextmanager
    def of_options(cls) -> Iterator[None]:
        """While a command runs."""
        cls.options = True
        try:
            yield
        finally:
            cls.options = False

    @classmethod
    def named(cls, name: str) -> str:
        """A parameter as it is called there: ``max_dropped``, or ``--max-dropped``."""
        return f"--{name.replace('_', '-')}" if cls.options else name

    @classmethod
    def spelled(cls, name: str) -> str:
        """A parameter as it is asked for there: ``grid=``, or ``--grid``."""
        return cls.named(name) if cls.options else f"{name}="

    @classmethod
    def given(cls, name: str, value: str | float) -> str:
        """A parameter as it is given there: ``engine="spark"``, or ``--engine spark``."""
        text = f'"{value}"' if isinstance(value, str) else f"{value:g}"
        return f"{cls.named(name)} {value}" if cls.options else f"{name}={text}"

    @classmethod
    def in_python(cls, text: str) -> str:
        """What is said of what commands do not have; nothing to their users."""
        return "" if cls.options else text
