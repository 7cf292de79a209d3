"""What is written to disk is whole, whatever ends the process, and locks hold only who should be held."""

import contextlib
import errno
import fcntl
import json
import os
import resource
import subprocess
import sys
import threading

import pytest

from crossprop._support import files, locks

# A process that does not import JAX forks once for every line of the module: each child is killed before that line.
KILLED_AT_EVERY_LINE = """
import importlib.util, json, os, signal, sys
from pathlib import Path

spec = importlib.util.spec_from_file_location("files", sys.argv[1])
files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(files)
path = Path(sys.argv[2]) / "records"


def write(content):
    with files.atomic_write(path) as scratch, scratch.open("w") as file:
        for part in (content, content):
            file.write(part)
            file.flush()


def killed_before(line):
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if frame.f_code.co_filename != sys.argv[1]:
            return None
        count += event == "line"
        if count > line:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


told = []
while True:
    write("old")
    child = os.fork()
    if not child:
        killed_before(len(told))
        write("new")
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    told.append(path.read_text())
    if not killed:
        break
print(json.dumps(told))
"""


def test_a_file_is_old_or_new_wherever_its_writer_is_killed(tmp_path):
    command = [sys.executable, "-c", KILLED_AT_EVERY_LINE, files.__file__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told[0] == "oldold" and told[-1] == "newnew" and len(told) > 10
    assert {*told} == {"oldold", "newnew"}


def test_readers_never_make_a_starting_writer_fail(tmp_path):
    path, stop, asked = tmp_path / "lock", threading.Event(), threading.Event()

    def read():
        while not stop.is_set():
            locks.lock_holder(path)
            asked.set()

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(50):
            asked.clear()
            path.write_text("process 1 on a machine that lost its power")
            assert asked.wait(10)
            with locks.locked(path):
                pass
    finally:
        stop.set()
        for reader in readers:
            reader.join()


def test_a_writer_waits_for_a_reader_and_refuses_another_writer(tmp_path):
    path = tmp_path / "lock"
    assert locks.lock_holder(path) is None
    with path.open("w") as held:
        assert locks.try_lock(held, shared=True)
        threading.Timer(0.1, locks.unlock, [held]).start()
        with locks.locked(path):
            assert (locks.lock_holder(path) or "").startswith("process ")
            with pytest.raises(BlockingIOError, match="is being written to by process"), locks.locked(path):
                pass
    assert locks.lock_holder(path) is None


def test_a_lock_that_is_a_symbolic_link_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "lock").symlink_to(tmp_path / "mine")
    for use in (locks.locked, lambda path: contextlib.nullcontext(locks.lock_holder(path))):
        with (
            pytest.raises(ValueError, match="lock must be a file of its own, got a symbolic link"),
            use(tmp_path / "lock"),
        ):
            pass
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.fixture(params=[errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def no_flock(request, monkeypatch):
    """A file system that cannot lock files, as Lustre and NFS can be mounted."""

    def flock(*_):
        raise OSError(request.param, "no locks here")

    monkeypatch.setattr(fcntl, "flock", flock)


def test_a_file_system_without_locks_is_written_to_with_a_warning(tmp_path, no_flock):
    path = tmp_path / "lock"
    with pytest.warns(UserWarning, match=f"{tmp_path} is on a file system without locks"), locks.locked(path):
        assert locks.lock_holder(path) is None
    assert path.read_text() == ""


def test_a_file_system_that_cannot_wait_for_the_disk_is_written_to_and_other_errors_name_the_file(
    tmp_path, monkeypatch
):
    def refuse(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    for number in (errno.EINVAL, errno.ENOSYS):
        files.write_json(tmp_path / "store.json", {"a": number})
        assert files.read_json(tmp_path / "store.json") == {"a": number}
    number = errno.EIO
    with pytest.raises(OSError, match=r"store\.json"):
        files.write_json(tmp_path / "store.json", {"a": 1})


def test_a_check_that_a_folder_can_be_written_to_creates_nothing(tmp_path):
    files.check_writable("out", tmp_path / "deep" / "out")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="out must be a folder that can be written to"):
        files.check_writable("out", tmp_path / "file" / "out")


def test_a_disk_that_is_full_is_found_before_work(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # files can be made, and nothing can be written to them
    try:
        with pytest.raises(
            ValueError, match=f"out must be a folder that can be written to, .*{tmp_path}: File too large"
        ):
            files.check_writable("out", tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_named_and_not_its_scratch(tmp_path):
    with pytest.raises(PermissionError) as caught, files.atomic_write(tmp_path / "mine.cp") as scratch:
        raise PermissionError(errno.EACCES, "Permission denied", str(scratch))  # as open does
    assert caught.value.filename == str(tmp_path / "mine.cp") and caught.value.errno == errno.EACCES


def test_keys_that_are_numbers_are_read_as_texts(tmp_path):
    files.write_json(tmp_path / "card.json", {"seeds": {3: 0.5, 22: 0.25}})
    assert files.read_json(tmp_path / "card.json") == {"seeds": {"3": 0.5, "22": 0.25}}


def test_every_byte_of_a_json_file_with_a_checksum_counts(tmp_path):
    path = tmp_path / "store.json"
    files.write_json(path, contents := {"schema": 2, "learners": {"größer": [1, 0.5]}})
    whole = path.read_bytes()
    assert files.read_json(path) == contents
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=f"{path} is damaged"):
            files.read_json(path)
    for content in (b"", b"{", b"[]", b'{"schema":1}', b"\xff\xfe", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{path} is damaged, or crossprop did not write it"):
            files.read_json(path)


def test_a_file_that_is_put_aside_never_replaces_another(tmp_path):
    for content in ("one", "two", "three"):
        (tmp_path / "x.nc").write_text(content)
        files.put_aside(tmp_path / "x.nc", tmp_path / "damaged")
    assert {each.name: each.read_text() for each in (tmp_path / "damaged").iterdir()} == {
        "x.nc": "one",
        "x.nc.1": "two",
        "x.nc.2": "three",
    }
