"""TV caches: measured dependency on real responses (phase 1 of section 4.3). ``docs/tv-cache.md`` describes the columns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._errors import Error
from .commands import call
from .model import Model
from .progress import Progress

if TYPE_CHECKING:
    import pyarrow.dataset


class Cache:
    """A finished TV cache."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        manifest = self.folder / "manifest.json"
        if not manifest.exists():
            raise Error(f"{self.folder}: is not a TV cache: it has no manifest.json; a TV cache has to be generated first")
        self.manifest: dict[str, Any] = json.loads(manifest.read_text(encoding="utf-8"))
        """What it is of, and its files."""

    @property
    def files(self) -> list[Path]:
        """Its parquet files, in order."""
        return [self.folder / file["name"] for file in self.manifest["files"]]

    def __len__(self) -> int:
        return sum(int(file["examples"]) for file in self.manifest["files"])

    def dataset(self) -> pyarrow.dataset.Dataset:
        """The files as one pyarrow dataset (needs pyarrow)."""
        import pyarrow.dataset as ds

        return ds.dataset([str(file) for file in self.files], format="parquet")

    def rows(self) -> Iterator[dict[str, Any]]:
        """Row by row, matrices as numpy arrays (needs pyarrow)."""
        wide = self.manifest["header"]["settings"]["hidden_dtype"] if "header" in self.manifest else None
        settings = self.manifest.get("settings") or {}
        hidden = np.float32 if (wide or settings.get("hidden_dtype")) == "f32" else np.float16
        for batch in self.dataset().to_batches():
            for row in batch.to_pylist():
                size = len(row["positions"])
                row["dependency"] = matrix(row["dependency"], size, size)
                for key in ("hidden_i", "hidden_i_minus_1"):
                    if row.get(key) is not None:
                        row[key] = np.frombuffer(row[key], dtype=hidden).reshape(size, -1)
                yield row

    def __repr__(self) -> str:
        return f"Cache({self.folder}, {len(self)} examples)"


def matrix(data: bytes, rows: int, columns: int) -> NDArray[Any]:
    """Numbers of a row's matrix: half precision if there are two bytes for each, else single."""
    wide = len(data) == 4 * rows * columns
    return np.frombuffer(data, dtype=np.float32 if wide else np.float16).reshape(rows, columns)


def generate(
    model: Model,
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    limit: int | None = None,
    progress: Progress = None,
    **options: Any,
) -> Cache | None:
    """Makes a TV cache, as ``demask tv-cache generate`` does; an interrupted one continues.

    ``data`` are conversations (a ``.jsonl`` or ``.parquet`` file, a folder, a Hub dataset) or ``task:NAME``; ``options`` are the
    command's flags (``masks_per_response``, ``hidden``, ``shard="0/4"``, …). ``None`` comes back while shares of others are
    missing.
    """
    named = {"data": data, "out": out, "limit": limit}
    result, _ = call(["tv-cache", "generate"], {**named, **options}, model=model, progress=progress)
    done = result.get("files") is not None and result["files"] == result["all_files"]
    return Cache(out) if done else None


def open(folder: str | os.PathLike[str]) -> Cache:  # noqa: A001
    """Opens a finished cache."""
    return Cache(folder)


__all__ = ["Cache", "generate", "open"]
