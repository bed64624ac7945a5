"""Which backbone and adapter: without a network, with a hub that is silent, and with local files."""

import http.server
import socket
import threading
import warnings

import pytest
import torch

from cplsr.adapters.attach import attach, detach
from cplsr.adapters.store import save_adapter
from cplsr.backbones.load import DEFAULT_BACKBONE, load_backbone
from cplsr.classifier import backbone_choice
from cplsr.classifier.backbone_choice import (
    adapter_kind,
    default_source,
    load_default,
    prepared_backbone,
    without_adapter,
)
from cplsr.errors import InputError


@pytest.fixture(autouse=True)
def _empty_hub_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def online(monkeypatch):
    """Downloads allowed, from the address given."""

    def allow(endpoint):
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/{filename}")
        monkeypatch.setattr("huggingface_hub.file_download.HUGGINGFACE_CO_URL_TEMPLATE", endpoint, raising=False)

    return allow


def test_offline_there_is_no_attempt(monkeypatch):
    monkeypatch.setattr(backbone_choice, "_hub_answers", None)  # calling it would be an error

    with pytest.warns(UserWarning, match=r"embedded backbone is used.*switched off"):
        assert default_source() == "embedded"


def test_a_refused_connection_ends_with_the_embedded_one(online):
    online("http://127.0.0.1:9")

    with pytest.warns(UserWarning, match="hub cannot be reached"):
        assert default_source() == "embedded"


def test_a_silent_hub_is_given_up_after_one_attempt(online, monkeypatch):
    listener = socket.create_server(("127.0.0.1", 0))
    online(f"http://127.0.0.1:{listener.getsockname()[1]}")
    monkeypatch.setattr(backbone_choice, "PROBE_SECONDS", 0.2)

    with listener, pytest.warns(UserWarning, match="hub cannot be reached"):
        assert default_source() == "embedded"


def test_a_hub_that_answers_is_used(online):
    asked = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("ETag", '"1"')
            self.send_header("X-Repo-Commit", "0" * 40)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    online(f"http://127.0.0.1:{server.server_port}")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert default_source() == DEFAULT_BACKBONE
    server.shutdown()
    server.server_close()

    assert len(asked) == 1
    assert DEFAULT_BACKBONE in asked[0]


def test_what_is_in_the_local_cache_is_used_without_asking(tmp_path, monkeypatch):
    snapshot = tmp_path / "hub" / f"models--{DEFAULT_BACKBONE.replace('/', '--')}" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("abc")
    (snapshot / "config.json").write_text("{}")
    monkeypatch.setattr(backbone_choice, "_hub_answers", lambda _: False)
    with pytest.warns(UserWarning, match="embedded"):  # a config alone is no model
        assert default_source() == "embedded"
    (snapshot / "pytorch_model.bin").touch()
    monkeypatch.setattr(backbone_choice, "_hub_answers", None)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert default_source() == DEFAULT_BACKBONE


def test_a_download_that_breaks_off_ends_with_the_embedded_one(monkeypatch):
    monkeypatch.setattr(backbone_choice, "default_source", lambda: DEFAULT_BACKBONE)
    asked = []

    def load(source):
        asked.append(source)
        if source == DEFAULT_BACKBONE:
            raise InputError("the line went dead")
        return load_backbone(source)

    with pytest.warns(UserWarning, match="could not be downloaded"):
        assert load_default(load).source == "embedded"
    assert asked == [DEFAULT_BACKBONE, "embedded"]


def test_a_loaded_backbone_is_left_as_it_is(backbone, adapter_folder):
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    frozen = backbone(images)

    adapted = prepared_backbone(backbone, adapter_folder)

    assert backbone.adapter is None
    assert adapter_kind(adapted) == "coalescent"
    assert not torch.equal(adapted(images), frozen)
    assert torch.equal(backbone(images), frozen)
    weight = backbone.model.get_parameter("embeddings.cls_token")
    assert adapted.model.get_parameter("embeddings.cls_token").data_ptr() == weight.data_ptr()
    assert torch.equal(without_adapter(adapted)(images), frozen)
    assert adapted.adapter is not None


def test_a_whole_trained_backbone_shares_nothing_with_the_frozen_one(backbone, tmp_path):
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    frozen = backbone(images)
    attach(backbone, "full")
    for parameter in backbone.adapter.parameters():
        parameter.data += 0.1 * torch.rand_like(parameter)
    trained = backbone(images)
    save_adapter(backbone, tmp_path / "full")
    assert torch.equal(without_adapter(backbone)(images), frozen)
    assert torch.equal(backbone(images), trained)
    detach(backbone)
    assert torch.equal(backbone(images), frozen)
    assert torch.equal(prepared_backbone(backbone, tmp_path / "full")(images), trained)
    assert torch.equal(backbone(images), frozen)


def test_frozen_takes_the_adapter_off_and_none_keeps_it(backbone):
    attach(backbone, "coalescent", init="near_identity")

    assert adapter_kind(prepared_backbone(backbone)) == "coalescent"
    assert adapter_kind(prepared_backbone(backbone, "frozen")) is None
    assert adapter_kind(backbone) == "coalescent"


def test_the_adapter_decides_the_image_size(tmp_path, checkpoint_file):
    backbone = load_backbone(checkpoint_file, 48)
    attach(backbone, "coalescent")
    save_adapter(backbone, tmp_path / "at48")

    assert prepared_backbone(checkpoint_file, tmp_path / "at48").image_size == 48
    with pytest.raises(InputError, match="image_size=40"):
        prepared_backbone(backbone, image_size=40)


def test_the_packaged_adapter_goes_with_the_embedded_backbone_only(tmp_path, monkeypatch, checkpoint_file):
    backbone = load_backbone("embedded")
    attach(backbone, "coalescent")
    save_adapter(backbone, tmp_path / "packaged")
    monkeypatch.setattr(backbone_choice, "PACKAGED_ADAPTER", tmp_path / "packaged")

    assert adapter_kind(prepared_backbone("embedded")) == "coalescent"
    assert adapter_kind(prepared_backbone("embedded", "frozen")) is None
    assert adapter_kind(prepared_backbone("embedded", image_size=96)) is None  # trained for another size
    assert adapter_kind(prepared_backbone(checkpoint_file)) is None
    monkeypatch.setattr(backbone_choice, "PACKAGED_ADAPTER", tmp_path / "absent")
    assert adapter_kind(prepared_backbone("embedded")) is None
