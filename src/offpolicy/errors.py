"""Everything the library raises on purpose.

```
OffpolicyError
├── LogError            the log itself is malformed
│   └── PropensityError   a logging probability is not one
├── PolicyError         the target policy's probabilities are unusable
├── PredictionError     the reward model's predictions are unusable
├── EstimatorError      unknown estimator, bad parameter
│   └── MissingColumnError  the log lacks a column that the estimator needs
├── SupportError        the log says nothing about this policy
├── ResultError         a stored result cannot be read
├── DatasetError        a data set is not at hand, or is not what it should be
├── MissingPackageError an optional package is not installed
└── ParameterError      any other argument out of range
```

An error about a place in a log carries it: ``error.file``, ``error.column``, ``error.row``.

All but `SupportError` and `MissingPackageError` (an `ImportError`) are also `ValueError`, so code
that guards plain NumPy calls keeps working.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Place(NamedTuple):
    """Where in a log something is; as text 'clicks.parquet, reward, row 412'."""

    file: str = ""
    column: str = ""
    row: int | None = None
    """Counted from 0; a ``unit`` of text, a line, from 1."""
    unit: str = "row"
    part: str = ""
    """Of the row: 'candidate 3'."""

    def __str__(self) -> str:
        at = "" if self.row is None else f"{self.unit} {self.row}"
        return ", ".join(filter(None, (self.file, self.column, at, self.part)))

    @property
    def counting(self) -> str:
        """How rows are counted, as a sentence to follow one about a row; else nothing."""
        if self.row is None or self.unit != "row":
            return ""
        below = ", below the header" if _HEADED.search(self.file) else ""
        return f" Rows are counted from 0{below}."


_HEADED = re.compile(r"\.(csv|tsv|txt)(\.\w+)?$", re.IGNORECASE)


class OffpolicyError(Exception):
    """Base of all errors raised on purpose; its text is a sentence meant for the user.

    With a ``place`` (or a file), the text begins with it, and ``file``, ``column`` and ``row`` are
    known; ``column`` alone is for sentences that name it themselves.
    """

    rows: NDArray[np.int64] | None = None
    """If single rows are malformed: all that are in the same way, counted from 0 in what was
    being read."""

    def __init__(
        self,
        sentence: str,
        place: Place | str | PathLike[str] | None = None,
        rows: NDArray[np.int64] | None = None,
        *,
        column: str = "",
    ) -> None:
        counting = place.counting if isinstance(place, Place) else ""
        super().__init__(f"{place}: {sentence}{counting}" if place else sentence)
        self.place = place if isinstance(place, Place) else Place(str(place or ""), column)
        self.rows = rows

    @property
    def file(self) -> str:
        """The file concerned, or ""."""
        return self.place.file

    @property
    def column(self) -> str:
        """The column or argument concerned, or ""."""
        return self.place.column

    @property
    def row(self) -> int | None:
        """The row concerned, the first of several."""
        return self.place.row


class LogError(OffpolicyError, ValueError):
    """The log is malformed: the text names the column and the row."""


class PropensityError(LogError):
    """A logging probability is zero, negative, above one, or does not sum to one."""


class PolicyError(OffpolicyError, ValueError):
    """The target policy's probabilities are malformed or of the wrong shape."""


class PredictionError(OffpolicyError, ValueError):
    """The reward model's predictions are malformed or of the wrong shape."""


class EstimatorError(OffpolicyError, ValueError):
    """The estimator does not exist, or its parameter is out of range."""


class MissingColumnError(EstimatorError):
    """The estimator needs a column that the log or the call did not provide."""


class SupportError(OffpolicyError):
    """The log holds nothing from which the question could be answered."""


class ResultError(OffpolicyError, ValueError):
    """A stored result cannot be read: it is no JSON, damaged, or of another version."""


class DatasetError(OffpolicyError, ValueError):
    """A data set is not at hand, or is not what it should be: the text says where to get it."""


class MissingPackageError(OffpolicyError, ImportError):
    """An optional package is not installed: the text says how to get it."""


class ParameterError(OffpolicyError, ValueError):
    """An argument is out of its range."""


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """' Did you mean "CAB"?', or '' when nothing is close."""
    by_fold = {option.casefold(): option for option in options}
    close = difflib.get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.5)
    return f' Did you mean "{by_fold[close[0]]}"?' if close else ""
