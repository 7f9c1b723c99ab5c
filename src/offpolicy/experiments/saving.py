"""What experiments find, in a folder: numbers, tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from offpolicy._core.documents import dumps
from offpolicy._core.files import write_whole
from offpolicy.errors import MissingPackageError


@dataclass(frozen=True)
class Report:
    """What an experiment prints, and the files that it leaves, by name."""

    text: str
    files: Mapping[str, Any]
    """Texts are written as they are, anything else as JSON."""
    pictures: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)
    folder: str = ""
    """Within the one that is asked for."""

    def save(self, out: Path) -> list[Path]:
        """Write them all; pictures only if matplotlib is there."""
        folder = out / self.folder
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            text = content if isinstance(content, str) else dumps(content, ascii_only=True) + "\n"
            write_whole(folder / name, text)
        written = [folder / name for name in self.files]
        try:
            for name, draw in self.pictures.items():
                draw(folder / name)
                written.append(folder / name)
        except MissingPackageError:
            pass
        return written
