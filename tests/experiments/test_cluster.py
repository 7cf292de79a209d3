"""A sweep on a cluster: the same numbers, whatever becomes of its workers, which use no more than they were given."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import dask
import jax
import numpy as np
import pytest
from distributed import Client, LocalCluster

import crossprop as cp
import crossprop.cli
from crossprop.engines.protocol import RunOptions
from crossprop.experiments import SweepSpec
from crossprop.experiments.cluster import Workers
from same import assert_same_sweeps
from slow import Slow, most_at_a_time, told
from waiting import until

NET = cp.Network(inputs=6, hidden=8)
LEARNERS = {"backprop": cp.Backprop(NET, 0.01)}
NOWHERE = "tcp://127.0.0.1:9"
BLOCKS = sys.modules["crossprop.experiments.blocks"]
CLUSTER = sys.modules["crossprop.experiments.cluster"]

# Compiled as the workers compile, for the numbers are to be the same bits.
pytestmark = pytest.mark.usefixtures("unoptimized")


def sweep(cluster, stream, settings=4, seeds=2, **options):
    grid = {"step_size": np.linspace(0.01, 0.1, settings)}
    return cp.sweep(LEARNERS, stream, over=grid, seeds=seeds, record_every=20, cluster=cluster, **options)


def blocks(stream, settings, seeds):
    grid = {"step_size": np.linspace(0.01, 0.1, settings)}
    spec = SweepSpec.of(LEARNERS, stream, grid, seeds, record_every=20)
    return BLOCKS.missing(BLOCKS.build_blocks(spec, "auto"), [], spec.options)


def words(stream):
    return Path(stream.log).read_text().split() if Path(stream.log).exists() else []


def is_quiet(stream):
    """No life begins or ends for as long as many take."""
    before = words(stream)
    time.sleep(20 * stream.seconds)
    return words(stream) == before


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """A scheduler and two workers, of one and of two threads, which have no folder in common with the caller."""
    folder = tmp_path_factory.mktemp("cluster")
    where = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(folder / "scheduler.json")]

    def start(*words, first=""):
        path = [first, str(Path(__file__).parents[1] / "support"), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
        environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
        command = [sys.executable, "-m", "dask", *words, *where]
        with (folder / f"{words[0]}.log").open("a") as log:
            return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)

    with contextlib.ExitStack() as stack:

        def started(*words, **options):
            process = start(*words, **options)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        started("scheduler", "--port", "0")
        workers = [started("worker", "--no-nanny", "--nthreads", str(threads)) for threads in (1, 2)]
        until((folder / "scheduler.json").exists)
        client = stack.enter_context(Client(scheduler_file=str(folder / "scheduler.json"), set_as_default=False))
        client.wait_for_workers(2, timeout=60)
        yield SimpleNamespace(client=client, address=client.scheduler.address, workers=workers, start=started)


@pytest.fixture
def stream(tmp_path):
    return Slow(str(tmp_path / "log"))


# What it gives.


def test_records_are_those_of_a_local_sweep_and_workers_keep_to_their_threads(machines, stream, tmp_path):
    records = sweep(machines.address, stream, settings=8, seeds=4, store=tmp_path / "store")
    for worker, threads in zip(machines.workers, (1, 2), strict=True):
        assert most_at_a_time(told(stream.log, worker.pid)) == threads
    assert not told(stream.log, os.getpid())
    assert_same_sweeps(records, sweep(None, stream, settings=8, seeds=4))
    assert_same_sweeps(records, cp.open_sweep(tmp_path / "store"))


@pytest.mark.usefixtures("x64")
def test_float64_and_data_go_to_the_workers_and_a_client_that_is_given_stays_open(machines):
    numbers = np.random.default_rng(0).normal(size=(2000, 7))
    stream = cp.Arrays(numbers[:, 1:], numbers[:, 0])
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "50 kB"}):
        records = sweep(machines.client, stream, settings=1)
    assert records["backprop"].loss.dtype == np.float64 and machines.client.status == "running"
    assert_same_sweeps(records, sweep(None, stream, settings=1))


def test_few_blocks_are_under_way_at_a_time(machines, stream, monkeypatch):
    monkeypatch.setattr(CLUSTER, "FEWEST", 1)
    monkeypatch.setattr(CLUSTER, "PER_THREAD", 2)
    heard, given = [], blocks(stream, 12, 2)
    workers = Workers(machines.client, {jax.tree.structure(each.learner): 1 for each in given})
    for _ in CLUSTER.run_blocks_on_cluster(workers, given, RunOptions(20), "auto", heard.append):
        assert len([key for key in machines.client.futures if key.startswith("_run_there")]) <= 2 * 3 + 1
    assert heard == [2 * 40] * 12


def test_an_interrupt_stops_what_the_workers_do(machines, stream, monkeypatch):
    monkeypatch.setattr(BLOCKS, "MOST_SEEDS", 400)

    def interrupt():
        until(lambda: "begin" in words(stream))
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        sweep(machines.address, stream, settings=1, seeds=400)
    begun = words(stream).count("begin")
    interrupter.join()
    until(lambda: not any(machines.client.processing().values()) and is_quiet(stream))
    assert words(stream).count("begin") == words(stream).count("end") < begun + 200


def test_blocks_of_one_structure_go_together_where_a_device_takes_many_runs(stream):
    other = [block._replace(learner=cp.Frozen(NET, 0.1)) for block in blocks(stream, 2, 4)]
    all_blocks = [*blocks(stream, 5, 4), *other]
    for width, workers, groups in (
        (1, 1, [[0], [1], [2], [3], [4], [5], [6]]),
        (10, 1, [[0, 1, 2], [3, 4], [5, 6]]),
        (4096, 1, [[0, 1, 2, 3, 4], [5, 6]]),
        (4096, 4, [[0, 1], [2, 3], [4], [5, 6]]),
    ):
        widths = {jax.tree.structure(block.learner): width for block in all_blocks}
        assert CLUSTER._groups(all_blocks, widths, workers) == groups


# What is refused, before anything is written.


@pytest.mark.parametrize("address", [NOWHERE, "nowhere", "mail://127.0.0.1:9", "tcp://127.0.0.1:none"])
def test_a_scheduler_that_is_not_there_is_named_and_nothing_written(tmp_path, stream, capsys, address):
    with pytest.raises(ConnectionError, match=f"a Dask scheduler that runs, such as tcp://.*, got '{address}'"):
        sweep(address, stream, store=tmp_path / "store")
    assert not list(tmp_path.iterdir())
    with pytest.raises(SystemExit):
        cp.cli.main(["sweep", "--stream", "geoff", "--learners", "frozen", "--store", "no", "--cluster", address])
    assert f"got '{address}'" in capsys.readouterr().err


def answer(server, greeting):
    """Speaks first to whoever connects, and says no more."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        while True:
            line, _ = server.accept()
            stack.enter_context(line).sendall(greeting)


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", bytes(8), b"\xff" * 5000, b"\x10" + bytes(30)])
def test_what_answers_to_an_address_but_is_no_scheduler_is_given_up_soon(stream, monkeypatch, greeting):
    monkeypatch.setattr(CLUSTER, "TIMEOUT", 0.5)
    threads, began = set(threading.enumerate()), time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=answer, args=(server, greeting), daemon=True)
        answering.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionError, match=f"got '{address}'"):
            sweep(address, stream)
        server.shutdown(socket.SHUT_RDWR)
    answering.join()
    assert time.monotonic() - began < 5 and not set(threading.enumerate()) - threads


def test_a_worker_in_the_place_of_a_scheduler_is_told_and_leaves_no_thread(machines, stream):
    address, threads = next(iter(machines.client.nthreads())), set(threading.enumerate())
    with pytest.raises(ConnectionError, match=f"got '{address}': it is a Dask Worker"):
        sweep(address, stream)
    assert not {each for each in set(threading.enumerate()) - threads if each.name == "IO loop"}


def test_without_dask_the_error_says_how_to_install_it(tmp_path, stream, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        ModuleNotFoundError, match=rf"cluster='{NOWHERE}' needs Dask.*: pip install 'crossprop\[cluster"
    ):
        sweep(NOWHERE, stream, store=tmp_path / "store")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cluster", ["", 8786, object()])
def test_what_is_no_address_and_no_client_is_refused(stream, cluster):
    with pytest.raises(TypeError, match="cluster must be an address such as 'tcp://host:8786', or a dask Client, got"):
        sweep(cluster, stream)


def test_workers_of_other_versions_are_refused(machines, tmp_path, stream, monkeypatch):
    for scheduler, worker, error in (
        (("1", "2"), ("1", "3"), "got tcp://w: it has jax 3, and this process has 2"),
        (("1", "2"), (None, "2"), "got tcp://w: it has crossprop none, and this process has 1"),
        (("0", "2"), ("1", "2"), "got the scheduler: it has crossprop 0, and this process has 1"),
    ):
        told = {
            "client": versions("1", "2"),
            "scheduler": versions(*scheduler),
            "workers": {"tcp://w": versions(*worker)},
        }
        client = SimpleNamespace(get_versions=lambda packages, told=told: told)
        monkeypatch.setattr(CLUSTER, "_client", lambda _, client=client: contextlib.nullcontext(client))
        with pytest.raises(ValueError, match=error):
            sweep(NOWHERE, stream, store=tmp_path / "store")
    assert not list(tmp_path.iterdir())


def versions(crossprop, jax, python="3.11.7.final.0"):
    return {"packages": {"crossprop": crossprop, "jax": jax, "python": python}}


def test_an_engine_that_the_workers_cannot_use_is_refused(machines, tmp_path, stream):
    with pytest.raises(ValueError, match=r"engine='kernel' cannot run learners\['backprop'\]: .* needs a GPU"):
        sweep(machines.address, stream, engine="kernel", store=tmp_path / "store")
    assert not list(tmp_path.iterdir())


def test_a_worker_with_other_code_is_named_and_what_is_done_is_kept(stream, monkeypatch, tmp_path):
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as local,
        Client(local, set_as_default=False) as client,
    ):
        code, (there,) = CLUSTER._code, client.nthreads()
        edited = lambda *given: code(*given) | {"stream": threading.current_thread().name}
        monkeypatch.setattr(CLUSTER, "_code", edited)
        with pytest.raises(ValueError, match=f"cluster must have .*, got {there}: it imports other code of the stream"):
            sweep(client, stream, store=tmp_path / "store")
        monkeypatch.undo()
        assert_same_sweeps(sweep(client, stream, store=tmp_path / "store"), sweep(None, stream))


@pytest.mark.long
def test_a_worker_of_another_version_that_joins_midway_makes_no_number(machines, tmp_path):
    stream = Slow(str(tmp_path / "log"), gate=str(tmp_path / "joined"))
    shutil.copytree(Path(cp.__file__).parent, tmp_path / "other" / "crossprop")
    (tmp_path / "other" / "crossprop" / "_version.py").write_text('__version__ = "9.9"\n')
    there = set(machines.client.nthreads())
    joined = []

    def join():
        until(lambda: "begin" in words(stream))
        joined.append(machines.start("worker", "--no-nanny", "--nthreads", "2", first=str(tmp_path / "other")))
        until(lambda: len(machines.client.nthreads()) > len(there), 60)
        (tmp_path / "joined").touch()

    joining = threading.Thread(target=join)
    joining.start()
    try:
        with contextlib.suppress(ValueError):  # whether a block fails too often is left to Dask
            sweep(machines.address, stream, settings=30, evaluate=3, store=tmp_path / "store")
    finally:
        joining.join()
        joined[0].kill()
    until(lambda: set(machines.client.nthreads()) == there)
    assert "end" not in told(stream.log, joined[0].pid)
    records = sweep(machines.address, stream, settings=30, evaluate=3, store=tmp_path / "store")
    assert_same_sweeps(records, sweep(None, stream, settings=30))


# The last test: it costs a worker.


@pytest.mark.long
def test_the_blocks_of_a_worker_killed_at_work_are_run_again_and_no_number_changes(machines, stream, tmp_path):
    lost, left = machines.workers

    def at_work():
        lost.send_signal(signal.SIGSTOP)
        if told(stream.log, lost.pid)[-1:] == ["begin"]:
            return True
        lost.send_signal(signal.SIGCONT)
        return False

    def kill():
        until(at_work)
        lost.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    records = sweep(machines.address, stream, settings=30, store=tmp_path / "store")
    killer.join()
    assert lost.wait() == -signal.SIGKILL and told(stream.log, lost.pid)[-1] == "begin"
    ends = [told(stream.log, worker.pid).count("end") for worker in (lost, left)]
    assert ends[0] < 60 <= sum(ends)
    assert len(list((tmp_path / "store" / "blocks").iterdir())) == 30
    assert_same_sweeps(records, sweep(None, stream, settings=30))
    assert_same_sweeps(records, cp.open_sweep(tmp_path / "store"))
