"""What the page says, in every language it speaks; the words are in `texts.toml`.

Sentences that come from below the page, about files, estimates and exports, are known by their English wording.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from cplsr.app.actions import LANGUAGES
from cplsr.errors import InputError

_WORDS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
TEXTS: dict[str, dict[str, str]] = {
    key: dict(zip(LANGUAGES, texts, strict=True)) for key, texts in _WORDS["page"].items()
}
FROM_BELOW = [dict(zip(LANGUAGES, texts, strict=True)) for texts in _WORDS["below"]["wordings"]]


class Said(NamedTuple):
    """Something to say, in whatever language: a key of `TEXTS` and what goes into its gaps."""

    key: str
    values: Mapping[str, Any] = MappingProxyType({})

    @classmethod
    def plain(cls, text: str) -> Said:
        """A sentence from below, in English."""
        return cls("", {"text": text})

    def in_language(self, language: str) -> str:
        """Put it into words."""
        if not self.key:
            return from_below(language, self.values["text"])
        return say(language, self.key, **self.values)


class TextError(InputError):
    """Something that cannot be done, in any language."""

    def __init__(self, key: str, **values: Any) -> None:
        self.said = Said(key, values)
        super().__init__(self.said.in_language(LANGUAGES[0]))


def say(language: str, key: str, **values: Any) -> str:
    """A text with its gaps filled; whole numbers get the separators of the language."""
    thousands = TEXTS["thousands"][language]
    return TEXTS[key][language].format(
        **{name: f"{v:,}".replace(",", thousands) if type(v) is int else v for name, v in values.items()}
    )


def from_below(language: str, sentence: str) -> str:
    """A sentence of the library in another language, and what is in its gaps; what is not known stays English."""
    if language == LANGUAGES[0]:
        return sentence
    for wording in FROM_BELOW:
        if found := _pattern(wording["en"]).fullmatch(sentence):
            told = {gap: text and from_below(language, text) for gap, text in found.groupdict().items()}
            return ", ".join(filter(None, [wording[language].format(**told), told["rest"]]))
    first, comma, rest = sentence.partition(", ")
    return f"{first}{comma}{from_below(language, rest)}" if comma else sentence


@cache
def _pattern(wording: str) -> re.Pattern[str]:
    """The wording with anything in its gaps, as short as can be, and perhaps more after a comma."""
    gaps = re.sub(r"\\{(\w)\\}", r"(?P<\1>.+?)", re.escape(wording))
    return re.compile(f"{gaps}(?:, (?P<rest>.+))?", re.DOTALL)
