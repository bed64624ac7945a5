"""The page's own parts as HTML: the frame, class cards, what to expect, and why an answer was given.

What can be pressed, sent or chosen carries its action in `data-do` and its fields in other `data-` attributes or in
named inputs (see `page.ANY`); `page.js` passes that on. A `data-key` finds the same thing again after a change.
"""

from __future__ import annotations

import base64
import io

import msgspec
from PIL import Image

from cplsr.app.actions import LANGUAGES
from cplsr.app.session import Session, Shared
from cplsr.app.texts import TEXTS, from_below, say
from cplsr.app.uploads import Picture
from cplsr.app.view import View
from cplsr.backbones.backbone import Backbone
from cplsr.classifier.explanation import Explanation, Neighbor
from cplsr.classifier.support_report import ClassReport, SupportReport
from cplsr.report.markup import element, text

SHOWN_EXAMPLES, MORE_EXAMPLES = 8, 40
SHOWN_LEFT_OUT = 200
KEYS = 9
"""Classes that have a key of their own."""
OVERLAY_SIDE = 288
IN_THE_BROWSER = (
    *("progress", "progress_first", "seconds", "minutes", "chosen", "threshold", "unknowns"),
    *("no_files", "no_name", "failed", "close"),
)
"""Texts that `page.js` fills in."""


def frame_html(shared: Shared, view: View) -> str:
    """The parts of the page that stay, with places for those that change."""
    most = shared.limits.file_bytes
    names = {code: TEXTS["language_name"][code] for code in LANGUAGES}
    texts = msgspec.json.encode({key: TEXTS[key][view.language] for key in IN_THE_BROWSER}).decode()
    return (
        f'<div id="page" lang="{view.language}" data-texts="{text(texts)}" data-most-bytes="{most}">'
        f'<header class="top"><h1>{view.say("title")}</h1>'
        f"{choice('speak', 'language', view.say('language'), names, view.language)}</header>"
        f'<p id="how">{view.say("how")}</p><p class="buttons" id="back">'
        f"{button(view.say('undo'), 'undo', id='undo', disabled='')}"
        f"{button(view.say('start_over'), 'start_over', id='restart')}</p>"
        '<div id="messages" role="status" aria-live="polite"></div><div class="columns"><section aria-labelledby="h1">'
        f'<h2 id="h1">{view.say("examples")}</h2><form id="teach"><label for="class-name">{view.say("class")}</label>'
        f'<input id="class-name" autocomplete="off" maxlength="100" placeholder="{view.say("class_hint")}">'
        f"{_drop_zone(view, 'class', view.say('class_files', most=most // 1_000_000), view.say('class_folders'))}"
        f'<p class="note" id="chosen"></p><button id="add" class="primary">{view.say("add")}</button></form>'
        '<div id="estimate"></div><div id="classes"></div></section>'
        f'<section aria-labelledby="h2"><h2 id="h2">{view.say("new_pictures")}</h2>'
        f'<p class="empty" id="waiting">{view.say("waiting")}</p><div id="labeling" hidden>'
        f"{_drop_zone(view, 'query', view.say('query_files'), '')}"
        '<div id="detail"></div><div id="answers"></div></div><div id="left-out"></div><div id="home"></div>'
        f'</section></div><footer class="note">{text(network_sentence(shared.backbone, view))}</footer></div>'
    )


def classes_html(session: Session, report: SupportReport | None, view: View) -> str:
    """Show a card per class: its examples, how many there are, and how many the others recognize."""
    if not session.classes:
        return element("p", view.say("no_classes"), class_="empty")
    reports = {} if report is None else {about.name: about for about in report.classes}
    cards = [
        _class_card(session, name, number, reports.get(name), view)
        for number, name in enumerate(session.classes, start=1)
    ]
    return element("div", *cards, class_="classes")


def estimate_html(session: Session, report: SupportReport | None, view: View) -> str:
    """Show what to expect, in plain sentences; the first is the one that matters."""
    if report is None:
        return element("p", view.say("second_class"), class_="empty") if session.classes else ""
    first, *rest = (text(from_below(view.language, sentence)) for sentence in report.sentences())
    items = element("ul", *(element("li", sentence) for sentence in rest)) if rest else ""
    return element("div", element("p", first), items, class_="estimate")


def detail_html(session: Session, view: View, explanation: Explanation) -> str:
    """Show why the opened picture got its label, and buttons to say what it really is."""
    position = view.opened or 0
    query = session.queries[position]
    if query.corrected is not None:
        answer = view.say("you_said", name=query.corrected)
    else:
        answer = view.say("it_is", name=explanation.label, share=percent(explanation.confidence))
        if query.answer is not None and query.answer.runner_up_confidence is not None:
            share = percent(query.answer.runner_up_confidence)
            answer += " " + view.say("second_guess", name=query.answer.runner_up, share=share)
    buttons = "".join(
        button(_key_of(number) + text(name), "correct", f"right-{number}", data_answer=position, data_right=name)
        for number, name in enumerate(session.classes, start=1)
        if name != query.corrected
    )
    close = button("✕", "close", class_="quiet", aria_label=view.say("close"))
    return (
        f'<div class="detail" data-shown="{position}"><header><h3>{text(query.picture.name)}</h3>{close}</header>'
        f'<p>{answer}</p><div class="seen"><figure><img alt="" src="{jpeg(query.picture)}">'
        f"<figcaption>{view.say('the_picture')}</figcaption></figure><figure>"
        f'<img alt="" src="{_png(explanation.overlay)}"><figcaption>{view.say("looked")}</figcaption></figure></div>'
        f'<p class="note">{view.say("similar")}</p>{_neighbors(session, explanation.neighbors, view)}'
        f'<p class="note">{view.say("say_what")}</p><div class="right">{buttons}</div></div>'
    )


def left_out_html(session: Session, view: View) -> str:
    """Name the files that were not used, each with the reason."""
    if not session.left_out:
        return ""
    rows = (
        element("li", element("b", text(file.name)), ": ", text(file.reason.in_language(view.language)))
        for file in session.left_out[:SHOWN_LEFT_OUT]
    )
    rest = len(session.left_out) - SHOWN_LEFT_OUT
    more = element("p", view.say("left_out_more", count=rest), class_="note") if rest > 0 else ""
    summary = element("summary", view.say("left_out", count=len(session.left_out)), data_key="left-out")
    buttons = element("p", download_button("left_out", view), class_="buttons")
    return element("details", summary, element("ul", *rows), more, buttons, class_="left-out")


def home_html(session: Session, view: View) -> str:
    """Buttons for what can be downloaded now; answers have theirs beside the list."""
    if not session.classes:
        return ""
    kinds = ("labeled", "model", *(["browser"] if session.is_ready else []))
    buttons = element("p", *(download_button(kind, view) for kind in kinds), class_="buttons")
    return element("h3", view.say("take_home")) + buttons


def button(label: str, do: str, key: str = "", **attributes: object) -> str:
    """A button that tells the server something; the action's fields are `data_…`. key: its name by default."""
    return element("button", label, type="button", data_do=do, data_key=key or do, **attributes)


def choice(do: str, name: str, label: str, options: dict[str, str], chosen: str) -> str:
    """A list to choose from: values, and what is shown for each."""
    rows = (
        element("option", shown, value=value, selected="" if value == chosen else None)
        for value, shown in options.items()
    )
    return element("label", label, " ", element("select", *rows, data_do=do, name=name, data_key=name))


def download_button(kind: str, view: View) -> str:
    """A button that makes a file to take home."""
    return button(view.say(f"download_{kind}"), "download", kind, id=kind, data_what=kind)


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
    files, folder = view.say("choose_files"), view.say("choose_folder")
    return (
        f'<fieldset class="drop" id="{name}-drop"><legend>{label}</legend><p>{view.say("drop")}</p><p class="buttons">'
        f'<label class="button">{files}<input type="file" id="{name}-files" multiple></label>'
        f'<label class="button">{folder}<input type="file" id="{name}-folder" webkitdirectory></label>'
        f'</p>{f"<p>{hint}</p>" if hint else ""}<div class="uploading" hidden>'
        f'<progress max="1" value="0" aria-label="{label}"></progress> <span></span> '
        f'<button type="button" class="stop">{view.say("stop")}</button></div></fieldset>'
    )


def _class_card(session: Session, name: str, number: int, report: ClassReport | None, view: View) -> str:
    shown, examples = text(name), session.examples_of(name)
    most = max(SHOWN_EXAMPLES, view.expanded[1] if view.expanded[0] == name else 0)
    counted = view.say("one_picture") if len(examples) == 1 else view.say("pictures", count=len(examples))
    if report is not None and report.recognized.of:
        counted += " · " + view.say("recognized", right=report.recognized.right, of=report.recognized.of)
    tiles = [_example(picture, file, view) for picture, file in examples[:most]]
    if len(examples) > most:
        label = view.say("more", count=len(examples) - most)
        tiles.append(button(label, "show_examples", f"more-{name}", data_name=name, data_count=most + MORE_EXAMPLES))
    if most > SHOWN_EXAMPLES:
        tiles.append(button(view.say("fewer"), "show_examples", f"fewer-{name}", data_name=name, data_count=0))
    opened = view.example if any(picture == view.example for picture, _ in examples) else ""
    gone = say(view.language, "remove_class", name=name)
    return (
        f'<section class="class" data-class="{shown}" aria-label="{shown}"><header><b>{_key_of(number)}{shown}</b>'
        f'<span class="note">{counted}</span><details class="edit"><summary data-key="edit-{shown}">'
        f'{view.say("rename")}</summary><form data-do="rename_class" data-name="{shown}">'
        f'<input name="new" value="{shown}" aria-label="{view.say("new_name", name=name)}" data-key="new-{shown}">'
        f"<button>{view.say('rename')}</button></form></details>"
        f"{button('✕', 'remove_class', f'remove-{name}', class_='quiet', data_name=name, aria_label=gone, title=gone)}"
        f'</header><div class="strip">{"".join(tiles)}</div>'
        f"{_example_panel(session, opened, name, view) if opened else ''}</section>"
    )


def _example(name: str, picture: Picture | None, view: View) -> str:
    title = say(view.language, "example", name=name)
    opened = "true" if name == view.example else "false"
    return button(
        _tile(name, picture, view),
        "open_example",
        f"example-{name}",
        class_="example",
        data_picture=name,
        aria_expanded=opened,
        title=title,
        aria_label=title,
    )


def _example_panel(session: Session, picture: str, name: str, view: View) -> str:
    others = "".join(
        button(text(other), "move_example", f"move-{other}", data_picture=picture, data_to=other)
        for other in session.classes
        if other != name
    )
    remove = button(view.say("remove_example"), "remove_example", data_picture=picture)
    moving = element("span", view.say("move_to", name=picture), class_="note") if others else text(picture)
    return element("div", moving, element("div", others, remove, class_="right"), class_="example-panel")


def _neighbors(session: Session, neighbors: tuple[Neighbor, ...], view: View) -> str:
    figures = []
    for neighbor in neighbors:
        tile = _tile(neighbor.name, session.examples.get(neighbor.name), view)
        caption = element("figcaption", f"{text(neighbor.label)}<br>{neighbor.cosine:.2f}")
        figures.append(element("figure", tile, caption))
    return element("div", *figures, class_="neighbors")


def _tile(name: str, picture: Picture | None, view: View) -> str:
    if picture is None:
        return element("span", "?", class_="missing", title=say(view.language, "no_picture", name=name))
    return element("img", alt="", title=name, src=jpeg(picture))


def _key_of(number: int) -> str:
    return f'<kbd aria-hidden="true">{number}</kbd> ' if number <= KEYS else ""


def _png(image: Image.Image) -> str:
    """A small picture enlarged here, because browsers blur it differently."""
    stream = io.BytesIO()
    side = max(OVERLAY_SIDE, image.width)
    image.resize((side, side), Image.Resampling.BICUBIC).save(stream, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"
