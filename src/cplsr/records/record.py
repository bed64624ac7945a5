"""How a record becomes a file and is read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from cplsr.declared import read_record
from cplsr.files import write_json
from cplsr.records.public import public

R = TypeVar("R", bound="Record")


class Record:
    """Base of the dataclasses that are the content of a JSON file, whose fields are its entries.

    Attributes:
        file: The file's name, where paths are those of its folder; empty where they are the file's own.
        what: Its content in words, with what writes it.
        indent: Of the lines of the file; `None` writes one.
        tells_paths: Fields in which folders of those who made it may stand.
    """

    file: ClassVar[str] = ""
    what: ClassVar[str]
    indent: ClassVar[int | None] = 2
    tells_paths: ClassVar[tuple[str, ...]] = ()

    def public(self: R) -> R:
        """The same without anybody's folders."""
        return replace(self, **{name: public(getattr(self, name)) for name in self.tells_paths})  # type: ignore[type-var]

    def to_json(self) -> dict[str, Any]:
        """As plain lists and dictionaries, the content of the file."""
        return msgspec.to_builtins(self.public())

    def write(self, path: Path | str) -> None:
        """Write the file, whole or not at all."""
        write_json(Path(path) / self.file, self.to_json(), indent=self.indent)

    @classmethod
    def read(cls: type[R], path: Path | str) -> R:
        """Read what `write` wrote, earlier versions included."""
        return read_record(Path(path) / cls.file, cls, cls.what).public()
