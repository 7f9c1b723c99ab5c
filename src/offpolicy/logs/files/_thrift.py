"""Thrift's compact protocol, in which the footers of Parquet files are written.

Footers are read here before any library reads them: what damaged ones say is to be checked, and
pyarrow ends the process at some of them.
"""

from __future__ import annotations

from typing import Any

_TRUE, _FALSE, _BYTE, _INTEGERS, _DOUBLE, _BINARY = 1, 2, 3, (4, 5, 6), 7, 8
_LISTS, _MAP, _STRUCT, _UUID = (9, 10), 11, 12, 13
_DEEPEST = 64


class Reader:
    """Reads a struct as a dict by the numbers of its fields; nonsense is a ValueError."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            inside = kind in (_TRUE, _FALSE)
            fields[number] = kind == _TRUE if inside else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in _LISTS:
            head = self._byte()
            size = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._value(head & 15, depth + 1) for _ in range(size)]
        if kind == _MAP:
            size = self._unsigned()
            kinds = self._byte() if size else 0
            return [
                self._value(kind, depth + 1)
                for _ in range(size)
                for kind in (kinds >> 4, kinds & 15)
            ]
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind in (_DOUBLE, _UUID):
            return self._bytes(8 if kind == _DOUBLE else 16)
        raise ValueError(f"there is no type {kind}")

    def _bytes(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self.data):
            raise ValueError("it ends too early")
        return self.data[self.at - size : self.at]

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number is too long")

    def _integer(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
