"""The page in gradio: the browser says what a visitor does, and is told what the page looks like then."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Union, final, get_args
from uuid import uuid4

import gradio as gr
import msgspec

from cplsr.app import actions as do
from cplsr.app import steps
from cplsr.app import view as looks
from cplsr.app.answers import answers_html
from cplsr.app.downloads import WRITERS
from cplsr.app.markup import classes_html, detail_html, estimate_html, frame_html, home_html, left_out_html
from cplsr.app.session import Session, Shared, explain, new_session, support_report
from cplsr.app.texts import Said, TextError, say
from cplsr.app.view import View
from cplsr.errors import InputError

SCRIPT = Path(__file__).with_name("page.js")
SYSTEM_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
SYSTEM_FIXED_FONTS = ("ui-monospace", "Menlo", "Consolas", "monospace")
MOST_VISITS = 1000
STEPS = {
    do.action_of(step): step
    for step in (
        *(steps.remove_class, steps.rename_class, steps.remove_example, steps.move_example, steps.correct),
        *(steps.undo, steps.clear_answers, steps.start_over),
    )
}
"""What changes a session, besides files."""
LOOKS = {
    do.action_of(look): look
    for look in (
        *(looks.arrange, looks.suggest, looks.explain, looks.open_example, looks.close, looks.show_examples),
        looks.speak,
    )
}
"""What changes only what a visitor looks at."""
ANY: Any = Union[(do.Arrive, do.Teach, do.Label, do.Download, *STEPS, *LOOKS)]
"""All that a visitor can do."""


def understood(told: object) -> do.Action:
    """Read what a browser says, or raise `msgspec.ValidationError`; numbers may be text, as HTML attributes are."""
    return msgspec.convert(told, ANY, strict=False)


def theme() -> Any:
    """Make gradio's look use the system's fonts, which need no download."""
    return gr.themes.Default(primary_hue="teal", font=SYSTEM_FONTS, font_mono=SYSTEM_FIXED_FONTS)


def build_page(shared: Shared, downloads: Path) -> Any:
    """Make the page as gradio blocks; `downloads` is where files to take home are put."""
    visits = Visits(shared, downloads)
    with gr.Blocks(title=say("en", "title"), analytics_enabled=False, delete_cache=(600, 3600)) as blocks:
        key = gr.State(None, delete_callback=visits.leave)
        gr.HTML(f'<main id="root"><p>{say("en", "wait")}</p></main>', js_on_load=None)
        script = SCRIPT.read_text(encoding="utf-8")
        wire = gr.HTML(visible="hidden", elem_id="wire", html_template="", js_on_load=script)
        # One thing at a time for all visitors: the processor is one, and no update of a session is ever lost.
        done = wire.click(
            visits.act,
            key,
            [key, wire],
            api_visibility="private",
            concurrency_id="visitors",
            concurrency_limit=1,
            show_progress="hidden",
            trigger_mode="multiple",
        )
        done.then(None, None, None, js="() => window.cplsrSettled()")
    blocks.state_session_capacity = MOST_VISITS
    return blocks.queue(api_open=False, max_size=100)


@final
@dataclass
class Visit:
    """A visitor's session and what is seen of it. file: the last download, which the next one replaces."""

    session: Session
    view: View
    file: Path | None = None


@final
class Visits:
    """All sessions, each known by a key that only its visitor has. `open` counts the tabs in which it is shown."""

    def __init__(self, shared: Shared, downloads: Path) -> None:
        self.shared, self.downloads = shared, downloads
        self.known: dict[str, Visit] = {}
        self.open: Counter[str] = Counter()
        self.answered = count()

    def act(self, key: str | None, event: gr.EventData) -> tuple[str, str]:
        """Do what a browser says, and tell it what has changed, as JSON."""
        action = understood(dict(event._data or {}))
        fresh = key not in self.known
        if fresh:
            key = self._enter(action if isinstance(action, do.Arrive) else do.Arrive())
        visit = self.known[str(key)]
        told: dict[str, Any] = {"number": next(self.answered), "key": key}
        spoke = visit.view.language
        try:
            told |= self._done(visit, action)
        except InputError as error:
            said = error.said if isinstance(error, TextError) else Said.plain(str(error))
            told["messages"] = [said.in_language(visit.view.language)]
        if fresh or isinstance(action, do.Arrive) or visit.view.language != spoke:
            told["frame"] = frame_html(self.shared, visit.view)
        told |= shown(visit, more=isinstance(action, do.Teach) and action.more)
        return str(key), msgspec.json.encode(told).decode()

    def leave(self, key: str | None) -> None:
        """A tab was closed a while ago; with the last one the session goes."""
        if key is None:
            return
        self.open[key] -= 1
        if self.open[key] <= 0:
            del self.open[key]
            self._forget(key)

    def _enter(self, arrival: do.Arrive) -> str:
        """The key of the session that a browser remembers, else of a new one."""
        key = arrival.key or ""
        if key not in self.known:
            if len(self.known) >= MOST_VISITS:
                self._forget(next(iter(self.known)))
            key = uuid4().hex
            self.known[key] = Visit(new_session(self.shared), View(language=arrival.language))
        self.open[key] += 1
        return key

    def _forget(self, key: str) -> None:
        visit = self.known.pop(key, None)
        if visit is not None and visit.file is not None:
            shutil.rmtree(visit.file.parent, ignore_errors=True)

    def _done(self, visit: Visit, action: do.Action) -> dict[str, Any]:
        """What to tell besides the new look of the page: sentences, an address to download from."""
        if isinstance(action, do.Download):
            return self._download(visit, action.what)
        if look := LOOKS.get(type(action)):
            visit.view = look(visit.session, visit.view, *msgspec.structs.astuple(action))
            return {}
        if isinstance(action, do.Teach | do.Label):
            outcome = received(visit.session, action)
            visit.view = replace(visit.view, example="")
        elif step := STEPS.get(type(action)):
            outcome = step(visit.session, *msgspec.structs.astuple(action))
            if step is not steps.correct:
                visit.view = looks.close(outcome.session, visit.view)
        else:
            return {}
        visit.session = outcome.session
        messages = [remark.in_language(visit.view.language) for remark in outcome.remarks]
        return {"messages": messages, "full": outcome.full}

    def _download(self, visit: Visit, what: str) -> dict[str, Any]:
        """Make a file, at an address that nobody can guess; the one before it is not needed any more."""
        if visit.file is not None:
            shutil.rmtree(visit.file.parent, ignore_errors=True)
        visit.file, remark = WRITERS[what](visit.session, visit.view, self.downloads / uuid4().hex)
        told = [] if remark is None else [remark.in_language(visit.view.language)]
        return {"messages": told, "download": f"/download/{visit.file.parent.name}/{visit.file.name}"}


def received(session: Session, action: do.Teach | do.Label) -> steps.Outcome:
    """Use the files that have arrived; those that have not, or cannot be used, are left out with the reason."""
    query, limits = isinstance(action, do.Label), session.shared.limits
    refused = [(file.name, steps.why(file.reason, limits)) for file in action.refused]
    files = [Path(file) for file in action.files]
    if refused or not files:
        noted = steps.leave_out(session, refused, query=query, drop=action.drop)
        if not files:
            return noted
        session = noted.session
    try:
        if isinstance(action, do.Teach):
            return steps.add_class(session, action.name, files, action.drop)
        return steps.classify(session, files, action.drop)
    except TextError as error:
        none = steps.leave_out(session, [(file.name, error.said) for file in files], query=query, drop=action.drop)
        full = error.said.key if error.said.key in get_args(do.Reason) else ""
        return steps.Outcome(none.session, (error.said, *none.remarks), full)


def shown(visit: Visit, *, more: bool = False) -> dict[str, Any]:
    """The parts of the page that change, by the `id` of their places, and what is possible now.

    What to expect of the classes is found out when all their examples are there, not while `more` are coming.
    """
    session, view = visit.session, visit.view
    report = None if more else support_report(session)
    detail = ""
    if view.opened is not None and view.opened < len(session.queries) and session.is_ready:
        detail = detail_html(session, view, explain(session, view.opened))
    return {
        "parts": {
            "classes": classes_html(session, report, view),
            **({} if more else {"estimate": estimate_html(session, report, view)}),
            "answers": answers_html(session, view),
            "detail": detail,
            "left-out": left_out_html(session, view),
            "home": home_html(session, view),
        },
        "classes": list(session.classes),
        "ready": session.is_ready,
        "undoable": bool(session.past),
    }
