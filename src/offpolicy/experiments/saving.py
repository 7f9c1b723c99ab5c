"""What experiments find, in a folder: numbers, tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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

    @classmethod
    def of(
        cls, parts: Iterable[str], body: Any, folder: str = "",
        pictures: Mapping[str, Callable[[Path], None]] | None = None, **more: str,
    ) -> Report:  # fmt: skip
        """Printed and in table.md: headings, sentences and tables; ``body`` is what results.json
        holds, and ``more`` are CSV."""
        text = "\n\n".join(part.strip() for part in parts) + "\n"
        csv = {f"{name}.csv": content for name, content in more.items()}
        return cls(text, {"results.json": body, **csv, "table.md": text}, pictures or {}, folder)

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
