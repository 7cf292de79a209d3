"""Bounds: what is too large is refused before work, with the figure; what is no number is named."""

import os
import resource
import warnings
from dataclasses import dataclass
from fractions import Fraction

import jax
import numpy as np
import pytest

import crossprop as cp
from crossprop._support import memory, xla
from crossprop._support.files import why_not_private
from crossprop.execution import bound_compilation_cache, damaged_programs_removed, use_compilation_cache

NET = cp.Network(inputs=3, hidden=4)
SHORT = cp.Geoff(inputs=3, features=5, tasks="A", examples=20)
pytestmark = pytest.mark.usefixtures("quick_compilation")
KEY = jax.random.key(0)


@pytest.mark.parametrize("hidden", [3_000_000_000, 2**31, 2**64])
@pytest.mark.parametrize("use", ["network", "learner", "run"])
def test_a_network_larger_than_memory_is_refused_with_the_figure(hidden, use):
    network = cp.Network(3, hidden)
    calls = {
        "network": lambda: network.init(KEY),
        "learner": lambda: cp.Crossprop(network, 0.1).init(KEY),
        "run": lambda: cp.run(cp.Backprop(network, 0.1), SHORT, seeds=1),
    }
    with pytest.raises(ValueError, match=rf"hidden=\({hidden},\).* would take [\d,.]+ .iB of memory, and .* are free"):
        calls[use]()


@pytest.fixture
def limits(tmp_path, monkeypatch):
    """`limits(groups, of)`: control groups' files with these contents, for a process in the groups `of`."""

    def limits(groups, of):
        for name, contents in groups.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(contents)
        (tmp_path / "cgroup").write_text(of)
        return memory.free_memory()

    monkeypatch.setattr(memory, "_host_memory", lambda: 10_000)
    monkeypatch.setattr(memory, "PROCESS", tmp_path)
    roots = (tmp_path / "v2", tmp_path / "v1")
    monkeypatch.setattr(
        memory, "CGROUPS", [(root, *files) for root, (_, *files) in zip(roots, memory.CGROUPS, strict=True)]
    )
    return limits


def group(limit, used, files, version=2):
    names = {
        2: ("memory.max", "memory.current", "inactive_file"),
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    }
    return {
        names[version][0]: limit,
        names[version][1]: str(used),
        "memory.stat": f"x 1\n{names[version][2]} {files}\n",
    }


def test_free_memory_is_that_of_the_tightest_control_group_around_the_process(limits):
    make = lambda folder, files: {f"{folder}/{name}": contents for name, contents in files.items()}
    job = make("v2/slurm/job", group("5000", 1500, 500)) | make("v2/slurm/job/step", group("max", 1000, 0))
    assert limits(job, "0::/slurm/job/step\n") == 4000
    assert limits(make("v2/slurm", group("2000", 1500, 100)), "0::/slurm/job/step\n") == 600
    assert limits({}, "0::/not/here\n") == 10_000
    old = make("v1/uid/job", group("3000", 1000, 300, 1)) | make("v1/uid", group(str(2**63 - 4096), 5, 0, 1))
    assert limits(old, "5:cpu:/slurm\n4:memory:/uid/job\n0::/not/here\n") == 2300
    container = make("v1", group("1000", 200, 0, 1))
    assert limits(container, "4:memory:/docker/not-here\n") == 800


@pytest.mark.parametrize(("limit", "free"), [("RLIMIT_AS", 9000 - 4096), ("RLIMIT_DATA", 9000 - 2048)])
def test_free_memory_is_within_the_limits_of_the_shell(limits, tmp_path, monkeypatch, limit, free):
    (tmp_path / "status").write_text("Name:\tpython\nVmSize:\t       4 kB\nVmData:\t       2 kB\n")
    chosen = getattr(resource, limit)
    monkeypatch.setattr(resource, "getrlimit", lambda each: (9000 if each == chosen else resource.RLIM_INFINITY, 9999))
    assert limits({}, "") == free


def test_a_memory_larger_than_the_network_counts():
    with pytest.raises(ValueError, match=r"the state of this Crossprop would take .* of memory"):
        cp.Crossprop(cp.Network(2_000, 1_000, 20_000), 0.1).init(KEY)


@pytest.mark.parametrize("seeds", [10**9, range(10**12)])
def test_more_seeds_than_memory_are_refused_with_the_figure(seeds):
    with pytest.raises(ValueError, match=r"seeds: .* runs would take .* of memory"):
        cp.run(cp.Backprop(NET, 0.1), SHORT, seeds=seeds)


def test_more_records_than_memory_are_refused_with_the_figure():
    from own_streams import Noise

    with pytest.raises(ValueError, match=r"the records .* would take .* of memory"):
        cp.run(cp.Backprop(NET, 0.1), Noise(), seeds=1000, steps=2**31 - 10, record_every=1)
    with pytest.raises(ValueError, match=r"steps .*must be at most 2147483647"):
        cp.run(cp.Backprop(NET, 0.1), Noise(), seeds=1, steps=2**40, record_every=2**31 - 1)


def test_numbers_of_numpy_are_numbers():
    learner = cp.Backprop(cp.Network(np.uint8(3), np.array(4), np.int8(1), bias=np.True_), np.float32(0.5))
    assert learner == cp.Backprop(cp.Network(3, 4, 1, bias=True), 0.5)
    assert cp.Geoff(np.uint8(3), np.int16(5), examples=np.int64(9)) == cp.Geoff(3, 5, examples=9)
    records = cp.run(cp.Backprop(NET, 0.1), SHORT, seeds=np.uint8(1), record_every=np.uint8(9))
    assert records.attrs["record_every"] == "9" and [*records.step.values] == [9, 18, 20]


NO_NUMBERS = [True, np.array(True), "1", np.array("1"), b"1", np.datetime64("2020-01-01"), np.timedelta64(1, "s"), 1j]
NO_NUMBERS += [np.array(1j), np.array(None), Fraction(1, 2), None, {}, KEY]


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_named(value):
    with pytest.raises(TypeError, match="step_size must be a number"):
        cp.Backprop(NET, value)
    with pytest.raises(TypeError, match="hidden must be a whole number"):
        cp.Network(3, value)
    with pytest.raises(TypeError, match="noise must be a number"):
        cp.Geoff(noise=value)


@pytest.mark.parametrize("value", [10**400, 10**5000, np.inf, 1e39, 1e-50, 1e-40], ids=["400", "5000", *"abcd"])
def test_numbers_that_become_0_or_infinite_are_refused(value):
    with pytest.raises(ValueError, match=r"step_size must be a .*number"):
        cp.Backprop(NET, value)


def test_small_numbers_are_fine_in_float64(x64):
    assert cp.Backprop(NET, 1e-50).step_size == 1e-50


@pytest.mark.parametrize("seeds", [[[1], [2, 3]], KEY, jax.random.PRNGKey(3), "12", True, {1: 2}, 1.5, [1.5]], ids=repr)
def test_seeds_that_are_none_are_named(seeds):
    with pytest.raises(TypeError, match="seeds must be"):
        cp.run(cp.Backprop(NET, 0.1), SHORT, seeds=seeds)


@dataclass
class Unhashable:
    def __call__(self, outcome, y):
        return outcome.loss


@pytest.mark.parametrize(
    ("call", "problem", "text"),
    [
        (lambda: cp.Network(3, (2,) * 10**5), ValueError, "hidden must have at most 1,000 layers, got 100,000"),
        (lambda: cp.Hindsight(NET, 0.1, delay=10**10), ValueError, "delay must be between 1 and 2147483647, got"),
        (
            lambda: cp.SlowlyChanging(3, slow=1, features=10**11).begin(KEY),
            ValueError,
            "the target network of 100,000,000,000 features would take 2.2 TiB of memory, and ",
        ),
        (
            lambda: cp.sweep(cp.Backprop(NET, 0.1), SHORT, {"step_size": range(1, 10**12)}, 1),
            ValueError,
            r"over\['step_size'\]: 999,999,999,999 runs would take",
        ),
        (
            lambda: cp.run(cp.Backprop(NET, 0.1), SHORT, 1, probes={"a": lambda *_: "x"}),
            TypeError,
            r"probes\['a'\] must return a number or an array: ",
        ),
        (
            lambda: cp.run(cp.Backprop(NET, 0.1), SHORT, 1, metrics={"a": lambda *_: "x"}),
            TypeError,
            r"metrics\['a'\] must return a number: ",
        ),
        (
            lambda: cp.run(cp.Backprop(NET, 0.1), SHORT, 1, metrics={"a": Unhashable()}),
            TypeError,
            r"metrics\['a'\] must be hashable, got .*Unhashable",
        ),
        (lambda: cp.run({"\ud800": cp.Backprop(NET, 0.1)}, SHORT, 1), TypeError, "learners must have names, got"),
        (
            lambda: cp.sweep(cp.Backprop(NET, 0.1), SHORT, {}, 1, store="a\0b"),
            ValueError,
            r"store must be a folder, got 'a\\x00b', which no path can be",
        ),
        (lambda: cp.load("\ud800"), ValueError, "path must be a file written by crossprop.save, got .* no path can be"),
    ],
)
def test_what_has_no_end_or_no_name_is_refused_before_work(call, problem, text):
    with pytest.raises(problem, match=text):
        call()


def test_an_optimizer_that_makes_none_is_named():
    with pytest.raises(TypeError, match=r"optimizer must be an optimizer, such as idbd\(\), got the class idbd itself"):
        cp.Backprop(NET, 0.1, optimizer=cp.optimizers.idbd)
    with pytest.raises(TypeError, match="optimizer must return an optax transformation, got None"):
        cp.Backprop(NET, 0.1, optimizer=lambda size: None)
    with pytest.raises(ValueError, match="optimizer must take a step size"):
        cp.Backprop(NET, 0.1, optimizer=lambda: None)


def test_compiled_programs_are_loaded_from_a_folder_of_ones_own_only(tmp_path, monkeypatch):
    folder = tmp_path / "compiled"
    monkeypatch.setenv("CROSSPROP_CACHE", str(tmp_path))
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        assert why_not_private(folder) is None and folder.stat().st_mode & 0o777 == 0o700
        folder.chmod(0o777)
        with pytest.warns(UserWarning, match=r"not kept in .*compiled, since other users can write to it, mode 777"):
            use_compilation_cache()
        assert jax.config.values["jax_compilation_cache_dir"] is None
        folder.chmod(0o700)
        monkeypatch.setattr("os.getuid", lambda: folder.stat().st_uid + 1)
        with pytest.warns(UserWarning, match="since it belongs to another user"):
            use_compilation_cache()
        assert jax.config.values["jax_compilation_cache_dir"] is None
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


@pytest.mark.filterwarnings("default")
def test_a_damaged_program_on_disk_is_replaced_in_silence(tmp_path, monkeypatch, recwarn):
    @jax.jit
    def damaged(x):
        return x + 1

    monkeypatch.setenv("CROSSPROP_CACHE", str(tmp_path))
    before = jax.config.values["jax_compilation_cache_dir"]
    try:
        xla.cache_on_disk(str(tmp_path / "compiled"), 0)
        damaged(1.0)
        (program,) = tmp_path.glob("compiled/jit_damaged-*-cache")
        program.write_bytes(b"")
        damaged.clear_cache()
        with damaged_programs_removed():
            damaged(1.0)
            warnings.warn("of another kind", stacklevel=1)
        assert program.stat().st_size and [str(each.message) for each in recwarn] == ["of another kind"]
    finally:
        xla.cache_on_disk(before, 0)


def test_compiled_programs_on_disk_are_bounded_and_those_used_last_are_kept(tmp_path, monkeypatch):
    def sizes():
        return {each.name: each.stat().st_size for each in folder.iterdir()}

    folder = tmp_path / "compiled"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("CROSSPROP_CACHE", str(tmp_path))
    monkeypatch.setattr("crossprop.execution.MOST_CACHED", 1000)
    for number in range(10):
        (folder / f"{number}-cache").write_bytes(bytes(100))
        os.utime(folder / f"{number}-cache", (1000 - number, 500))
    (folder / "of-others").write_bytes(bytes(5000))
    settings = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: jax.config.values[name] for name in settings}
    there = sizes()
    try:
        jax.config.update("jax_compilation_cache_dir", None)
        use_compilation_cache()
        assert sizes() == there
        (folder / "new-cache").write_bytes(bytes(100))
        jax.config.update("jax_compilation_cache_dir", str(tmp_path / "elsewhere"))
        bound_compilation_cache()
        assert {*sizes()} == {*there, "new-cache"}
        jax.config.update("jax_compilation_cache_dir", str(folder))
        bound_compilation_cache()
        assert {*sizes()} == {"of-others", "new-cache", *(f"{number}-cache" for number in range(4))}
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
