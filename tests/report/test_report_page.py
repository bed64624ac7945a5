"""The page: complete, self-contained, the same every time, and deaf to hostile names."""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from oracles import report_inputs

from cplsr.report.page import page_sections, write_report
from cplsr.report.sources import Training, gather
from cplsr.report.training_section import curves

HOSTILE = '"><script>window.hacked=1</script><img src=x onerror="window.hacked=1">'
VOID = {"meta", "link", "img", "br"}


class Reader(HTMLParser):
    """Checks that elements close in order, and collects tags, attributes and text."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(path):
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    assert reader.open == []
    return reader


def titles(path):
    return [section.title for section in page_sections(gather([path]))]


@pytest.fixture
def everything(tmp_path):
    return report_inputs.write_everything(tmp_path / "all")


def test_all_sections_of_all_kinds(everything, tmp_path):
    out = tmp_path / "report.html"
    found = write_report([everything], out, title="Mine & yours")
    assert found == [
        "In short", "Differences, episode by episode", "Accuracy", "Ablation", "Class by class", "Calibration",
        "Training", "Embedding space and bound", "Embeddings in two dimensions", "Heads, by how much they changed",
        "Attention: how far it spreads", "Attention: where it looks", "Cost", "Data", "Settings",
    ]  # fmt: skip
    reader = read(out)
    assert "Mine & yours" in reader.text
    ids = [value for _, name, value in reader.attributes if name == "id"]
    links = [value[1:] for tag, name, value in reader.attributes if (tag, name) == ("a", "href")]
    assert len(links) == len(found)
    assert set(links) <= set(ids)
    assert len(ids) == len(set(ids))


def test_sections_appear_only_where_there_is_something_to_say(tmp_path, everything):
    assert titles(everything / "run") == ["In short", "Training", "Data", "Settings"]
    report_inputs.results(methods=("frozen",)).write(tmp_path / "frozen.json")
    assert "Differences, episode by episode" not in titles(tmp_path / "frozen.json")
    old = report_inputs.results().to_json()
    del old["confusion"], old["calibration"]
    (tmp_path / "old.json").write_text(json.dumps(old))
    assert titles(tmp_path / "old.json") == [
        "In short",
        "Differences, episode by episode",
        "Accuracy",
        "Data",
        "Settings",
    ]
    bare = {**report_inputs.analysis(), "adapter": None, "heads": [], "cost": [], "umap": None, "attention": []}
    for domain in bare["domains"].values():
        domain["after"] = None
        domain["before"]["attention_entropy"] = []
    report_inputs.write_analysis(tmp_path / "bare", bare)
    assert titles(tmp_path / "bare") == ["In short", "Embedding space and bound", "Settings"]


def test_nothing_is_fetched_from_anywhere(everything, tmp_path):
    write_report([everything], tmp_path / "r.html")
    reader = read(tmp_path / "r.html")
    for tag, name, value in reader.attributes:
        if name in ("src", "href", "action", "poster", "srcset", "xlink:href"):
            assert value.startswith(("#", "data:")), (tag, name, value[:60])
    content = (tmp_path / "r.html").read_text()
    assert "://" not in re.sub(r"data:[^\"]*", "", content)
    assert "@import" not in content
    assert re.findall(r"url\((?!#texture\d\))", content) == []


def test_the_same_sources_give_the_same_page(everything, tmp_path):
    write_report([everything], tmp_path / "a.html")
    write_report([everything], tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_hostile_names_stay_text(tmp_path):
    folder = tmp_path / "h"
    folder.mkdir()
    classes = (HOSTILE, "</style>", "\ufffe", "a & b", "\x00")
    results = report_inputs.results((HOSTILE, "leaf"), methods=("frozen", HOSTILE), classes=classes, flags=(HOSTILE,))
    (folder / "r.json").write_text(json.dumps(results.to_json()))
    content = report_inputs.analysis((HOSTILE,), classes)
    content["notes"] = [HOSTILE]
    content["cost"][0]["adapter"] = HOSTILE
    report_inputs.write_analysis(folder / "analysis", content, classes)
    write_report([folder], folder / "r.html", title=HOSTILE, command=f"cplsr report {HOSTILE} \ud800")
    reader = read(folder / "r.html")
    assert reader.tags.count("script") == 1
    assert reader.tags.count("img") == 1
    assert reader.tags.count("style") == 1
    assert [name for _, name, _ in reader.attributes if name.startswith("on")] == []
    assert any(HOSTILE in text for text in reader.text)


def test_figures_from_the_files_are_on_the_page(everything, tmp_path):
    write_report([everything], tmp_path / "r.html")
    text = " ".join(read(tmp_path / "r.html").text)
    for wanted in ("44.50 ±0.55", "+1.50 ±0.30", "2.500", "2.100", "head 2 of layer 5", "0ae88b61e730", "torch 2.13.0",
                   "cplsr ablate recipe.toml", "landcover: annual crop/0001.jpg", "a sample of 960"):  # fmt: skip
        assert wanted in text, wanted


def test_the_papers_figures_stand_beside_ours_where_they_may(tmp_path):
    targets = ("ChestX", "ISIC", "EuroSAT", "CropDisease")
    report_inputs.results(targets, backbone=report_inputs.VIT_S16).write(tmp_path / "same.json")
    write_report([tmp_path / "same.json"], tmp_path / "r.html")
    text = " ".join(read(tmp_path / "r.html").text)
    assert "Against the paper" in text
    assert "74.57 ±0.27" in text
    assert "the data is a sample (420 of 27,000 images): not comparable" in text
    assert "StyleAdv" in text
    assert "→ CPLSR" in text
    report_inputs.results(("EuroSAT",)).write(tmp_path / "other.json")
    write_report([tmp_path / "other.json"], tmp_path / "o.html")
    text = " ".join(read(tmp_path / "o.html").text)
    assert "another backbone" in text
    assert "74.57" not in text


def test_the_base_set_decides_which_of_the_papers_tables(tmp_path):
    report_inputs.results(("EuroSAT",), backbone=report_inputs.VIT_S16).write(tmp_path / "all" / "r.json")
    run = report_inputs.write_run(tmp_path / "all" / "run") / "run.json"
    content = json.loads(run.read_text())
    content["data"]["base"]["name"] = "tiered-ImageNet"
    run.write_text(json.dumps(content))
    write_report([tmp_path / "all"], tmp_path / "r.html")
    text = " ".join(read(tmp_path / "r.html").text)
    assert "base set tiered-ImageNet" in text
    assert "74.56 ±0.27" in text


def test_a_hundred_classes_stay_small(tmp_path):
    classes = tuple(f"class number {n}" for n in range(100))
    report_inputs.results(("a",), classes=classes).write(tmp_path / "r.json")
    write_report([tmp_path / "r.json"], tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size < 500_000
    assert "the lowest 40 of 100" in " ".join(read(tmp_path / "r.html").text)


def test_a_browser_may_run_the_pages_own_script_and_fetch_nothing(everything, tmp_path):
    write_report([everything], tmp_path / "r.html")
    content = (tmp_path / "r.html").read_text(encoding="utf-8")
    policy = html.unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', content)[1])
    script = re.search(r"<script>(.*)</script>", content, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")


def test_what_few_read_is_folded_with_its_address_inside(everything, tmp_path):
    write_report([everything], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for key in ("classes", "calibration", "umap", "heads", "entropy", "attention", "cost", "settings"):
        assert re.search(rf'<details class="folded"><summary><h2>[^<]+</h2></summary><div id="{key}">', page)
    assert '<section id="accuracy">' in page
    assert '<section id="space">' in page
    assert page.index("All differences as a table") < page.index("The same as bars from 0 to 100")


def test_an_ablation_begins_with_what_its_rows_gained(tmp_path):
    folder = report_inputs.write_ablation(tmp_path / "ablation", shots=(1, 5))
    content = next(section.body for section in page_sections(gather([folder])) if section.key == "ablation")
    titles = re.findall(r"<figcaption>Rows minus frozen at ([^<]+)</figcaption>", content)
    assert titles == [
        f"{shot} shot, {over}" for over in ("mean of the targets", "landcover", "leaf") for shot in (1, 5)
    ]
    assert content.index("<figcaption>") < content.index("<table>")
    assert (
        content.index("5 shot, mean") < content.index("The same for each target") < content.index("1 shot, landcover")
    )
    assert "CP + PE + SST: +0.00 ± 0.21" in content, "one target gains what the other loses"


@pytest.mark.parametrize(
    ("validations", "caption"),
    [(1, "Validation: one point, no curve"), (2, "Validation: two points, the line between them is no trend"),
     (3, "Validation")],
)  # fmt: skip
def test_a_curve_of_two_points_says_so(everything, validations, caption):
    (_, training), *_ = gather([everything]).of(Training)
    measured = [entry for entry in training.metrics if entry.validation is not None]
    shortened = replace(training, metrics=tuple(measured * 3)[:validations])
    assert f"<figcaption>{caption}</figcaption>" in curves(shortened)
