"""The list of answers as HTML: what to show of it, one page of tiles, and the way to the other pages."""

from __future__ import annotations

from typing import get_args

import numpy as np

from cplsr.app.actions import Sort
from cplsr.app.markup import button, choice, download_button, jpeg, percent
from cplsr.app.session import Query, Session
from cplsr.app.texts import from_below
from cplsr.app.view import CLASS, PAGE, View, arranged, is_unusual, pages, selections
from cplsr.report.markup import element, text


def answers_html(session: Session, view: View) -> str:
    """Show the answers that the view asks for, a page of them; nothing without answers."""
    if not session.queries:
        return ""
    shown = arranged(session, view)
    page = min(view.page, pages(len(shown)) - 1)
    cards = [_card(p, session.queries[p], view) for p in shown[page * PAGE : (page + 1) * PAGE]]
    buttons = (
        button(view.say("suggest"), "suggest", id="suggest"),
        download_button("answers", view),
        button(view.say("clear_answers"), "clear_answers", id="clear"),
    )
    hints = [view.say("suggested", count=len(shown))] if view.only == "next" and shown else []
    return (
        _tools(session, view)
        + element("p", *buttons, class_="buttons")
        + "".join(element("p", hint, class_="note") for hint in [*hints, view.say("keys")])
        + element("div", *(cards or [element("p", view.say("none_shown"), class_="empty")]), class_="answers")
        + _pager(page, pages(len(shown)), view)
    )


def _tools(session: Session, view: View) -> str:
    """Order, selection and threshold; the slider knows how many are unknown wherever it is put."""
    sorts = {kind: view.say(f"sort_{kind}") for kind in get_args(Sort) if kind != "next" or view.next}
    confidences = sorted(query.confidence for query in session.queries if query.answer is not None)
    unknown = np.searchsorted(confidences, [share / 100 for share in range(101)]).tolist()
    slider = element(
        "input",
        type="range",
        data_do="arrange",
        name="threshold",
        min=0,
        max=1,
        step="0.01",
        value=view.threshold,
        data_key="threshold",
        data_unknown=unknown,
        data_of=len(session.queries),
    )
    share = element("span", view.say("threshold", share=percent(view.threshold)), id="share")
    count = sum(view.is_unknown(query) for query in session.queries)
    unknowns = element("span", view.say("unknowns", count=count, of=len(session.queries)), class_="note", id="unknowns")
    return element(
        "div",
        choice("arrange", "sort", view.say("sort"), sorts, view.sort),
        choice("arrange", "only", view.say("show"), _kinds(session, view), view.only),
        element("label", share, slider, unknowns, class_="threshold"),
        class_="tools",
    )


def _kinds(session: Session, view: View) -> dict[str, str]:
    """What can be shown, with how many there are of it; kinds without any are left out, unless one is chosen."""
    queries = session.queries
    kinds = {"": view.say("show_all", count=len(queries))}
    for name in session.classes:
        count = sum(query.label == name and not view.is_unknown(query) for query in queries)
        kinds[CLASS + name] = view.say("show_class", name=name, count=count)
    for kind, test in selections(view).items():
        if (count := sum(map(test, queries))) or view.only == kind:
            kinds[kind] = view.say(f"show_{kind}", count=count)
    return kinds


def _pager(page: int, of: int, view: View) -> str:
    if of == 1:
        return ""

    def turn(to: int, key: str, sign: str) -> str:
        disabled = None if 0 <= to < of else ""
        return button(sign, "arrange", key, data_page=max(to, 0), aria_label=view.say(key), disabled=disabled)

    told = element("span", view.say("page", page=page + 1, of=of))
    return element("nav", turn(page - 1, "previous", "‹"), told, turn(page + 1, "next", "›"), class_="pager")


def _card(position: int, query: Query, view: View) -> str:
    label = text(query.label) or view.say("no_answer")
    states = ["answer"]
    if query.corrected is not None:
        states.append("corrected")
        below = element("span", view.say("given"), class_="note")
    elif query.answer is None:
        below = element("span", view.say("add_classes"), class_="note")
    else:
        share = percent(query.confidence)
        below = f'<span class="bar"><i style="width:{share}%"></i></span>'
        below += element("span", view.say("sure", share=share), class_="note")
        if view.only == "next":
            reason = from_below(view.language, dict(view.next)[query.picture.name])
            below += element("span", text(reason), class_="flag")
        elif is_unusual(query):
            states.append("unusual")
            below += element("span", view.say("unlike"), class_="flag")
    if view.is_unknown(query):
        states.append("unknown")
        label = f"{view.say('unknown')} <s>{label}</s>"
    opened = position == view.opened
    states += ["open"] if opened else []
    return button(
        element("img", alt="", src=jpeg(query.picture))
        + element("b", label, class_="label")
        + below
        + element("span", text(query.picture.name), class_="name"),
        "explain",
        f"answer-{position}",
        class_=" ".join(states),
        data_answer=position,
        data_name=query.picture.name,
        aria_expanded="true" if opened else "false",
        title=query.picture.name,
    )
