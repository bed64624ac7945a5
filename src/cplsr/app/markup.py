"""The page's own parts as HTML: class cards, what to expect, answers, and why an answer was given.

Clickable things are buttons that carry what they mean in `data-` attributes (`data-remove`, `data-answer`,
`data-right`); the page passes that on.
"""

from __future__ import annotations

import base64
import html
import io

from PIL import Image

from cplsr.app.session import Query, Session
from cplsr.classifier.explanation import Explanation, Neighbor
from cplsr.classifier.support_report import ClassReport, SupportReport

SHOWN_EXAMPLES = 8
UNUSUAL = 0.95
"""Only one in twenty pictures of the same kind scores higher; see `out_of_domain_score`."""
OVERLAY_SIDE = 288


def escape(text: str) -> str:
    """Escape text for HTML that gradio takes for a template: braces, dollar and backtick must not mean anything."""
    escaped = html.escape(text)
    for sign in "{}$`":
        escaped = escaped.replace(sign, f"&#{ord(sign)};")
    return escaped


def classes_html(session: Session, report: SupportReport | None) -> str:
    """Show a card per class: a few of its examples, how many there are, and how many the others recognize."""
    if not session.classes:
        return '<p class="empty">No classes yet. Two are enough to begin, five pictures of each are a good start.</p>'
    reports = {} if report is None else {about.name: about for about in report.classes}
    cards = [_class_card(session, name, images, reports.get(name)) for name, images in session.classes.items()]
    return f'<div class="classes">{"".join(cards)}</div>'


def estimate_html(session: Session, report: SupportReport | None) -> str:
    """Show what to expect, in plain sentences; the first is the one that matters."""
    if report is None and not session.classes:
        return ""
    if report is None:
        return '<p class="empty">Add a second class, and you see here how well they can be told apart.</p>'
    first, *rest = (escape(sentence) for sentence in report.sentences())
    items = "".join(f"<li>{sentence}</li>" for sentence in rest)
    return f'<div class="estimate"><p>{first}</p>{f"<ul>{items}</ul>" if items else ""}</div>'


def answers_html(session: Session, opened: int | None = None) -> str:
    """Show a card per labeled picture, the newest first; `opened` is the one that is being explained, if any."""
    if not session.queries:
        return ""
    cards = [_answer_card(position, query, position == opened) for position, query in enumerate(session.queries)]
    return f'<div class="answers">{"".join(reversed(cards))}</div>'


def detail_html(session: Session, position: int, explanation: Explanation) -> str:
    """Show why the picture at a position got its label, and buttons to say what it really is."""
    query = session.queries[position]
    answer = (
        f"You said: <b>{escape(query.corrected)}</b>. It is one of the examples now."
        if query.corrected is not None
        else f"<b>{escape(explanation.label)}</b>, {_percent(explanation.confidence)} sure.{_second_guess(query)}"
    )
    return (
        f'<div class="detail" data-shown="{position}"><h3>{escape(query.picture.name)}</h3><p>{answer}</p>'
        f'<div class="seen"><figure><img alt="the picture" src="{_jpeg(query.picture.thumbnail)}">'
        f'<figcaption>the picture</figcaption></figure><figure><img alt="" src="{_png(explanation.overlay)}">'
        "<figcaption>where the network looked (red)</figcaption></figure></div>"
        f'<p class="note">The most similar examples (1 is identical):</p>{_neighbors(session, explanation.neighbors)}'
        f"{_right_buttons(session, position, query)}</div>"
    )


def _class_card(session: Session, name: str, images: int, report: ClassReport | None) -> str:
    examples = session.examples_of(name)
    pictures = "".join(
        _tile(example.thumbnail if example else None, picture) for picture, example in examples[:SHOWN_EXAMPLES]
    )
    more = f'<span class="more">+{images - SHOWN_EXAMPLES:,}</span>' if images > SHOWN_EXAMPLES else ""
    counted = "1 picture" if images == 1 else f"{images:,} pictures"
    if report is not None and report.recognized.of:
        counted += f" · {report.recognized.right:,} of {report.recognized.of:,} recognized by the others"
    shown = escape(name)
    return (
        f'<section class="class" data-class="{shown}"><header><b>{shown}</b><span class="note">{counted}</span>'
        f'<button type="button" data-remove="{shown}" aria-label="remove {shown}" title="remove this class">✕</button>'
        f'</header><div class="strip">{pictures}{more}</div></section>'
    )


def _answer_card(position: int, query: Query, opened: bool) -> str:
    name, label = escape(query.picture.name), escape(query.label or "no answer")
    if query.corrected is not None:
        state, below = " corrected", '<span class="note">✓ given by you</span>'
    elif query.answer is None or query.answer.confidence is None:
        state, below = "", '<span class="note">add classes</span>'
    else:
        share = _percent(query.answer.confidence)
        state = " unusual" if (query.answer.out_of_domain or 0.0) >= UNUSUAL else ""
        below = f'<span class="bar"><i style="width:{share}"></i></span><span class="note">{share} sure</span>'
        if state:
            below += '<span class="flag">unlike your examples</span>'
    state += " open" if opened else ""
    return (
        f'<button type="button" class="answer{state}" data-answer="{position}" data-name="{name}" title="{name}">'
        f'<img alt="{name}" src="{_jpeg(query.picture.thumbnail)}"><b class="label">{label}</b>{below}</button>'
    )


def _second_guess(query: Query) -> str:
    if query.answer is None or query.answer.runner_up_confidence is None:
        return ""
    return f" Second guess: {escape(query.answer.runner_up)} ({_percent(query.answer.runner_up_confidence)})."


def _neighbors(session: Session, neighbors: tuple[Neighbor, ...]) -> str:
    figures = []
    for neighbor in neighbors:
        example = session.examples.get(neighbor.name)
        tile = _tile(example.thumbnail if example else None, neighbor.name)
        caption = f"{escape(neighbor.label)}<br>{neighbor.cosine:.2f}"
        figures.append(f"<figure>{tile}<figcaption>{caption}</figcaption></figure>")
    return f'<div class="neighbors">{"".join(figures)}</div>'


def _right_buttons(session: Session, position: int, query: Query) -> str:
    if query.corrected is not None:
        return ""
    buttons = "".join(
        f'<button type="button" data-answer="{position}" data-right="{escape(name)}">{escape(name)}</button>'
        for name in session.classes
    )
    return (
        '<p class="note">Wrong, or worth learning from? Say what it is, and it becomes an example:</p>'
        f'<div class="right">{buttons}</div>'
    )


def _tile(thumbnail: bytes | None, name: str) -> str:
    shown = escape(name)
    if thumbnail is None:
        return f'<span class="missing" title="{shown}: from the saved model, which keeps no pictures">?</span>'
    return f'<img alt="{shown}" title="{shown}" src="{_jpeg(thumbnail)}">'


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _jpeg(content: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"


def _png(image: Image.Image) -> str:
    """A small picture enlarged here, because browsers blur it differently."""
    stream = io.BytesIO()
    side = max(OVERLAY_SIDE, image.width)
    image.resize((side, side), Image.Resampling.BICUBIC).save(stream, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"
