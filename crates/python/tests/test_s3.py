"""Results on object storage: an S3 endpoint on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import demask

pytest.importorskip("ray")
pytest.importorskip("moto")
s3fs = pytest.importorskip("s3fs")

BUCKET = "demask-test"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[dict[str, str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    env = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
    }
    os.environ.update(env)
    end = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.2)
    s3fs.S3FileSystem().mkdir(BUCKET)
    try:
        yield env
    finally:
        server.kill()
        server.wait()


def test_the_first_writer_of_a_name_wins(endpoint: dict[str, str], tmp_path: Path) -> None:
    from demask.ray import Storage

    for url in (f"s3://{BUCKET}/race", str(tmp_path / "race")):
        storage = Storage.at(url)
        for text, first in (("one", True), ("two", False)):
            (tmp_path / text).write_text(text)
            assert storage.commit(tmp_path / text, "parts/piece") is first, url
        storage.fetch("parts/piece", tmp_path / "back")
        assert (tmp_path / "back").read_text() == "one"
        assert storage.names("parts") == {"piece"} and storage.names() == {"parts"}
        storage.remove("parts")
        assert storage.names("parts") == set()


def test_a_cache_and_an_evaluation_on_s3(endpoint: dict[str, str], model: demask.Model, tmp_path: Path) -> None:
    url = f"s3://{BUCKET}"
    demask.tv_cache.generate(model, "task:arith", tmp_path / "cache", limit=8, responses_per_file=2)
    demask.evaluate(model, ["entropy"], tasks=["arith"], limit=6, out=tmp_path / "eval")
    for args in (
        ["tv-cache", f"--out={url}/cache", "--data=task:arith", "--limit=8", "--responses-per-file=2"],
        ["eval", f"--out={url}/eval", "--pieces=3", "-s", "entropy", "--tasks=arith", "--limit=6"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "demask.ray", *args], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
    files = s3fs.S3FileSystem()
    for folder in ("cache", "eval"):
        names = {path.rsplit("/", 1)[-1] for path in files.ls(f"{BUCKET}/{folder}")}
        assert names == {path.name for path in (tmp_path / folder).iterdir()}
    for path in (tmp_path / "cache").iterdir():
        assert files.cat(f"{BUCKET}/cache/{path.name}") == path.read_bytes(), path.name


with_store = pytest.mark.skipif(
    not os.environ.get("DEMASK_STORE"), reason="DEMASK_STORE names no program with the feature object-store"
)
FLAGS = ["--data=task:arith", "--limit=8", "--responses-per-file=2"]


def program(out: str, *args: str, endpoint: str | None = None) -> subprocess.CompletedProcess[str]:
    """The program itself makes a cache, through another endpoint if there is one."""
    env = {**os.environ, "AWS_ALLOW_HTTP": "true"}
    if endpoint:
        env["AWS_ENDPOINT_URL"] = endpoint
    call = [os.environ["DEMASK_STORE"], "tv-cache", "generate", *FLAGS, f"--out={out}", *args]
    return subprocess.run(call, capture_output=True, text=True, timeout=600, env=env)


def contents(folder: str) -> dict[str, bytes]:
    files = s3fs.S3FileSystem(use_listings_cache=False)
    return {path.rsplit("/", 1)[-1]: files.cat(path) for path in files.ls(f"{BUCKET}/{folder}")}


@pytest.fixture(scope="module")
def one(model: demask.Model, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The same cache as one process writes it into a folder."""
    folder = tmp_path_factory.mktemp("cache") / "one"
    demask.tv_cache.generate(model, "task:arith", folder, limit=8, responses_per_file=2)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@with_store
def test_the_program_itself_stores_to_s3(endpoint: dict[str, str], one: dict[str, bytes]) -> None:
    """Two shares make one cache; another run's bucket is refused; a finished one is left alone."""
    url = f"s3://{BUCKET}/program"
    half = program(url, "--shard=1/2")
    assert half.returncode == 0 and "2 of 4 files" in half.stdout, half.stderr
    other = program(url, "--seed=9")
    assert other.returncode != 0 and "another model, data or settings" in other.stderr
    rest = program(url, "--shard=0/2")
    assert rest.returncode == 0, rest.stderr
    again = program(url)
    assert again.returncode == 0 and again.stdout == rest.stdout, again.stderr
    assert contents("program") == one


class Relay(ThreadingHTTPServer):
    """Between a program and the endpoint: its first write waits until another program is done."""

    def __init__(self, upstream: str, first: Callable[[], object]) -> None:
        super().__init__(("127.0.0.1", 0), Hand)
        self.upstream, self.first, self.waits = upstream, first, threading.Lock()
        self.held = False
        self.writes: list[tuple[str, int]] = []


class Hand(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Relay

    def pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.waits:
            if self.command == "PUT" and not self.server.held:
                self.server.held = True
                self.server.first()
        upstream = HTTPConnection(self.server.upstream, timeout=60)
        upstream.request(self.command, self.path, body, dict(self.headers))
        answer = upstream.getresponse()
        data = answer.read()
        if self.command == "PUT":
            self.server.writes.append((self.path.rsplit("/", 1)[-1], answer.status))
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = pass_on


@with_store
def test_a_second_writer_of_the_same_files_does_no_harm(endpoint: dict[str, str], one: dict[str, bytes]) -> None:
    """A program that is about to store its first file is overtaken: meanwhile another one makes the whole cache."""
    url, twin = f"s3://{BUCKET}/twins", []
    relay = Relay(endpoint["AWS_ENDPOINT_URL"].removeprefix("http://"), lambda: twin.append(program(url)))
    threading.Thread(target=relay.serve_forever, daemon=True).start()
    try:
        late = program(url, endpoint=f"http://127.0.0.1:{relay.server_port}")
    finally:
        relay.shutdown()
        relay.server_close()
    assert twin[0].returncode == 0, twin[0].stderr
    assert late.returncode == 0 and late.stdout == twin[0].stdout, late.stderr
    refused = [name for name, status in relay.writes if status == 412]
    assert refused == [f"tv-{file:05}.parquet" for file in range(4)], relay.writes
    assert all(f"{name} was already there" in late.stderr for name in refused), late.stderr
    assert contents("twins") == one
