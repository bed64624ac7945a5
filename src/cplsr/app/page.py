"""The page in gradio: fields and buttons that call the actions of a session, and show what came of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, final
from uuid import uuid4

import gradio as gr

from cplsr.app.downloads import write_csv, write_model
from cplsr.app.markup import answers_html, classes_html, detail_html, escape, estimate_html
from cplsr.app.session import (
    Outcome,
    Session,
    Shared,
    add_class,
    classify,
    clear_answers,
    correct,
    explain,
    new_session,
    remove_class,
    start_over,
    support_report,
    undo,
)
from cplsr.errors import InputError

T = TypeVar("T")
TITLE = "Sort pictures by example"
HOW = (
    "Name a class and drop a few pictures of it; do the same for a second one. A vision network, which stays as it is, "
    "turns every picture into numbers, and a new picture gets the class whose examples it is closest to. Pictures "
    "stay on the computer that runs this page."
)
PASS_CLICKS_ON = """
element.addEventListener('click', event => {
  const hit = event.target.closest('[data-remove], [data-answer]');
  if (hit && element.contains(hit)) trigger('click', {...hit.dataset});
});
"""
SHOW_DETAIL = (
    PASS_CLICKS_ON
    + "watch('value', () => element.querySelector('.detail')?.scrollIntoView({behavior: 'smooth', block: 'nearest'}));"
)
SAVE_FILE = """
file => {
  if (!file) return;
  const link = Object.assign(document.createElement('a'), {href: file.url, download: file.orig_name || ''});
  document.body.append(link); link.click(); link.remove();
}
"""
SYSTEM_FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
SYSTEM_FIXED_FONTS = ("ui-monospace", "Menlo", "Consolas", "monospace")


def theme() -> Any:
    """Make gradio's look use the system's fonts, which need no download, and buttons dark enough for white text."""
    look = gr.themes.Default(primary_hue="teal", font=SYSTEM_FONTS, font_mono=SYSTEM_FIXED_FONTS)
    return look.set(
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover_dark="*primary_600",
    )


def build_page(shared: Shared, folder: Path) -> Any:
    """Make the page as gradio blocks; `folder` is where downloads are put, a visitor's until the session ends."""
    with gr.Blocks(title=TITLE, analytics_enabled=False, delete_cache=(600, 3600)) as blocks:
        _Page(blocks, shared, folder)
    return blocks.queue(api_open=False, max_size=100)


@final
class _Page:
    """The fields, and what happens when they are used. Every visitor's session is in `state`, on the server."""

    def __init__(self, blocks: Any, shared: Shared, folder: Path) -> None:
        self.shared, self.folder = shared, folder
        self.state = gr.State(None, delete_callback=self._leave)
        gr.Markdown(f"# {TITLE}")
        gr.Markdown(HOW, elem_id="how")
        with gr.Row(equal_height=False):
            with gr.Column(min_width=320):
                self._lay_out_examples()
            with gr.Column(min_width=320):
                self._lay_out_answers()
        gr.Markdown(f"<small>{escape(self._about())}</small>")
        self.view = [
            self.state, self.classes, self.estimate, self.answers, self.detail,
            self.waiting, self.labeling, self.undo, self.model,
        ]  # fmt: skip
        self._wire(blocks)

    def _lay_out_examples(self) -> None:
        limits = self.shared.limits
        gr.Markdown("## 1 · Examples")
        self.name = gr.Textbox(label="Class", placeholder="for example: ripe", max_lines=1, elem_id="class-name")
        self.class_files = gr.File(
            label=f"A few pictures of it (up to {limits.file_bytes // 1_000_000} MB each)",
            file_count="multiple",
            height=160,
            elem_id="class-files",
        )
        self.add = gr.Button("Add these examples", variant="primary", elem_id="add")
        self.estimate = gr.HTML(elem_id="estimate")
        self.classes = gr.HTML(elem_id="classes", js_on_load=PASS_CLICKS_ON)
        with gr.Row():
            self.undo = gr.Button("Undo", size="sm", min_width=90, elem_id="undo", interactive=False)
            self.restart = gr.Button("Start over", size="sm", min_width=90, elem_id="restart")
            self.model = gr.Button("Download model", size="sm", min_width=130, elem_id="model", interactive=False)
        self.model_file = gr.File(visible=False)

    def _lay_out_answers(self) -> None:
        gr.Markdown("## 2 · New pictures")
        self.waiting = gr.HTML('<p class="empty">Here you drop pictures to label, once there are two classes.</p>')
        with gr.Column(visible=False, elem_id="labeling") as self.labeling:
            self.query_files = gr.File(
                label="Pictures to label", file_count="multiple", height=160, elem_id="query-files"
            )
            self.detail = gr.HTML(elem_id="detail", js_on_load=SHOW_DETAIL)
            self.answers = gr.HTML(elem_id="answers", js_on_load=PASS_CLICKS_ON)
            with gr.Row():
                self.csv = gr.Button("Download answers (CSV)", size="sm", min_width=150, elem_id="csv")
                self.clear = gr.Button("Clear answers", size="sm", min_width=120, elem_id="clear")
            self.csv_file = gr.File(visible=False)

    def _wire(self, blocks: Any) -> None:
        """One thing at a time for all visitors: the processor is one, and no update of a session is ever lost."""
        options: dict[str, Any] = {"api_visibility": "private", "concurrency_id": "visitors", "concurrency_limit": 1}
        quiet = {**options, "show_progress": "hidden"}
        blocks.load(self._arrive, None, self.view, **quiet)
        # Without gradio's own preprocessing, which leaves an empty file behind for every file.
        dropping = {**options, "preprocess": False}
        for event in (self.add.click, self.name.submit):
            event(
                self._add,
                [self.state, self.name, self.class_files],
                [*self.view, self.name, self.class_files],
                show_progress_on=self.class_files,
                **dropping,
            )
        self.query_files.upload(
            self._label,
            [self.state, self.query_files],
            [*self.view, self.query_files],
            show_progress_on=self.query_files,
            **dropping,
        )
        for part in (self.classes, self.answers, self.detail):
            part.click(self._click, self.state, self.view, show_progress_on=part, **options)
        for button, action in ((self.undo, undo), (self.clear, clear_answers), (self.restart, start_over)):
            button.click(partial(self._act, action=action), self.state, self.view, **quiet)
        for button, write, carrier in (
            (self.model, write_model, self.model_file),
            (self.csv, write_csv, self.csv_file),
        ):
            made = button.click(
                partial(self._write, write=write), self.state, carrier, show_progress_on=button, **options
            )
            made.then(None, carrier, None, js=SAVE_FILE)

    def _arrive(self) -> list[Any]:
        return self._shown(new_session(self.shared))

    def _add(self, session: Session | None, name: str, files: list[dict[str, Any]] | None) -> Any:
        after = self._attempt(session, lambda before: add_class(before, name or "", _paths(files)))
        return gr.skip() if after is None else [*self._shown(after), "", None]

    def _label(self, session: Session | None, files: list[dict[str, Any]] | None) -> Any:
        after = self._attempt(session, lambda before: classify(before, _paths(files)))
        return [gr.skip()] * len(self.view) + [None] if after is None else [*self._shown(after), None]

    def _act(self, session: Session | None, action: Callable[[Session], Outcome]) -> Any:
        after = self._attempt(session, action)
        return gr.skip() if after is None else self._shown(after)

    def _click(self, session: Session | None, event: gr.EventData) -> Any:
        """A button inside our own HTML: remove a class, say what a picture is, or ask why."""
        clicked = dict(event._data or {})
        if "remove" in clicked:
            return self._act(session, lambda before: remove_class(before, str(clicked["remove"])))
        position = int(clicked["answer"])
        after = session
        if "right" in clicked:
            after = self._attempt(session, lambda before: correct(before, position, str(clicked["right"])))
        if after is None or (why := _told(lambda: explain(after, position))) is None:
            return gr.skip()
        return self._shown(after, detail_html(after, position, why), position)

    def _write(self, session: Session | None, write: Callable[[Session, Path], Path]) -> str | None:
        """Make a download, at an address that nobody can guess; the one before it is not needed any more."""
        if session is None:
            return None
        own = self.folder / session.key
        shutil.rmtree(own, ignore_errors=True)
        return _told(lambda: str(write(session, own / uuid4().hex)))

    def _leave(self, session: Session | None) -> None:
        if session is not None:
            shutil.rmtree(self.folder / session.key, ignore_errors=True)

    def _attempt(self, session: Session | None, action: Callable[[Session], Outcome]) -> Session | None:
        """Do it; what is wrong or worth knowing is said on the page."""
        outcome = _told(lambda: action(session or new_session(self.shared)))
        if outcome is None:
            return None
        for remark in outcome.remarks:
            gr.Warning(escape(remark), title="Note")
        return outcome.session

    def _shown(self, session: Session, detail: str = "", opened: int | None = None) -> list[Any]:
        """Values for `view`."""
        report = support_report(session)
        return [
            session,
            classes_html(session, report),
            estimate_html(session, report),
            answers_html(session, opened),
            detail,
            gr.update(visible=not session.is_ready),
            gr.update(visible=session.is_ready),
            gr.update(interactive=session.before is not None),
            gr.update(interactive=session.classifier is not None),
        ]

    def _about(self) -> str:
        backbone = self.shared.backbone
        adapter = "" if backbone.adapter is None else ", with an adapter"
        return f"Network: {backbone.source}{adapter}, {backbone.image_size} × {backbone.image_size} pixels."


def _told(action: Callable[[], T]) -> T | None:
    """Do something; what is wrong with it is said on the page."""
    try:
        return action()
    except InputError as error:
        gr.Warning(escape(str(error)), title="Not done")
        return None


def _paths(files: list[dict[str, Any]] | None) -> list[Path]:
    return [Path(file["path"]) for file in files or []]
