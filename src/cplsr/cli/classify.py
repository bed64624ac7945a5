"""`cplsr classify`: label images from a few examples of each class."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import cplsr
from cplsr.cli.options import parse
from cplsr.cli.terminal import terminal
from cplsr.declared import Declared, between, kinds_of, parse_options
from cplsr.errors import InputError
from cplsr.files import write_file
from cplsr.report.tables import Table, table
from cplsr.settings.backbone import BackboneSettings, ClassifierPooling
from cplsr.settings.embedding import CacheSettings, EmbeddingSettings

if TYPE_CHECKING:
    from cplsr.classifier.support_report import DoubtfulImage

AUTO = "auto"
SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class ClassifierBackbone(BackboneSettings):
    """Which frozen vision transformer a classifier stands on."""

    backbone: str = AUTO
    """Hub id, transformers folder, checkpoint file, or 'embedded'. auto: facebook/dino-vits16 if it is at hand or can
    be downloaded, else embedded; with --model, the model's own."""
    adapter: str | None = None
    """Adapter folder, run folder or hf:user/name; 'frozen' for none. Default: the backbone's own, if any."""
    pooling: ClassifierPooling = "auto"  # type: ignore[assignment]  # `prepared_backbone` resolves auto
    """What is read of the backbone: the last class token (cls, the paper's), the mean of the last patch tokens, or both
    of every block (depth). auto: all blocks, the upper ones more; with --head auto, how much more is found by leaving
    out each example in turn."""

    def load(self) -> cplsr.Backbone:
        """Load the backbone, at the adapter's image size where none was given, and put the adapter on it."""
        from cplsr.classifier.backbone_choice import prepared_backbone

        settings = {name: getattr(self, name) for name in kinds_of(BackboneSettings) if name != "backbone"}
        return prepared_backbone(None if self.backbone == AUTO else self.backbone, self.adapter, **settings)


SETTLED = {*kinds_of(ClassifierBackbone), "head", "tune_on_support", "tune_options"} - {"backbone", "device"}
"""Options of which a saved classifier has its own."""


def check_settled(options: BackboneSettings, advice: str = "leave it out") -> None:
    """Raise `InputError` if options were given that a saved classifier has settled."""
    for field in dataclasses.fields(options):
        if field.name in SETTLED and getattr(options, field.name) != field.default:
            raise InputError(f"--{field.name.replace('_', '-')} does not go with --model, which has its own: {advice}")


@dataclass(frozen=True, kw_only=True)
class FittingSettings(CacheSettings, EmbeddingSettings, ClassifierBackbone):
    """How a classifier is fitted to examples."""

    head: str = "auto"
    """What learns from the embeddings: auto (ridge regression, its penalty found by leaving out each example in turn),
    prototypes (the paper's), ridge, lda, logistic or knn."""

    def fit_or_load(
        self, examples: cplsr.Domain | None, model: Path | None = None, tune_on_support: bool | dict[str, Any] = False
    ) -> cplsr.FewShotClassifier:
        """Fit a classifier to examples, or load a saved one."""
        cache = cplsr.EmbeddingCache() if self.cache else None
        running: dict[str, Any] = {"batch_size": self.batch_size, "workers": self.workers, "cache": cache}
        if examples is None:
            backbone = None if self.backbone == AUTO else self.backbone
            return cplsr.FewShotClassifier.load(cast("Path", model), backbone=backbone, device=self.device, **running)
        classifier = cplsr.FewShotClassifier(
            self.load(),
            "frozen" if self.adapter == "frozen" else None,  # else the one it carries
            head=self.head,
            pooling=self.pooling,
            tune_on_support=tune_on_support,
            **running,
        )
        return classifier.fit(examples)

    def check_source(self, support: str | None, model: Path | None) -> None:
        """Raise `InputError` unless there is one source of the classes, with options that go with it."""
        if (support is None) == (model is None):
            raise InputError(
                "give either --support FOLDER (one folder of examples per class) or --model FOLDER (saved)"
            )
        if model is not None:
            check_settled(self, "leave it out, or fit with --support")


@dataclass(frozen=True, kw_only=True)
class ImagesRequest(Declared):
    """Which images, and from what their classes are learned; options that stand first."""

    support: str | None = None
    """The examples: a folder with one folder per class, or a csv with the columns path,label."""
    query: Path | None = None
    """Images without labels: a folder (at any depth), one image, a csv with the column path, tar or parquet files,
    hf:user/name, or what `cplsr embed` wrote."""
    out: Path | None = None
    """Where the answers go."""
    force: bool = False
    """Overwrite --out without asking."""
    model: Path | None = None
    """A classifier saved before by `cplsr classify --save`, instead of --support."""


@dataclass(frozen=True, kw_only=True)
class LabelingRequest(ImagesRequest):
    """What is labeled, from what, and where the answers go."""

    out: Path = Path("predictions.csv")  # type: ignore[assignment]
    """Where the answers go: path, label, confidence, runner_up, runner_up_confidence, known, error."""
    reject_below: Annotated[float, between(0, 1)] | None = None
    """Answer 'unknown' where the best class is less likely than this, for example 0.5."""
    save: Path | None = None
    """Also save the classifier to this folder, for --model, `cplsr serve` and `cplsr export`."""
    copy_to: Path | None = None
    """Also copy the images to this folder, into a folder per class ('unknown' for rejected ones)."""
    skipped_to: Path | None = None
    """Also list the files that were passed over, as no images, in this csv: path, reason."""
    restart: bool = False
    """Throw away what an interrupted run left behind instead of continuing it."""
    together: bool = False
    """Let the images to label help to find the classes, for one example per class. It pays where most of the images are
    of these classes; every image is embedded once more, up to 2,000 of them."""
    tune_on_support: bool = False
    """Tune the class token of the backbone on the examples, once, before anything is labeled; takes a minute or so."""
    tune_options: tuple[str, ...] = ()
    """Options of that, as name=value: tokens=registers, steps=100, one_shot=true …"""


@dataclass(frozen=True, kw_only=True)
class Classify(FittingSettings, LabelingRequest):
    """Label images from a few examples of each class, and write predictions.csv.

    An interrupted run is continued by the same command. Images that cannot be read are rows with an error. Embeddings
    are kept (see `cplsr cache`), so that the same images again, with another threshold or head, take seconds.
    """


def main(arguments: list[str]) -> int:
    """Parse the options, label, say what came of it."""
    options = parse(Classify, "classify", arguments)
    query = check_request(options)
    from cplsr.classifier.csv_run import CsvRun, labeled_files, summarize
    from cplsr.classifier.sorted_copies import copy_by_label

    queries, support = open_images(options.support, query, options.skipped_to)
    tuning = parse_options(options.tune_options, "tuning", "steps=100")
    classifier = options.fit_or_load(support, options.model, options.tune_on_support and (tuning or True))
    check_labeling(options, classifier, queries)
    run = CsvRun(classifier, queries, options.out, options.reject_below, options.restart, options.together)
    run.check()
    if options.save is not None:
        classifier.save(options.save)
        print(f"classifier saved to {options.save}")
    if kept := run.label():
        print(f"continued an interrupted run: {kept:,} of {len(queries):,} images were labeled already")
    if options.copy_to is not None:
        copied = copy_by_label(labeled_files(options.out, query), options.copy_to)
        print(f"{copied:,} images copied to {options.copy_to}")
    summary = summarize(options.out)
    print(f"{summary.images:,} images, written to {options.out}", *summary.lines(), sep="\n")
    report = classifier.evaluate_support()
    if report.doubtful:
        terminal().print(suspects_table(report.doubtful).to_rich())
    print(report.expectation())
    return 0


def open_images(support: str | None, query: Path, skipped_to: Path | None) -> tuple[cplsr.Domain, cplsr.Domain | None]:
    """Open images without labels and the examples, if any; what is passed over is told, and listed if asked for."""
    from cplsr.classifier.pictures import told_skipped
    from cplsr.data.query_files import open_queries

    queries = open_queries(query)
    examples = None if support is None else open_support(support)
    told_skipped(query, queries)
    if skipped_to is not None:
        skipped = [*(() if examples is None else examples.skipped), *queries.skipped]
        write_file(skipped_to, table("passed over", ("path", "reason"), skipped).to_csv())
    return queries, examples


def check_labeling(options: Classify, classifier: cplsr.FewShotClassifier, queries: cplsr.Domain) -> None:
    """Raise `InputError` where images cannot be answered together, or cannot be copied."""
    from cplsr.classifier.sorted_copies import check_label_folders
    from cplsr.data.image_file import FileReader

    if options.together:
        classifier.head_.check_together(len(queries))
    if options.copy_to is not None:
        query = cast("Path", options.query)
        if not isinstance(queries.reader, FileReader):
            held = "only vectors" if queries.vectors is not None else "no image files of their own"
            raise InputError(f"--copy-to copies images, but {query} holds {held}: leave it out, or give the images")
        check_label_folders([str(name) for name in classifier.classes_.tolist()], options.copy_to, query)


def check_request(options: Classify) -> Path:
    """Check what can be checked before anything is loaded, and return what to label."""
    if options.query is None:
        raise InputError("there is nothing to label: give --query FOLDER, an image, or a csv of paths")
    options.check_source(options.support, options.model)
    if options.tune_options and not options.tune_on_support:
        raise InputError("--tune-options were given, but nothing is tuned: give --tune-on-support as well")
    if options.save is not None:
        from cplsr.classifier.store import check_free

        check_free(options.save)
    check_overwriting(options.out, options.force)
    return options.query


def check_overwriting(out: Path, force: bool) -> None:
    """Ask on a terminal whether a file may be overwritten; `InputError` if nobody can be asked, or it may not."""
    if force or not out.is_file():
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(f"{out} exists already. Overwrite it when the new answers are complete? [y/N] ", end="", file=sys.stderr)
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise InputError(f"{out} exists already and stays as it is: give --force to overwrite it, or another --out")


def suspects_table(doubtful: Sequence[DoubtfulImage]) -> Table:
    """Make a table of the examples that look mislabeled, the most doubtful first."""
    more = f"and {len(doubtful) - SHOWN:,} more; " if len(doubtful) > SHOWN else ""
    return table(
        "examples that may be mislabeled",
        ("image", "labeled", "looks like", "times likelier"),
        ((image.name, image.label, image.looks_like, f"{min(image.odds, 1e6):,.0f}") for image in doubtful[:SHOWN]),
        caption=f"{more}each judged by the other examples",
        left=3,
    )


def open_support(source: str) -> cplsr.Domain:
    """Open labeled examples of two classes at least; files that are passed over are told by a warning."""
    from cplsr.classifier.pictures import told_skipped

    domain = cplsr.open_domain(source).without_empty_classes()
    if len(domain.classes) < 2:
        raise InputError(f"{source} has one class, {domain.classes[0]!r}: give examples of at least two")
    return told_skipped(source, domain)
