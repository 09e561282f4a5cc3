"""Results on object storage: an S3 endpoint on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
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


@pytest.mark.skipif(not os.environ.get("DEMASK_STORE"), reason="DEMASK_STORE names no program with the feature object-store")
def test_the_program_itself_stores_to_s3(endpoint: dict[str, str], model: demask.Model, tmp_path: Path) -> None:
    """Two shares make one cache; another run's bucket is refused; a finished one is left alone."""
    flags = ["--data=task:arith", "--limit=8", "--responses-per-file=2", f"--out=s3://{BUCKET}/program"]
    program = [os.environ["DEMASK_STORE"], "tv-cache", "generate", *flags]

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "AWS_ALLOW_HTTP": "true"}
        return subprocess.run([*program, *args], capture_output=True, text=True, timeout=600, env=env)

    half = run("--shard=1/2")
    assert half.returncode == 0 and "2 of 4 files" in half.stdout, half.stderr
    other = run("--seed=9")
    assert other.returncode != 0 and "another model, data or settings" in other.stderr
    rest = run("--shard=0/2")
    assert rest.returncode == 0, rest.stderr
    again = run()
    assert again.returncode == 0 and again.stdout == rest.stdout, again.stderr
    demask.tv_cache.generate(model, "task:arith", tmp_path / "one", limit=8, responses_per_file=2)
    files = s3fs.S3FileSystem()
    found = {path.rsplit("/", 1)[-1]: files.cat(path) for path in files.ls(f"{BUCKET}/program")}
    assert found == {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
