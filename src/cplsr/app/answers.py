"""The list of answers as HTML: what to show of it, one page of tiles, and the way to the other pages."""

from __future__ import annotations

from cplsr.app.markup import download_button, escape, jpeg, percent
from cplsr.app.session import Query, Session
from cplsr.app.texts import from_below, say
from cplsr.app.view import CLASS, PAGE, View, arranged, is_unusual, pages, selections


def answers_html(session: Session, view: View) -> str:
    """Show the answers that the view asks for, a page of them; nothing without answers."""
    if not session.queries:
        return ""
    shown = arranged(session, view)
    page = min(view.page, pages(len(shown)) - 1)
    cards = [_card(p, session.queries[p], view) for p in shown[page * PAGE : (page + 1) * PAGE]]
    tiles = "".join(cards) or f'<p class="empty">{say(view.language, "none_shown")}</p>'
    buttons = download_button("answers", view)
    suggest = say(view.language, "suggest")
    button = f'<button type="button" id="suggest" data-do="suggest" data-key="suggest">{suggest}</button>'
    hint = say(view.language, "suggested", count=len(shown)) if view.only == "next" and shown else ""
    return (
        f'{_tools(session, view)}<p class="buttons">{button}<span class="note">{hint}</span></p>'
        f'<p class="note">{say(view.language, "keys")}</p><div class="answers">{tiles}</div>'
        f'{_pager(page, pages(len(shown)), view)}<p class="buttons">{buttons}'
        f'<button type="button" id="clear" data-do="clear_answers" data-key="clear">'
        f"{say(view.language, 'clear_answers')}</button></p>"
    )


def _tools(session: Session, view: View) -> str:
    """Order, selection and threshold."""
    language = view.language
    unknown = sum(view.is_unknown(query) for query in session.queries)
    sorts = {kind: say(language, f"sort_{kind}") for kind in ("newest", "surest", "doubtful", "name")}
    label = say(language, "threshold", share=percent(view.threshold))
    return (
        '<div class="tools">'
        f"{_choice('sort', say(language, 'sort'), sorts, view.sort)}"
        f"{_choice('only', say(language, 'show'), _kinds(session, view), view.only)}"
        f'<label class="threshold">{label}<input type="range" data-do="arrange" name="threshold" min="0" max="1" '
        f'step="0.01" value="{view.threshold}" data-key="threshold"><span class="note" id="unknowns">'
        f"{say(language, 'unknowns', count=unknown, of=len(session.queries))}</span></label></div>"
    )


def _kinds(session: Session, view: View) -> dict[str, str]:
    """What can be shown, with how many there are of it; kinds without any are left out, unless one is chosen."""
    language, queries = view.language, session.queries
    kinds = {"": say(language, "show_all", count=len(queries))}
    for name in session.classes:
        count = sum(query.label == name and not view.is_unknown(query) for query in queries)
        kinds[CLASS + name] = say(language, "show_class", name=escape(name), count=count)
    for kind, test in selections(view).items():
        if (count := sum(map(test, queries))) or view.only == kind:
            kinds[kind] = say(language, f"show_{kind}", count=count)
    return kinds


def _choice(name: str, label: str, options: dict[str, str], chosen: str) -> str:
    rows = "".join(
        f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>{text}</option>'
        for value, text in options.items()
    )
    return f'<label>{label}<select data-do="arrange" name="{name}" data-key="{name}">{rows}</select></label>'


def _pager(page: int, of: int, view: View) -> str:
    if of == 1:
        return ""
    language = view.language

    def turn(to: int, key: str, sign: str) -> str:
        disabled = "" if 0 <= to < of else " disabled"
        text = say(language, key)
        return (
            f'<button type="button" data-do="arrange" data-page="{max(to, 0)}" data-key="{key}" aria-label="{text}"'
            f"{disabled}>{sign}</button>"
        )

    told = say(language, "page", page=page + 1, of=of)
    return f'<nav class="pager">{turn(page - 1, "previous", "‹")}<span>{told}</span>{turn(page + 1, "next", "›")}</nav>'


def _card(position: int, query: Query, view: View) -> str:
    language = view.language
    name, label = escape(query.picture.name), escape(query.label or say(language, "no_answer"))
    states = ["answer"]
    if query.corrected is not None:
        states.append("corrected")
        below = f'<span class="note">{say(language, "given")}</span>'
    elif query.answer is None:
        below = f'<span class="note">{say(language, "add_classes")}</span>'
    else:
        share = percent(query.confidence)
        below = f'<span class="bar"><i style="width:{share}%"></i></span>'
        below += f'<span class="note">{say(language, "sure", share=share)}</span>'
        if view.only == "next":
            below += f'<span class="flag">{escape(from_below(language, dict(view.next)[query.picture.name]))}</span>'
        elif is_unusual(query):
            states.append("unusual")
            below += f'<span class="flag">{say(language, "unlike")}</span>'
    if view.is_unknown(query):
        states.append("unknown")
        label = f"{say(language, 'unknown')} <s>{label}</s>"
    opened = position == view.opened
    states += ["open"] if opened else []
    return (
        f'<button type="button" class="{" ".join(states)}" data-do="explain" data-answer="{position}" '
        f'data-name="{name}" data-key="answer-{position}" aria-expanded="{"true" if opened else "false"}" '
        f'title="{name}"><img alt="" src="{jpeg(query.picture)}"><b class="label">{label}</b>{below}'
        f'<span class="name">{name}</span></button>'
    )
