"""Where models come from: a Hub on loopback, a GGUF file that llama.cpp's own package wrote, a folder; and devices."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import demask
from conftest import QUESTION

TOY = Path(__file__).parents[3] / "tests" / "fixtures" / "dream-toy"
COMMIT = "c0ffee01"
WORDS = "eva has 3 shells"


class Hub(BaseHTTPRequestHandler):
    """The Hub's paths for one repository: its listing, and its files with ranges."""

    protocol_version = "HTTP/1.1"
    slow = 0.0
    asked: list[str] = []

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        name = self.path.rsplit("/", 1)[-1]
        if self.path.startswith("/api/models/org/toy/revision/"):
            files = [{"rfilename": path.name} for path in TOY.iterdir() if not path.name.startswith("expected")]
            self.reply(200, json.dumps({"sha": COMMIT, "siblings": files}).encode())
        elif self.path.startswith("/org/toy/resolve/") and (TOY / name).is_file():
            self.send_file(TOY / name)
        else:
            self.reply(404 if self.path.startswith("/org/toy") else 401, b"")

    def send_file(self, path: Path) -> None:
        data = path.read_bytes()
        headers = {"x-repo-commit": COMMIT, "etag": f'"{hashlib.sha256(data).hexdigest()}"', "accept-ranges": "bytes"}
        wanted = self.headers.get("range")
        if wanted is None:
            self.reply(200, data, **headers)
            return
        first, last = wanted.removeprefix("bytes=").split("-")
        end = min(int(last) + 1, len(data)) if last else len(data)
        part = data[int(first) : end]
        self.reply(206, part, **headers, **{"content-range": f"bytes {first}-{end - 1}/{len(data)}"})

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for key, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        pieces = [body[at : at + 4096] for at in range(0, len(body), 4096)]
        for piece in pieces:
            try:
                self.wfile.write(piece)
            except OSError:
                return
            if len(pieces) > 1:
                time.sleep(self.slow)


@pytest.fixture()
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    handler = type("Own", (Hub,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    try:
        yield handler
    finally:
        server.shutdown()
        server.server_close()


def answer(model: demask.Model) -> list[int]:
    return model.generate(model.encode(WORDS, raw=True), strategy="entropy:k=2", max_new_tokens=12).response_ids


def test_a_name_of_the_hub_is_downloaded_once(hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int, str, str]] = []
    hub.slow = 0.01
    model = demask.Model.load("org/toy", progress=lambda *p: told.append(p))
    assert model.name == "org/toy" and answer(model) == answer(demask.Model.load(TOY))
    assert told and all(unit == "bytes" and done <= total for done, total, unit, _ in told)
    assert "model.safetensors" in {message for *_, message in told}, "the large one is seen"
    assert not any("expected" in line for line in hub.asked)
    hub.asked.clear()
    assert answer(demask.Model.load("org/toy@main")) == answer(model)
    assert hub.asked == ["GET /api/models/org/toy/revision/main"], "only the commit is asked for"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert answer(demask.Model.load("org/toy", dtype="f32")) == answer(model)


def test_a_name_that_is_not_there_is_told_in_one_sentence(hub: type[Hub]) -> None:
    with pytest.raises(demask.Error, match="org/other: .*HF_TOKEN") as caught:
        demask.Model.load("org/other")
    assert "\n" not in str(caught.value)


def test_ctrl_c_stops_a_download_and_the_next_call_continues_it(hub: type[Hub]) -> None:
    size = (TOY / "model.safetensors").stat().st_size
    hub.slow = 600 / (size / 4096)  # Ten minutes for the weights.

    def interrupt() -> None:
        while not any("GET" in line and "model.safetensors" in line for line in hub.asked):
            time.sleep(0.01)
        time.sleep(0.3)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        demask.Model.load("org/toy")
    thread.join()
    assert time.monotonic() - began < 60
    hub.slow = 0.0
    assert answer(demask.Model.load("org/toy")) == answer(demask.Model.load(TOY))


def test_what_stands_in_for_demask_is_said_once(recwarn: pytest.WarningsRecorder) -> None:
    model = demask.Model.load(TOY)
    assert model.predictor is None and not model.has_predictor
    model.generate(WORDS, "entropy", raw=True, max_new_tokens=4)
    assert not recwarn.list, "the strategy was chosen"
    for _ in range(2):
        output = model.generate(WORDS, raw=True, max_new_tokens=4)
        assert output.strategy == model.strategy
    (warning,) = recwarn.list
    assert f": {model.strategy} decodes instead of DEMASK; for DEMASK, load it with predictor=" in str(warning.message)
    assert warning.filename == __file__
    named = demask.Model.load(TOY, predictor=TOY / "predictor_row_i.safetensors")
    assert named.predictor is not None and "reads hidden row i after the final norm" in named.predictor
    assert named.generate(WORDS, raw=True, max_new_tokens=4).strategy == "demask"
    assert len(recwarn.list) == 1


def safetensors(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a file, which are all f32 here."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    tensors = {}
    for name, about in header.items():
        if name != "__metadata__":
            assert about["dtype"] == "F32", name
            first, last = about["data_offsets"]
            tensors[name] = np.frombuffer(data[start + first : start + last], np.float32).reshape(about["shape"])
    return tensors


def write_gguf(folder: Path, to: Path) -> None:
    """A checkpoint of Dream as llama.cpp's converter writes it, in single precision."""
    import gguf

    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(str(to), "dream")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_tokenizer_model("none")
    writer.add_mask_token_id(config["mask_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.DREAM, config["num_hidden_layers"])
    for name, tensor in safetensors(folder / "model.safetensors").items():
        found = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert found is not None, name
        writer.add_tensor(found, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_is_the_checkpoint_it_was_made_of(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    file = tmp_path / "toy.gguf"
    write_gguf(TOY, file)
    # The toy splits words at spaces, which no GGUF tokenizer says: its own lies beside the file.
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(TOY / name, tmp_path / name)
    model, folder = demask.Model.load(file), demask.Model.load(TOY)
    assert (model.architecture, model.vocab, model.mask_id) == (folder.architecture, folder.vocab, folder.mask_id)
    ids = [*folder.encode(WORDS, raw=True), *[folder.mask_id] * 6]
    for ours, theirs in zip(model.forward(ids), folder.forward(ids)):
        assert (ours == theirs).all(), "bit for bit"
    assert answer(model) == answer(folder)
    assert answer(demask.Model.load(str(file), dtype="int8")) is not None
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(demask.Error, match="toy.gguf"):
        demask.Model.load(file)


def test_devices(model: demask.Model) -> None:
    reference = demask.Model.embedded(device="candle")
    assert reference.generate(QUESTION, max_new_tokens=16).text == model.generate(QUESTION, max_new_tokens=16).text
    several: Any = demask.Model.load(TOY, device="candle,candle")
    assert answer(several) == answer(demask.Model.load(TOY, device="cpu"))
    with pytest.raises(demask.UsageError, match="is no device"):
        demask.Model.load(TOY, device="abacus")
    with pytest.raises(demask.Error, match="CUDA"):
        demask.Model.load(TOY, device="cuda:99")
