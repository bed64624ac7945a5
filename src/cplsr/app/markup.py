"""The page's own parts as HTML: the frame, class cards, what to expect, and why an answer was given.

What can be pressed, sent or chosen carries its action in `data-do` and its fields in other `data-` attributes or in
named inputs (see `actions`); `page.js` passes that on. A `data-key` finds the same thing again after a change.
"""

from __future__ import annotations

import base64
import html
import io
from typing import Any

import msgspec
from PIL import Image

from cplsr.app.actions import LANGUAGES
from cplsr.app.session import Session, Shared
from cplsr.app.texts import LANGUAGE_NAMES, from_below, say
from cplsr.app.uploads import Picture
from cplsr.app.view import View
from cplsr.backbones.backbone import Backbone
from cplsr.classifier.explanation import Explanation, Neighbor
from cplsr.classifier.support_report import ClassReport, SupportReport

SHOWN_EXAMPLES, MORE_EXAMPLES = 8, 40
SHOWN_LEFT_OUT = 200
KEYS = 9
"""Classes that have a key of their own."""
OVERLAY_SIDE = 288
IN_THE_BROWSER = (
    *("progress", "progress_first", "seconds", "minutes", "chosen"),
    *("no_files", "no_name", "failed", "close"),
)
"""Texts that `page.js` fills in."""


def escape(text: str) -> str:
    """Escape text for HTML."""
    return html.escape(text)


def frame_html(shared: Shared, view: View) -> str:
    """The parts of the page that stay, with places for those that change."""
    say_ = _speaker(view)
    most = shared.limits.file_bytes // 1_000_000
    languages = "".join(
        f'<option value="{code}"{" selected" if code == view.language else ""}>{name}</option>'
        for code, name in zip(LANGUAGES, LANGUAGE_NAMES, strict=True)
    )
    texts = escape(msgspec.json.encode({key: _template(view, key) for key in IN_THE_BROWSER}).decode())
    return (
        f'<div id="page" lang="{view.language}" data-texts="{texts}" data-most-bytes="{shared.limits.file_bytes}">'
        f'<header class="top"><h1>{say_("title")}</h1>'
        f'<label>{say_("language")} <select data-do="speak" name="language" data-key="language">{languages}</select>'
        f'</label></header><p id="how">{say_("how")}</p>'
        '<div id="messages" role="status" aria-live="polite"></div><div class="columns"><section aria-labelledby="h1">'
        f'<h2 id="h1">{say_("examples")}</h2><form id="teach"><label for="class-name">{say_("class")}</label>'
        f'<input id="class-name" autocomplete="off" maxlength="100" placeholder="{say_("class_hint")}">'
        f"{_drop_zone(view, 'class', say_('class_files', most=most), say_('class_folders'))}"
        f'<p class="note" id="chosen"></p><button id="add" class="primary">{say_("add")}</button></form>'
        '<div id="estimate"></div><div id="classes"></div><p class="buttons">'
        f'<button type="button" id="undo" data-do="undo" disabled>{say_("undo")}</button>'
        f'<button type="button" id="restart" data-do="start_over">{say_("start_over")}</button></p></section>'
        f'<section aria-labelledby="h2"><h2 id="h2">{say_("new_pictures")}</h2>'
        f'<p class="empty" id="waiting">{say_("waiting")}</p><div id="labeling" hidden>'
        f"{_drop_zone(view, 'query', say_('query_files'), '')}"
        '<div id="detail"></div><div id="answers"></div></div><div id="left-out"></div><div id="home"></div>'
        f'</section></div><footer class="note">{escape(network_sentence(shared.backbone, view))}</footer></div>'
    )


def classes_html(session: Session, report: SupportReport | None, view: View) -> str:
    """Show a card per class: its examples, how many there are, and how many the others recognize."""
    if not session.classes:
        return f'<p class="empty">{say(view.language, "no_classes")}</p>'
    reports = {} if report is None else {about.name: about for about in report.classes}
    cards = [
        _class_card(session, name, number, reports.get(name), view)
        for number, name in enumerate(session.classes, start=1)
    ]
    return f'<div class="classes">{"".join(cards)}</div>'


def estimate_html(session: Session, report: SupportReport | None, view: View) -> str:
    """Show what to expect, in plain sentences; the first is the one that matters."""
    if report is None and not session.classes:
        return ""
    if report is None:
        return f'<p class="empty">{say(view.language, "second_class")}</p>'
    first, *rest = (escape(from_below(view.language, sentence)) for sentence in report.sentences())
    items = "".join(f"<li>{sentence}</li>" for sentence in rest)
    return f'<div class="estimate"><p>{first}</p>{f"<ul>{items}</ul>" if items else ""}</div>'


def detail_html(session: Session, view: View, explanation: Explanation) -> str:
    """Show why the opened picture got its label, and buttons to say what it really is."""
    position = view.opened or 0
    query, say_ = session.queries[position], _speaker(view)
    if query.corrected is not None:
        answer = say_("you_said", name=query.corrected)
    else:
        answer = say_("it_is", name=explanation.label, share=percent(explanation.confidence))
        if query.answer is not None and query.answer.runner_up_confidence is not None:
            share = percent(query.answer.runner_up_confidence)
            answer += " " + say_("second_guess", name=query.answer.runner_up, share=share)
    buttons = "".join(
        f'<button type="button" data-do="correct" data-answer="{position}" data-right="{escape(name)}" '
        f'data-key="right-{number}">{_key_of(number)}{escape(name)}</button>'
        for number, name in enumerate(session.classes, start=1)
        if name != query.corrected
    )
    return (
        f'<div class="detail" data-shown="{position}"><header><h3>{escape(query.picture.name)}</h3>'
        f'<button type="button" class="quiet" data-do="close" data-key="close" aria-label="{say_("close")}">✕</button>'
        f'</header><p>{answer}</p><div class="seen"><figure><img alt="" src="{jpeg(query.picture)}">'
        f'<figcaption>{say_("the_picture")}</figcaption></figure><figure><img alt="" src="{_png(explanation.overlay)}">'
        f'<figcaption>{say_("looked")}</figcaption></figure></div><p class="note">{say_("similar")}</p>'
        f"{_neighbors(session, explanation.neighbors, view)}"
        f'<p class="note">{say_("say_what")}</p><div class="right">{buttons}</div></div>'
    )


def left_out_html(session: Session, view: View) -> str:
    """Name the files that were not used, each with the reason."""
    if not session.left_out:
        return ""
    say_ = _speaker(view)
    rows = "".join(
        f"<li><b>{escape(file.name)}</b>: {escape(file.reason.in_language(view.language))}</li>"
        for file in session.left_out[:SHOWN_LEFT_OUT]
    )
    rest = len(session.left_out) - SHOWN_LEFT_OUT
    more = f'<p class="note">{say_("left_out_more", count=rest)}</p>' if rest > 0 else ""
    return (
        f'<details class="left-out"><summary data-key="left-out">{say_("left_out", count=len(session.left_out))}'
        f"</summary><ul>{rows}</ul>{more}</details>"
    )


def home_html(session: Session, view: View) -> str:
    """Buttons for what can be downloaded now; answers have theirs beside the list."""
    if not session.classes:
        return ""
    kinds = ("labeled", "model", *(["browser"] if session.is_ready else []))
    return f'<h3>{say(view.language, "take_home")}</h3><p class="buttons">' + "".join(
        download_button(kind, view) for kind in kinds
    )


def download_button(kind: str, view: View) -> str:
    """A button that makes a file to take home."""
    text = say(view.language, f"download_{kind}")
    return f'<button type="button" id="{kind}" data-do="download" data-what="{kind}" data-key="{kind}">{text}</button>'


def network_sentence(backbone: Backbone, view: View) -> str:
    """Say which network is in use and what it is good for."""
    source = backbone.source if backbone.adapter is None else say(view.language, "with_adapter", source=backbone.source)
    kind = "embedded" if backbone.source == "embedded" else "dino" if "dino" in backbone.source.lower() else "other"
    about = say(view.language, f"about_{kind}")
    return say(view.language, "network", source=source, size=backbone.image_size, about=about)


def percent(share: float) -> str:
    """A share as a whole number of hundredths."""
    return f"{100 * share:.0f}"


def jpeg(picture: Picture) -> str:
    """A thumbnail as the address of an image."""
    return f"data:image/jpeg;base64,{base64.b64encode(picture.thumbnail).decode()}"


def _drop_zone(view: View, name: str, label: str, hint: str) -> str:
    """A field for files and folders, which come by being dropped or chosen; the inputs can be reached by keyboard."""
    say_ = _speaker(view)
    return (
        f'<fieldset class="drop" id="{name}-drop"><legend>{label}</legend><p>{say_("drop")}</p><p class="buttons">'
        f'<label class="button">{say_("choose_files")}<input type="file" id="{name}-files" multiple></label>'
        f'<label class="button">{say_("choose_folder")}<input type="file" id="{name}-folder" webkitdirectory></label>'
        f'</p>{f"<p>{hint}</p>" if hint else ""}<div class="uploading" hidden>'
        f'<progress max="1" value="0" aria-label="{label}"></progress> <span></span> '
        f'<button type="button" class="stop">{say_("stop")}</button></div></fieldset>'
    )


def _class_card(session: Session, name: str, number: int, report: ClassReport | None, view: View) -> str:
    say_, shown = _speaker(view), escape(name)
    examples = session.examples_of(name)
    most = max(SHOWN_EXAMPLES, view.expanded[1] if view.expanded[0] == name else 0)
    counted = say_("one_picture") if len(examples) == 1 else say_("pictures", count=len(examples))
    if report is not None and report.recognized.of:
        counted += " · " + say_("recognized", right=report.recognized.right, of=report.recognized.of)
    tiles = "".join(_example(picture, file, view) for picture, file in examples[:most])
    more = ""
    if len(examples) > most:
        more += _button(say_("more", count=len(examples) - most), "more-" + name, "show_examples", name=name,
                        count=most + MORE_EXAMPLES)  # fmt: skip
    if most > SHOWN_EXAMPLES:
        more += _button(say_("fewer"), "fewer-" + name, "show_examples", name=name, count=0)
    opened = view.example if any(picture == view.example for picture, _ in examples) else ""
    return (
        f'<section class="class" data-class="{shown}" aria-label="{shown}"><header><b>{_key_of(number)}{shown}</b>'
        f'<span class="note">{counted}</span><details class="edit"><summary data-key="edit-{shown}">'
        f'{say_("rename")}</summary><form data-do="rename_class" data-name="{shown}">'
        f'<input name="new" value="{shown}" aria-label="{say_("new_name", name=name)}" data-key="new-{shown}">'
        f"<button>{say_('rename')}</button></form></details>"
        f'<button type="button" class="quiet" data-do="remove_class" data-name="{shown}" data-key="remove-{shown}" '
        f'aria-label="{say_("remove_class", name=name)}" title="{say_("remove_class", name=name)}">✕</button></header>'
        f'<div class="strip">{tiles}{more}</div>{_example_panel(session, opened, name, view) if opened else ""}'
        "</section>"
    )


def _example(name: str, picture: Picture | None, view: View) -> str:
    title = _speaker(view)("example", name=name)
    return (
        f'<button type="button" class="example" data-do="open_example" data-picture="{escape(name)}" '
        f'data-key="example-{escape(name)}" aria-expanded="{"true" if name == view.example else "false"}" '
        f'title="{title}" aria-label="{title}">{_tile(name, picture, view)}</button>'
    )


def _example_panel(session: Session, picture: str, name: str, view: View) -> str:
    say_ = _speaker(view)
    others = "".join(
        _button(escape(other), f"move-{other}", "move_example", picture=picture, to=other)
        for other in session.classes
        if other != name
    )
    remove = _button(say_("remove_example"), "remove-example", "remove_example", picture=picture)
    moving = f'<span class="note">{say_("move_to", name=picture)}</span>' if others else escape(picture)
    return f'<div class="example-panel">{moving}<div class="right">{others}{remove}</div></div>'


def _neighbors(session: Session, neighbors: tuple[Neighbor, ...], view: View) -> str:
    figures = []
    for neighbor in neighbors:
        tile = _tile(neighbor.name, session.examples.get(neighbor.name), view)
        caption = f"{escape(neighbor.label)}<br>{neighbor.cosine:.2f}"
        figures.append(f"<figure>{tile}<figcaption>{caption}</figcaption></figure>")
    return f'<div class="neighbors">{"".join(figures)}</div>'


def _tile(name: str, picture: Picture | None, view: View) -> str:
    if picture is None:
        return f'<span class="missing" title="{_speaker(view)("no_picture", name=name)}">?</span>'
    return f'<img alt="" title="{escape(name)}" src="{jpeg(picture)}">'


def _button(text: str, key: str, do: str, **fields: object) -> str:
    told = "".join(f' data-{name}="{escape(str(value))}"' for name, value in fields.items())
    return f'<button type="button" data-do="{do}" data-key="{escape(key)}"{told}>{text}</button>'


def _key_of(number: int) -> str:
    return f'<kbd aria-hidden="true">{number}</kbd> ' if number <= KEYS else ""


def _speaker(view: View) -> Any:
    """Texts in the visitor's language; what goes into their gaps is escaped."""

    def speak(key: str, **values: Any) -> str:
        safe = {name: escape(value) if isinstance(value, str) else value for name, value in values.items()}
        return say(view.language, key, **safe)

    return speak


def _template(view: View, key: str) -> str:
    """A text with its gaps left open."""
    return say(view.language, key, **{gap: f"{{{gap}}}" for gap in ("count", "done", "of", "left")})


def _png(image: Image.Image) -> str:
    """A small picture enlarged here, because browsers blur it differently."""
    stream = io.BytesIO()
    side = max(OVERLAY_SIDE, image.width)
    image.resize((side, side), Image.Resampling.BICUBIC).save(stream, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"
