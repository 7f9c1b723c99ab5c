"""Which columns of a table a log is made of, and a log from some of the table's rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from offpolicy.errors import ParameterError
from offpolicy.logs import labels
from offpolicy.logs._bandit_log import BanditLog
from offpolicy.logs._columns import ROLES, Columns, missing_column


@dataclass(frozen=True)
class Roles:
    """The columns of a table that is too large to be held."""

    columns: Columns
    names: Sequence[str]
    """All that there are."""
    source: str

    def __post_init__(self) -> None:
        if self.columns.decision:
            raise ParameterError("The long format is not scanned as it is: use read_log.")

    def of(self, role: str) -> str | None:
        """The column that plays a role, if there is one."""
        return self.columns.of(role, self.names, self.source)

    @cached_property
    def reward(self) -> str:
        name = self.of("reward")
        assert name is not None
        return name

    @cached_property
    def log_columns(self) -> list[str]:
        """The columns that the log itself is made of."""
        played = filter(None, map(self.of, ROLES))
        context = self.columns.context_in(self.names, self.source)
        return list(dict.fromkeys([*played, *context]))

    def with_extra(self, extra: Sequence[str]) -> list[str]:
        """The log's own columns and these."""
        return list(dict.fromkeys([*self.log_columns, *self.known(extra)]))

    def known(self, columns: Sequence[str]) -> Sequence[str]:
        """These columns; raise if one is not there."""
        for name in columns:
            if name not in self.names:
                raise missing_column(self.names, name, "", self.source)
        return columns


def few_clusters(distinct: NDArray[Any], source: str) -> tuple[Hashable, ...]:
    """All clusters of a log if they are few, none of them if many; ``distinct`` are all, or
    `labels.GROUPS` and one more."""
    if not len(distinct) or len(distinct) > labels.GROUPS:
        return ()
    return labels.encode(distinct, "cluster", source)[0]


def log_of(
    table: Any,
    columns: Columns,
    source: str,
    first_row: int,
    clusters: tuple[Hashable, ...] | None,
) -> BanditLog:
    """Some rows of a log, ``clusters`` being those of all of it."""
    log = BanditLog.from_frame(table, columns, source=source)
    group = None
    if clusters is not None and log.cluster is not None:
        group = labels.hash_groups(log.cluster, clusters)
    return log.replace(first_row=first_row, whole_group=group, trusted=True)
