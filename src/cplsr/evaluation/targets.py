"""The domains to measure on."""

from __future__ import annotations

from collections.abc import Iterable

from cplsr.data.domain import Domain
from cplsr.data.open import open_domain
from cplsr.errors import InputError


def open_targets(named: Iterable[tuple[str | None, str]], *, strict: bool = False) -> dict[str, Domain]:
    """Open target domains.

    Args:
        named: (name, source) of each; the name `None` stands for the domain's own.
        strict: See `open_domain`.

    Returns:
        The domains by name, in the order given.

    Raises:
        InputError: If one cannot be opened, or two have the same name.
    """
    targets: dict[str, Domain] = {}
    for given_name, source in named:
        domain = open_domain(source, strict=strict)
        name = given_name or domain.name
        if name in targets:
            raise InputError(f"two targets are called {name!r}: give one of them another name, as NAME={source}")
        targets[name] = domain
    return targets
