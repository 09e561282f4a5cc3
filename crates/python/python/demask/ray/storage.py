"""Where results lie: a folder that all nodes see, or any filesystem that fsspec knows (``s3://bucket/run``).

Every file is committed whole and only if it is not there yet, so that a piece that runs twice (its node was silent, not
dead) cannot harm what its twin wrote: on a folder by a hard link, on object stores by a conditional write.
"""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from typing import Any


class Storage:
    """Files under one place. Names are relative, with slashes."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    @staticmethod
    def at(url: str | os.PathLike[str]) -> Storage:
        """The storage of a path or a URL."""
        text = os.fspath(url)
        return Remote(text) if "://" in text and not text.startswith("file://") else Folder(text.removeprefix("file://"))

    def names(self, folder: str = "") -> set[str]:
        """Names of the files in a folder; hidden ones are somebody's unfinished work."""
        raise NotImplementedError

    def commit(self, file: Path, name: str) -> bool:
        """Stores a file under a name, unless there is one: then it stays, and the answer is ``False``."""
        raise NotImplementedError

    def replace(self, file: Path, name: str) -> None:
        """Stores a file under a name, whatever was there."""
        raise NotImplementedError

    def fetch(self, name: str, file: Path) -> None:
        """Brings a file here."""
        raise NotImplementedError

    def fetch_end(self, name: str, file: Path) -> None:
        """Brings the end of a parquet file here: its footer, in a file of the right length whose beginning is a hole."""
        raise NotImplementedError

    def remove(self, folder: str) -> None:
        """Removes a folder with everything in it."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        return Storage.at, (self.url,)


class Folder(Storage):
    """A folder on a file system that all nodes share."""

    def __init__(self, path: str) -> None:
        super().__init__(str(Path(path).absolute()))
        self.root = Path(self.url)

    def names(self, folder: str = "") -> set[str]:
        place = self.root / folder
        return {entry.name for entry in place.iterdir() if not entry.name.startswith(".")} if place.is_dir() else set()

    def _beside(self, file: Path, name: str) -> tuple[Path, Path]:
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        own = target.with_name(f".{uuid.uuid4().hex}-{target.name}.partial")
        with file.open("rb") as source, own.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
            copy.flush()
            os.fsync(copy.fileno())
        return own, target

    def commit(self, file: Path, name: str) -> bool:
        own, target = self._beside(file, name)
        try:
            os.link(own, target)
        except FileExistsError:
            return False
        finally:
            own.unlink(missing_ok=True)
        return True

    def replace(self, file: Path, name: str) -> None:
        own, target = self._beside(file, name)
        own.replace(target)

    def fetch(self, name: str, file: Path) -> None:
        shutil.copyfile(self.root / name, file)

    def fetch_end(self, name: str, file: Path) -> None:
        path = self.root / name
        with path.open("rb") as source:
            size = path.stat().st_size
            write_end(file, size, lambda start, length: read_at(source, start, length))

    def remove(self, folder: str) -> None:
        shutil.rmtree(self.root / folder, ignore_errors=True)


class Remote(Storage):
    """Anything that fsspec opens."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        import fsspec

        self.files, self.root = fsspec.core.url_to_fs(self.url)

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def names(self, folder: str = "") -> set[str]:
        place = self._path(folder) if folder else self.root
        self.files.invalidate_cache()
        try:
            entries = self.files.ls(place, detail=False)
        except FileNotFoundError:
            return set()
        names = {entry.rstrip("/").rsplit("/", 1)[-1] for entry in entries}
        return {name for name in names if not name.startswith(".")}

    def commit(self, file: Path, name: str) -> bool:
        try:
            self.files.put_file(str(file), self._path(name), mode="create")
        except (FileExistsError, OSError) as error:
            if isinstance(error, FileExistsError) or "PreconditionFailed" in repr(error) or "412" in repr(error):
                return False
            raise
        return True

    def replace(self, file: Path, name: str) -> None:
        self.files.put_file(str(file), self._path(name))

    def fetch(self, name: str, file: Path) -> None:
        self.files.get_file(self._path(name), str(file))

    def fetch_end(self, name: str, file: Path) -> None:
        path = self._path(name)
        size = int(self.files.size(path))
        write_end(file, size, lambda start, length: self.files.cat_file(path, start=start, end=start + length))

    def remove(self, folder: str) -> None:
        self.files.invalidate_cache()
        if self.files.exists(self._path(folder)):
            self.files.rm(self._path(folder), recursive=True)


def read_at(source: Any, start: int, length: int) -> bytes:
    """Bytes of an open file."""
    source.seek(start)
    data: bytes = source.read(length)
    return data


def write_end(file: Path, size: int, read: Any) -> None:
    """A file of this size that holds the footer of a parquet file and nothing before it."""
    tail = read(size - 8, 8)
    length = int.from_bytes(tail[:4], "little") + 8
    footer = read(size - length, length)
    with file.open("wb") as out:
        out.write(read(0, 4))
        out.seek(size - length)
        out.write(footer)
