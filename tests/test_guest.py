"""A guest in the user's process: their settings and programs stay, and no unstable API of JAX is needed."""

import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import crossprop as cp
from crossprop._support import programs, xla
from crossprop.engines import segments
from crossprop.engines.dealing import unchanged
from crossprop.execution import device_kind
from own_streams import Noise, Waves

pytestmark = pytest.mark.usefixtures("quick_compilation")

NET = cp.Network(inputs=3, hidden=4)


def free():
    """Frees the package's programs, as if there were many."""
    programs._compiled.extend([None] * programs.MOST)
    assert programs.make_room()


def settings():
    return {name: jax.config.values[name] for name in jax.config.values}


def test_settings_and_programs_of_the_user_stay():
    traced = []

    @jax.jit
    def own(x):
        traced.append(1)
        return x + 1

    own(np.ones(3))
    folder = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", None)
    before = settings()
    try:
        learner, stream = cp.Backprop(NET, 0.01), Noise(steps=8)
        cp.run(learner, stream, seeds=1, record_every=4)
        cp.sweep(learner, stream, {"step_size": [0.1, 0.2]}, seeds=1, record_every=4)
        state = learner.init(jax.random.key(0))
        state, _ = learner.update(state, np.ones(3), np.ones(1))
        cp.live(learner, state, np.ones((4, 3)), np.ones(4))
        free()
        own(np.ones(3))
        assert settings() == before
    finally:
        jax.config.update("jax_compilation_cache_dir", folder)
    assert len(traced) == 1


def without_module(name):
    return lambda patch: patch.setitem(sys.modules, name, None)


def without_setting(name):
    return lambda patch: patch.delattr(type(jax.config), name)


DRILLS = {
    "metadata": without_module("jax.experimental.xla_metadata"),
    "equations": lambda patch: patch.setattr(jax, "make_jaxpr", lambda f: lambda *given: SimpleNamespace()),
    "jax.extend": without_module("jax.extend.core"),
    "threefry": without_setting("jax_threefry_partitionable"),
    "keys": lambda patch: patch.delattr(jax, "threefry_partitionable"),
    "default device": without_setting("jax_default_device"),
    "cache folder": without_setting("jax_compilation_cache_dir"),
    "clear_cache": lambda patch: patch.setattr(programs, "_own", {object()}),
    "event": lambda patch: patch.setattr(xla, "COMPILED", "/another/event"),
    "reset_cache": without_module("jax.experimental.compilation_cache.compilation_cache"),
    "options": lambda patch: patch.setattr(
        segments, "compiler_options", lambda platform: xla.known_options({"none": 1})
    ),
}


@pytest.mark.parametrize("drill", DRILLS)
def test_runs_work_without_an_unstable_api_of_jax(drill, monkeypatch):
    learner = cp.Crossprop(NET, 0.01, optimizer=cp.optimizers.upgd(sigma=0.1))
    numbers = lambda: cp.run(learner, Noise(steps=12), seeds=1, record_every=4).loss.values
    expected = numbers()
    free()
    segments._compiled.clear()
    DRILLS[drill](monkeypatch)
    np.testing.assert_allclose(numbers(), expected, rtol=1e-5)
    free()


def test_the_package_is_imported_without_what_is_experimental_in_jax():
    script = (
        "import sys, jax; sys.modules['jax.experimental.pallas'] = None; del jax.monitoring\n"
        "import crossprop as cp\n"
        "stream = cp.Geoff(inputs=3, features=10, tasks='A', examples=8)\n"
        "print(cp.run(cp.Backprop(cp.Network(3, 4), 0.01), stream, 1, 4, progress=False).loss.size)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "2\n", done.stderr


def test_the_cache_on_disk_is_asked_for_without_what_is_unstable(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax.experimental.compilation_cache.compilation_cache", None)
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = [jax.config.values[name] for name in names]
    try:
        xla.cache_on_disk(str(tmp_path), 5.0)
        assert [jax.config.values[name] for name in names] == [str(tmp_path), 5.0]
    finally:
        for name, value in zip(names, before, strict=True):
            jax.config.update(name, value)


@dataclass(frozen=True)
class Refused(Noise):
    """Dealt by NumPy, whose generators refuse a tracer by an error of their own."""

    def begin(self, key):
        return {"step": 0}

    def deal(self, place, count):
        x = np.random.default_rng(place["step"]).normal(size=(count, self.inputs))
        return {"step": place["step"] + count}, x, x[:, : self.outputs]


@dataclass(frozen=True)
class Broken(Noise):
    def deal(self, place, count):
        raise ZeroDivisionError("of the user's own")


def test_a_stream_runs_on_the_host_only_because_of_a_tracer():
    key = jax.random.key(0)
    assert unchanged(Noise(), Noise().begin(key)) == (True, False)
    assert all(unchanged(stream, stream.begin(key)) is None for stream in (Waves(), Refused()))
    assert unchanged(Noise(), (key, "a name")) is None
    with pytest.raises(ZeroDivisionError, match="of the user's own"):
        cp.run(cp.Backprop(NET, 0.01), Broken(steps=8), seeds=1, record_every=4)


@pytest.mark.parametrize("wide", [False, True])
def test_records_name_the_vectors_of_the_cpu(wide, monkeypatch):
    monkeypatch.setattr(xla, "has_wide_vectors", lambda: wide)
    segments.compiler_options.cache_clear()
    device = device_kind()
    segments.compiler_options.cache_clear()
    assert device == ("cpu with vectors of 512 bits" if wide else "cpu")


def test_a_platform_without_a_device_is_named(monkeypatch):
    def none():
        raise AssertionError

    monkeypatch.setattr(jax, "local_devices", none)
    with pytest.raises(ValueError, match="JAX_PLATFORMS must name a platform that has a device, got "):
        cp.run(cp.Backprop(NET, 0.01), Noise(steps=8), seeds=1)


def test_options_for_a_gpu_are_for_a_gpu():
    wide = segments.compiler_options("cpu")
    assert wide in ({}, {"xla_cpu_prefer_vector_width": 512}) and xla.known_options(wide) == wide
    on_a_gpu = segments.compiler_options("gpu")
    assert set(on_a_gpu) <= {"xla_gpu_autotune_level", "xla_gpu_enable_triton_gemm"}
    assert xla.known_options(on_a_gpu | {"xla_gpu_none": True}) == on_a_gpu
