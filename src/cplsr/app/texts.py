"""Every text of the page, in every language it speaks; another language is another column.

Sentences that come from below the page, about files and estimates, are known by their English wording.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from cplsr.app.actions import LANGUAGES
from cplsr.errors import InputError

LANGUAGE_NAMES = ("English", "Deutsch")
SEPARATORS = (",", ".")
"""Between thousands."""

TEXTS: dict[str, tuple[str, ...]] = {
    "title": ("Sort pictures by example", "Bilder nach Beispielen sortieren"),
    "how": (
        "Name a class and drop a few pictures of it; do the same for a second one. A vision network, which stays as "
        "it is, turns every picture into numbers, and a new picture gets the class whose examples it is closest to. "
        "Pictures stay on the computer that runs this page.",
        "Nenne eine Klasse und lege ein paar Bilder davon ab, dann ebenso für eine zweite. Ein Bildnetz, das bleibt, "
        "wie es ist, macht aus jedem Bild Zahlen, und ein neues Bild bekommt die Klasse, deren Beispielen es am "
        "nächsten ist. Die Bilder bleiben auf dem Rechner, der diese Seite betreibt.",
    ),
    "language": ("Language", "Sprache"),
    "wait": ("One moment …", "Einen Augenblick …"),
    "close": ("Close", "Schließen"),
    "failed": (
        "That did not work: the server does not answer. Try again, or load the page anew.",
        "Das ging nicht: der Server antwortet nicht. Versuche es noch einmal, oder lade die Seite neu.",
    ),
    # 1 · examples
    "examples": ("1 · Examples", "1 · Beispiele"),
    "class": ("Class", "Klasse"),
    "class_hint": ("for example: ripe", "zum Beispiel: reif"),
    "class_files": ("A few pictures of it (up to {most} MB each)", "Ein paar Bilder davon (bis {most} MB je Bild)"),
    "drop": ("Drop files or folders here, or", "Dateien oder Ordner hier ablegen, oder"),
    "choose_files": ("choose files", "Dateien wählen"),
    "choose_folder": ("choose a folder", "einen Ordner wählen"),
    "class_folders": (
        "Without a name above, every folder becomes a class of its name.",
        "Ohne Namen oben wird jeder Ordner eine Klasse seines Namens.",
    ),
    "chosen": ("{count} files are ready to be added", "{count} Dateien können hinzugefügt werden"),
    "add": ("Add these examples", "Diese Beispiele hinzufügen"),
    "no_classes": (
        "No classes yet. Two are enough to begin, five pictures of each are a good start.",
        "Noch keine Klassen. Zwei genügen für den Anfang, fünf Bilder von jeder sind ein guter Anfang.",
    ),
    "second_class": (
        "Add a second class, and you see here how well they can be told apart.",
        "Füge eine zweite Klasse hinzu, dann steht hier, wie gut sie sich unterscheiden lassen.",
    ),
    "one_picture": ("1 picture", "1 Bild"),
    "pictures": ("{count} pictures", "{count} Bilder"),
    "recognized": (
        "{right} of {of} recognized by the others",
        "{right} von {of} anhand der anderen erkannt",
    ),
    "rename": ("Rename", "Umbenennen"),
    "new_name": ("New name of {name}", "Neuer Name von {name}"),
    "remove_class": ("Remove {name}", "{name} entfernen"),
    "more": ("{count} more", "{count} weitere"),
    "fewer": ("fewer", "weniger"),
    "example": ("example {name}: move or remove it", "Beispiel {name}: verschieben oder entfernen"),
    "move_to": ("Move {name} to:", "{name} verschieben nach:"),
    "remove_example": ("Remove this example", "Dieses Beispiel entfernen"),
    "no_picture": (
        "{name}: from the saved model, which keeps no pictures",
        "{name}: aus dem gespeicherten Modell, das keine Bilder enthält",
    ),
    "undo": ("Undo", "Rückgängig"),
    "start_over": ("Start over", "Von vorn"),
    # 2 · answers
    "new_pictures": ("2 · New pictures", "2 · Neue Bilder"),
    "waiting": (
        "Here you drop pictures to label, once there are two classes.",
        "Hier legst du Bilder zum Einordnen ab, sobald es zwei Klassen gibt.",
    ),
    "query_files": ("Pictures to label", "Bilder zum Einordnen"),
    "progress": ("{done} of {of} files, {left} left", "{done} von {of} Dateien, noch {left}"),
    "progress_first": ("{done} of {of} files", "{done} von {of} Dateien"),
    "seconds": ("about {count} s", "etwa {count} s"),
    "minutes": ("about {count} min", "etwa {count} min"),
    "stop": ("Stop", "Anhalten"),
    "sort": ("Order", "Reihenfolge"),
    "sort_newest": ("newest first", "neueste zuerst"),
    "sort_surest": ("surest first", "sicherste zuerst"),
    "sort_doubtful": ("least sure first", "unsicherste zuerst"),
    "sort_name": ("by name", "nach Namen"),
    "show": ("Show", "Zeigen"),
    "show_all": ("all ({count})", "alle ({count})"),
    "show_class": ("{name} ({count})", "{name} ({count})"),
    "show_unknown": ("unknown ({count})", "unbekannt ({count})"),
    "show_unusual": ("unlike your examples ({count})", "anders als die Beispiele ({count})"),
    "show_next": ("label these next ({count})", "diese als Nächstes ({count})"),
    "suggest": ("Label these next", "Diese als Nächstes bestimmen"),
    "suggested": (
        "These {count} would teach most: press one and say what it is. Then ask for the next ones.",
        "Diese {count} sind am lehrreichsten: drücke auf eines und sag, was es ist. Dann frag nach den nächsten.",
    ),
    "all_given": (
        "Every picture has been given a class by you: there is nothing left to learn from.",
        "Du hast jedes Bild selbst bestimmt: es ist nichts mehr zu lernen.",
    ),
    "show_corrected": ("given by you ({count})", "von dir bestimmt ({count})"),
    "threshold": ("Unknown below {share} %", "Unbekannt unter {share} %"),
    "unknowns": ("{count} of {of} unknown", "{count} von {of} unbekannt"),
    "keys": (
        "Keys: arrows go from picture to picture, Enter explains, 1 to 9 give a class, Esc closes.",
        "Tasten: Pfeile gehen von Bild zu Bild, Enter erklärt, 1 bis 9 geben eine Klasse, Esc schließt.",
    ),
    "page": ("Page {page} of {of}", "Seite {page} von {of}"),
    "previous": ("Previous page", "Vorige Seite"),
    "next": ("Next page", "Nächste Seite"),
    "none_shown": ("No picture is like that.", "Kein Bild ist so."),
    "no_answer": ("no answer", "keine Antwort"),
    "add_classes": ("add classes", "Klassen fehlen"),
    "unknown": ("unknown", "unbekannt"),
    "given": ("✓ given by you", "✓ von dir"),
    "sure": ("{share} % sure", "{share} % sicher"),
    "unlike": ("unlike your examples", "anders als die Beispiele"),
    "clear_answers": ("Clear answers", "Antworten leeren"),
    # why
    "you_said": (
        "You said: {name}. It is one of the examples now.",
        "Du sagst: {name}. Es ist jetzt eines der Beispiele.",
    ),
    "it_is": ("{name}, {share} % sure.", "{name}, {share} % sicher."),
    "second_guess": ("Second guess: {name} ({share} %).", "Zweite Wahl: {name} ({share} %)."),
    "the_picture": ("the picture", "das Bild"),
    "looked": ("where the network looked (red)", "wohin das Netz gesehen hat (rot)"),
    "similar": ("The most similar examples (1 is identical):", "Die ähnlichsten Beispiele (1 ist gleich):"),
    "say_what": (
        "Wrong, or worth learning from? Say what it is, and it becomes an example:",
        "Falsch, oder lehrreich? Sag, was es ist, dann wird es ein Beispiel:",
    ),
    # left out
    "left_out": ("{count} files were left out", "{count} Dateien wurden ausgelassen"),
    "left_out_more": (
        "and {count} more; those to be labeled are in the downloaded answers",
        "und {count} weitere; die zum Einordnen stehen in den heruntergeladenen Antworten",
    ),
    "some_left_out": (
        "{count} files were left out; below the answers it says which, and why.",
        "{count} Dateien wurden ausgelassen; unter den Antworten steht, welche und warum.",
    ),
    "same_picture": ("the same picture as {twin}", "dasselbe Bild wie {twin}"),
    "too_large": ("larger than {most} MB", "größer als {most} MB"),
    "not_taken": ("the server did not take it", "der Server hat sie nicht angenommen"),
    # downloads
    "take_home": ("Take home", "Mitnehmen"),
    "download_answers": ("Answers (CSV)", "Antworten (CSV)"),
    "download_labeled": ("Labeled pictures in folders (zip)", "Bilder in Klassenordnern (zip)"),
    "download_model": ("Model (zip)", "Modell (zip)"),
    "download_browser": ("Page that runs the model in a browser (zip)", "Seite mit dem Modell für Browser (zip)"),
    "network": (
        "Network: {source}, {size} × {size} pixels. {about}",
        "Netz: {source}, {size} × {size} Pixel. {about}",
    ),
    "about_embedded": (
        "It is small and came with the program: good for trying the page, and for things that differ in color, "
        "texture and layout. Where fine details decide, take a larger one (--backbone).",
        "Es ist klein und kam mit dem Programm: gut zum Ausprobieren, und für Dinge, die sich in Farbe, Struktur und "
        "Aufbau unterscheiden. Wo feine Einzelheiten entscheiden, nimm ein größeres (--backbone).",
    ),
    "about_dino": (
        "It learned from photographs without labels, and is a good start for most things that can be photographed: "
        "plants, goods, scenes, textures. For other pictures, X-rays say, trust the estimate beside your examples.",
        "Es hat von Fotos ohne Beschriftung gelernt und ist ein guter Anfang für das meiste, was man fotografieren "
        "kann: Pflanzen, Waren, Orte, Strukturen. Bei anderen Bildern, etwa Röntgenbildern, zählt die Schätzung bei "
        "den Beispielen.",
    ),
    "about_other": (
        "What it is good for depends on what it was trained on: trust the estimate beside your examples.",
        "Wofür es taugt, hängt davon ab, woran es gelernt hat: verlass dich auf die Schätzung bei den Beispielen.",
    ),
    "with_adapter": ("{source} with an adapter", "{source} mit Adapter"),
    # what cannot be done
    "no_pictures": (
        "There are no pictures for {name} yet: drop a few on the field first.",
        "Für {name} gibt es noch keine Bilder: lege zuerst ein paar auf dem Feld ab.",
    ),
    "no_files": (
        "There are no pictures to add yet: drop a few on the field first.",
        "Es gibt noch keine Bilder zum Hinzufügen: lege zuerst ein paar auf dem Feld ab.",
    ),
    "no_name": (
        "The class has no name yet: type one, for example 'ripe'.",
        "Die Klasse hat noch keinen Namen: schreibe einen, zum Beispiel „reif“.",
    ),
    "bad_name": (
        "That is no good name for a class: give one of at most {most} letters.",
        "Das ist kein guter Name für eine Klasse: nimm einen mit höchstens {most} Buchstaben.",
    ),
    "name_taken": (
        "There is a class {name} already: take another name, or move the examples.",
        "Es gibt schon eine Klasse {name}: nimm einen anderen Namen, oder verschiebe die Beispiele.",
    ),
    "no_such_class": (
        "There is no class {name}: the classes are {classes}.",
        "Es gibt keine Klasse {name}: die Klassen sind {classes}.",
    ),
    "no_such_example": (
        "There is no example {name} any more: choose another one.",
        "Das Beispiel {name} gibt es nicht mehr: wähle ein anderes.",
    ),
    "no_such_answer": (
        "That picture is not in the list any more: choose another one.",
        "Dieses Bild ist nicht mehr in der Liste: wähle ein anderes.",
    ),
    "too_many_classes": (
        "There are {most} classes already, which is the most: remove one first.",
        "Es gibt schon {most} Klassen, mehr gehen nicht: entferne zuerst eine.",
    ),
    "too_many_examples": (
        "A model takes {most} examples here: remove a class, or drop fewer pictures.",
        "Ein Modell nimmt hier {most} Beispiele: entferne eine Klasse, oder nimm weniger Bilder.",
    ),
    "too_many_answers": (
        "The page holds {most} answers: download them, then clear the list.",
        "Die Seite fasst {most} Antworten: lade sie herunter und leere dann die Liste.",
    ),
    "too_many_of_all": (
        "There are too many pictures of all visitors here: clear your answers, or come back later.",
        "Hier sind zu viele Bilder aller Besucher: leere deine Antworten, oder komm später wieder.",
    ),
    "nothing_to_choose": (
        "There is nothing to choose between yet: add at least two classes first.",
        "Es gibt noch nichts zu wählen: füge zuerst mindestens zwei Klassen hinzu.",
    ),
    "nothing_learned": (
        "{name} is the same picture as the example {twin}: nothing is learned from it.",
        "{name} ist dasselbe Bild wie das Beispiel {twin}: daraus ist nichts zu lernen.",
    ),
    "nothing_to_undo": (
        "There is nothing to take back.",
        "Es gibt nichts rückgängig zu machen.",
    ),
    "nothing_to_explain": (
        "There are no classes, so there is nothing to explain: add at least two.",
        "Es gibt keine Klassen, also nichts zu erklären: füge mindestens zwei hinzu.",
    ),
    "class_called_unknown": (
        "A class is called {name}, which is also the answer for pictures below the threshold: rename the class.",
        "Eine Klasse heißt {name}, wie die Antwort für Bilder unter der Schwelle: benenne die Klasse um.",
    ),
    "no_answers_yet": (
        "There are no answers to download yet: drop pictures to label first.",
        "Es gibt noch keine Antworten zum Herunterladen: lege zuerst Bilder zum Einordnen ab.",
    ),
    "no_model_yet": (
        "There is no model to download yet: add a class first.",
        "Es gibt noch kein Modell zum Herunterladen: füge zuerst eine Klasse hinzu.",
    ),
    "no_labeled_yet": (
        "There are no labeled pictures to download yet: add a class first.",
        "Es gibt noch keine Bilder mit Klasse zum Herunterladen: füge zuerst eine Klasse hinzu.",
    ),
    "browser_size": (
        "Unzip it and serve the folder; the file is {size} MB, {runtime} MB of it for running models in browsers.",
        "Entpacke sie und stelle den Ordner bereit; die Datei hat {size} MB, davon {runtime} MB, um Modelle im Browser "
        "zu rechnen.",
    ),
}

FROM_BELOW: dict[str, tuple[str, ...]] = {
    "Of 100 new pictures like these, expect {a} to {b} to be labeled correctly (best guess {c}).": (
        "Von 100 neuen Bildern wie diesen werden voraussichtlich {a} bis {b} richtig eingeordnet (am ehesten {c}).",
    ),
    "{a} Tuning on your examples came after that and is not judged here.": (
        "{a} Die Feinanpassung an die Beispiele kam danach und ist hier nicht beurteilt.",
    ),
    "No class has two images, so nothing can be said about accuracy: give at least one more image of every class.": (
        "Keine Klasse hat zwei Bilder, also lässt sich über die Genauigkeit nichts sagen: gib jeder Klasse mindestens "
        "noch ein Bild.",
    ),
    "Confusions to expect: {a}.": ("Zu erwartende Verwechslungen: {a}.",),
    "{a} taken for {b}": ("{a} gehalten für {b}",),
    "Look at the labels of: {a}.": ("Sieh dir die Klassen an von: {a}.",),
    "{a} (labeled {b}": ("{a} (als {b} gegeben",),
    "looks like {a})": ("sieht aus wie {a})",),
    "More pictures would help most for: {a}.": ("Weitere Bilder helfen am meisten bei: {a}.",),
    "Head: {a}, reading {b}: {c}.": ("Kopf: {a}, gelesen: {b}: {c}.",),
    "the last class token alone": ("nur das letzte Klassen-Token",),
    "the last block alone": ("nur der letzte Block",),
    "all blocks alike": ("alle Blöcke gleich",),
    "all blocks, each counting {a} of the one above": ("alle Blöcke, jeder zählt {a} des nächsten",),
    "the usual choice, because no class has two images to choose by": (
        "die übliche Wahl, weil keine Klasse zwei Bilder hat, um danach zu wählen",
    ),
    "the usual choice, because no other is clearly better on the images left out in turn": (
        "die übliche Wahl, weil bei den der Reihe nach weggelassenen Bildern keine andere deutlich besser ist",
    ),
    "its squared error on the images left out in turn is {a}, that of the usual choice {b}": (
        "der quadratische Fehler bei den der Reihe nach weggelassenen Bildern ist {a}, bei der üblichen Wahl {b}",
    ),
    "Frozen or adapter: no clear difference on these images ({a}; chance {b}).": (
        "Ohne oder mit Adapter: kein deutlicher Unterschied bei diesen Bildern ({a}; Zufall {b}).",
    ),
    "Recommended: {a} ({b}; chance {c}); {d}.": ("Empfohlen: {a} ({b}; Zufall {c}); {d}.",),
    "--adapter frozen leaves the adapter out": ("--adapter frozen lässt den Adapter weg",),
    "it is in use": ("er ist in Gebrauch",),
    "in doubt between {a} and {b}": ("unentschieden zwischen {a} und {b}",),
    "unlike the examples": ("anders als die Beispiele",),
    "stands for pictures in doubt": ("steht für andere unsichere Bilder",),
    "frozen recognizes {a}, the adapter {b} of {c}": ("ohne werden {a} erkannt, mit Adapter {b} von {c}",),
    "frozen": ("ohne Adapter",),
    "adapter": ("mit Adapter",),
    "not an image of a known format": ("kein Bild in einem bekannten Format",),
    "no such file": ("es gibt keine solche Datei",),
    "there is too little memory to decode it": ("es ist zu wenig Speicher da, um es zu lesen",),
    "damaged image ({a})": ("beschädigtes Bild ({a})",),
    "{a}, more than the {b} that are read": ("{a}, mehr als die {b}, die gelesen werden",),
}
"""English wording, and the same in the other languages."""


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
    column = LANGUAGES.index(language)
    return TEXTS[key][column].format(
        **{name: f"{v:,}".replace(",", SEPARATORS[column]) if type(v) is int else v for name, v in values.items()}
    )


def from_below(language: str, sentence: str) -> str:
    """A sentence of the library in another language, and what is in its gaps; what is not known stays English."""
    column = LANGUAGES.index(language) - 1
    if column < 0:
        return sentence
    for wording, others in FROM_BELOW.items():
        if found := _pattern(wording).fullmatch(sentence):
            return others[column].format(**{gap: from_below(language, text) for gap, text in found.groupdict().items()})
    parts = sentence.split(", ")
    return sentence if len(parts) == 1 else ", ".join(from_below(language, part) for part in parts)


@cache
def _pattern(wording: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{(\w)\\}", r"(?P<\1>.+)", re.escape(wording)), re.DOTALL)
