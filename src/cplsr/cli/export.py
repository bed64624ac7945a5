"""`cplsr export`: a trained adapter as an ordinary model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

import cplsr
from cplsr.cli.classify import check_settled
from cplsr.cli.options import parse
from cplsr.errors import InputError
from cplsr.records.adapter import AdapterInfo
from cplsr.settings.backbone import BackboneSettings, Pooling, Precision

if TYPE_CHECKING:
    from cplsr.export.exported import Exported


@dataclass(frozen=True, kw_only=True)
class Export(BackboneSettings):
    """Write an adapter and its backbone as one ordinary model in float32 that needs no cplsr.

    What was written is read again and compared with the source. Without --adapter the frozen backbone is written;
    with it, what is not given of the backbone is as it was in training. Nothing is overwritten.
    """

    to: Literal["transformers", "onnx", "timm", "browser"]
    """A folder for AutoModel.from_pretrained, a .onnx graph, a .safetensors checkpoint in timm's key names, or a folder
    with a web page that runs a saved classifier (--model) in the browser."""
    out: Path
    """Where to write: a new folder or file."""
    adapter: str | None = None
    """Adapter folder, run folder or hf:user/name."""
    model: Path | None = None
    """A saved classifier instead: one ONNX graph from an image to the probabilities of its classes."""
    raw_pixels: bool = False
    """ONNX: the input is uint8 pixels, and the graph normalizes them."""
    backbone: str | None = None  # type: ignore[assignment]
    """Hub id, transformers folder, checkpoint file or 'embedded'. Default: what the adapter names, else 'embedded'."""
    pooling: Pooling | None = None  # type: ignore[assignment]
    """Embedding: class token after the final norm, mean of the patch tokens, or both of every block, side by side.
    Default: the adapter's, else cls."""
    precision: tyro.conf.Suppress[Precision] = "fp32"
    """Always."""
    device: tyro.conf.Suppress[str] = "cpu"
    """Always."""


def main(arguments: list[str]) -> int:
    """Parse the options, write the model, say what was written."""
    options = parse(Export, "export", arguments)
    done = run(options)
    what = "adapter folded into the weights" if done.merged else "written as it is"
    print(f"{done.path}: {what}; differs from the source by {done.difference:.1e} of the largest value")
    if options.to == "browser":
        size = sum(part.stat().st_size for part in done.path.iterdir())
        print(f"{size / 1e6:.0f} MB with what runs models in browsers; README.md in it says how to open the page")
    return 0


def run(options: Export) -> Exported:
    """Load the backbone with its adapter, or the classifier, and write it as another kind of model."""
    _check(options)
    if options.model is None:
        backbone, head = load_source(options), None
    else:
        classifier = cplsr.FewShotClassifier.load(options.model, backbone=options.backbone, device="cpu")
        if options.to == "browser":
            from cplsr.export.browser_page import export_browser_page

            return export_browser_page(classifier, options.out)
        from cplsr.export.to_onnx import head_of

        backbone, head = classifier.backbone_, head_of(classifier.head_)
    if options.to == "onnx":
        return cplsr.export_onnx(backbone, options.out, raw_pixels=options.raw_pixels, head=head)
    export = cplsr.export_timm if options.to == "timm" else cplsr.export_transformers
    return export(backbone, options.out)


def load_source(options: Export) -> cplsr.Backbone:
    """Load the backbone and put the adapter on it; what is not given is as it was when the adapter was trained."""
    from cplsr.adapters.store import read_adapter_info

    stored = None if options.adapter is None else read_adapter_info(options.adapter)
    name = options.backbone or (stored.backbone["source"] if stored else "embedded")
    try:
        backbone = cplsr.load_backbone(name, **_loading(options, stored, name))
    except InputError as error:
        if stored is None or options.backbone is not None:
            raise
        raise InputError(
            f"the adapter {options.adapter} names its backbone {name!r}, and that cannot be loaded ({error}): say "
            "where it is with --backbone"
        ) from error
    return backbone if options.adapter is None else cplsr.load_adapter(backbone, options.adapter)


def _loading(options: Export, stored: AdapterInfo | None, name: str) -> dict[str, Any]:
    from cplsr.classifier.backbone_choice import loading_again

    trained = {"pooling": "cls", "antialias": True} if stored is None else loading_again(stored.backbone, name)
    if options.pooling:
        trained["layers"] = None
    given = {name: getattr(options, name) for name in ("image_size", "heads", "mean", "std", "pooling", "layers")}
    given = {name: value for name, value in given.items() if value is not None}
    return {**trained, **given, "views": options.views, "antialias": options.antialias and trained["antialias"]}


def _check(options: Export) -> None:
    """What can be refused before anything heavy is loaded."""
    if options.raw_pixels and options.to != "onnx":
        raise InputError(f"--raw-pixels is for ONNX graphs; with --to {options.to} normalizing is the reader's part")
    if options.model is not None:
        if options.to not in ("onnx", "browser"):
            raise InputError(f"a classifier (--model) can be written --to onnx or browser only, not {options.to}")
        check_settled(options)
    elif options.to == "browser":
        raise InputError("a page for browsers is made of a saved classifier: give its folder as --model")
    from cplsr.export.destination import check_free_checkpoint, check_free_file, check_free_folder

    if options.to in ("transformers", "browser"):
        check_free_folder(options.out)
    elif options.to == "timm":
        check_free_checkpoint(options.out)
    else:
        check_free_file(options.out, ".onnx")
