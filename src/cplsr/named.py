"""Things chosen by name: the package's own, and those that other installed packages bring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from cplsr.declared import nearest
from cplsr.errors import InputError, first_line

T = TypeVar("T")


class Named(Generic[T]):
    """One kind of thing by name, imported when it is asked for.

    What another package brings stands in its pyproject.toml under `[project.entry-points."cplsr.KIND"]`, as
    `name = "module:object"`. A name of the package's own cannot be taken by another.

    Args:
        kind: The group of entry points behind `cplsr.`, for example `heads`.
        thing: What one of them is called in a sentence.
        own: The package's own, as `module:object`.

    Example:
        >>> heads = Named("heads", "head", {"ridge": "cplsr.episodes.heads.ridge:Ridge"})
        >>> heads.find("ridge").__name__
        'Ridge'
    """

    def __init__(self, kind: str, thing: str, own: Mapping[str, str]) -> None:
        self.group, self.thing = f"cplsr.{kind}", thing
        self.own = {name: EntryPoint(name, value, self.group) for name, value in own.items()}

    def __iter__(self) -> Iterator[str]:
        """All names, the package's own first."""
        return iter([*self.own, *self._others()])

    def __contains__(self, name: str) -> bool:
        """Whether there is one of that name."""
        return name in self.own or name in self._others()

    def find(self, name: str) -> T:
        """Import the thing of that name.

        Raises:
            InputError: There is none, or the package that brings it cannot be imported.
        """
        if name in self.own:
            return self.own[name].load()
        others = self._others()
        if name not in others:
            raise InputError(f"there is no {self.thing} {name!r}: {nearest(name, self)}")
        try:
            return others[name].load()
        except Exception as error:
            package = others[name].dist
            raise InputError(
                f"the {self.thing} {name!r} of the package {package.name if package else others[name].module} cannot "
                f"be loaded ({first_line(error)}): mend or uninstall that package"
            ) from error

    def _others(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group) if point.name not in self.own}
