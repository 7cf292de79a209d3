"""The lab without a browser: who is let in, what is offered, what is run, and what a setting is in code."""

import dataclasses
import errno
import http.client
import json
import logging
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import equinox as eqx
import numpy as np
import pytest

import crossprop as cp
from crossprop import specification
from crossprop.cli import main
from crossprop.lab import code
from crossprop.learners import LEARNERS
from crossprop.optimizers import OPTIMIZERS
from crossprop.replacements import REPLACEMENTS
from crossprop.streams import STREAMS

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
from crossprop.lab import live, server
from crossprop.lab.catalogue import catalogue
from crossprop.lab.settings import read_setting
from own_learners import Radial
from waiting import until

pytestmark = pytest.mark.usefixtures("quick_compilation")
HOSTILE = "<img src=x onerror=alert(1)>$(touch hacked)`'\""
SMALL = {
    "stream": {"name": "geoff", "examples": 60, "features": 20, "tasks": "AB"},
    "network": {"hidden": 4},
    "learners": {"crossprop": {"step_size": 0.01}, "backprop": {"step_size": 0.01}},
    "seeds": 2,
    "record_every": 30,
}
LONG = SMALL | {
    "stream": {"name": "geoff", "examples": 500_000, "features": 2, "inputs": 2, "tasks": "A"},
    "learners": {"backprop": {}},
    "record_every": None,
    "seeds": 1,
}


def changed(**learner):
    return SMALL | {"learners": {"crossprop": {"step_size": 0.01} | learner}}


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    text: str

    def json(self):
        return json.loads(self.text)


class Client:
    """Asks a lab, as its page does. Addresses are those behind the token, or begin with a /."""

    def __init__(self, lab):
        self.lab, self.where = lab, urlsplit(lab.url)
        self.pages = lab.server.config.app.state.pages

    def open(self, name, body=None, host=None):
        connection = http.client.HTTPConnection(self.where.hostname, self.where.port, timeout=60)
        path = name if name.startswith("/") else self.where.path + name
        content = body if body is None or isinstance(body, bytes) else json.dumps(body)
        headers = {} if host is None else {"Host": host}
        connection.request("GET" if body is None else "POST", path, content, headers)
        return connection, connection.getresponse()

    def ask(self, name, body=None, host=None):
        connection, answer = self.open(name, body, host)
        with closing(connection):
            return Answer(answer.status, answer.headers, answer.read().decode())


@contextmanager
def serving(*imports):
    lab = server.Lab(imports=imports)
    thread = threading.Thread(target=lab.serve)
    thread.start()
    try:
        while not lab.server.started:
            time.sleep(0.02)
        yield Client(lab)
    finally:
        lab.stop()
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def client(quick_compilation):
    with serving("json") as client:
        yield client


def frames(client, setting, page="a page"):
    answer = client.ask("runs", {"page": page, "setting": setting})
    assert answer.status == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def only(found, kind):
    (one,) = [frame for frame in found if frame["kind"] == kind]
    return one


def joined(found):
    """The curves of all frames: `[variable][learner][part]`, in one array each."""
    whole = {}
    for frame in found:
        for variable, lines in frame.get("curves", {}).items():
            for name, line in lines.items():
                for part, values in line.items():
                    whole.setdefault(variable, {}).setdefault(name, {}).setdefault(part, []).extend(values)
    return whole


@pytest.mark.parametrize("path", ["/", "/wrong/", "/wrong/catalogue", "/{}x/", "//{}/", "/wrong/../{}/"])
def test_without_the_token_nothing_is_served(client, path):
    answer = client.ask(path.format(client.lab.token))
    assert (
        answer.status == 403 and "token" in answer.text and "default-src" in answer.headers["content-security-policy"]
    )
    assert client.ask("/wrong/runs", {"page": "p", "setting": SMALL}).status == 403


def test_a_request_for_no_path_is_refused(client):
    connection = http.client.HTTPConnection(client.where.hostname, client.where.port, timeout=60)
    with closing(connection):
        connection.request("OPTIONS", "*")
        assert connection.getresponse().status == 403


def test_connections_that_ask_for_nothing_are_bounded_and_hinder_nobody(client, monkeypatch):
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 4)
    address = (client.where.hostname, client.where.port)
    with ExitStack() as held:
        running, answer = client.open("runs", {"page": "one", "setting": LONG})
        held.enter_context(closing(running))
        for _ in range(12):
            held.enter_context(socket.create_connection(address)).sendall(b"GET")
            assert client.ask("catalogue").status == 200
        assert len(client.lab.server.server_state.connections) <= 6
        until(lambda: json.loads(answer.readline())["kind"] == "windows")
        answer.close()
    until(lambda: not client.pages.runs)


def test_connections_without_a_file_descriptor_leave_no_traceback(caplog):
    with serving() as client:
        loop = client.lab.server.servers[0].get_loop()
        refused = OSError(errno.EMFILE, "Too many open files")
        for exception in (refused, ZeroDivisionError("a fault")):
            loop.call_soon_threadsafe(loop.call_exception_handler, {"message": "accept", "exception": exception})
        until(lambda: "a fault" in caplog.text)
    assert "Too many" not in caplog.text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""])
def test_a_foreign_name_for_this_machine_is_refused(client, host):
    for path in ("", "catalogue", "page.css"):
        assert client.ask(path, host=host).status == 400
    assert client.ask("runs", {"page": "p", "setting": SMALL}, host=host).status == 400


def test_page_names_no_outside_address_and_its_policy_allows_none(client):
    for name in server.FILES:
        answer = client.ask(name)
        assert answer.status == 200
        assert "//" not in answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["referrer-policy"] == "no-referrer" and answer.headers["cache-control"] == "no-store"


def test_catalogue_offers_every_learner_and_stream_and_a_slider_for_every_number():
    offered = catalogue()
    json.dumps(offered, allow_nan=False)
    assert [one["name"] for one in offered["learners"]] == [*LEARNERS]
    assert [one["name"] for one in offered["streams"]] == [*STREAMS]
    assert all(one["about"] and not one["missing"] for one in offered["learners"])
    crossprop = {one["name"]: one for one in offered["learners"][0]["controls"]}
    assert (crossprop["step_size"]["kind"], crossprop["step_size"]["scale"]) == ("slider", "log")
    assert crossprop["step_size"]["low"] < 1e-5 and crossprop["step_size"]["high"] >= 0.1
    eta = crossprop["eta"]
    assert (eta["kind"], eta["scale"], eta["low"], eta["high"]) == ("slider", "linear", 0, 1)
    assert crossprop["memory_step_size"]["optional"] and crossprop["memory_step_size"]["kind"] == "slider"
    assert crossprop["projections"]["kind"] == "whole"
    assert crossprop["optimizer"]["choices"] == tuple(OPTIMIZERS)
    network = {one["name"]: one["kind"] for one in offered["network"]}
    assert network["hidden"] == "sizes" and network["activation"] == "choice" and network["bias"] == "flag"
    assert not {"inputs", "outputs", "loss"} & set(network)
    streams = {one["name"]: {each["name"]: each for each in one["controls"]} for one in offered["streams"]}
    noise = streams["tracking"]["noise"]
    assert (noise["kind"], noise["zero"], noise["low"], noise["high"]) == ("slider", True, 0.01, 100)
    assert streams["slowly-changing"]["change"]["choices"] == ("all", "one")
    assert "mnist5k" in streams["permuted-inputs"]["data"]["choices"]
    assert streams["random-labels"]["tasks"]["kind"] == "whole"


def test_catalogue_has_a_control_for_every_hyperparameter_of_optimizers_and_replacements(own):
    offered = catalogue()
    json.dumps(offered, allow_nan=False)
    backprop = {one["name"]: one for one in offered["learners"][[*LEARNERS].index("backprop")]["controls"]}
    assert [(one["kind"], one["part"]) for one in (backprop["optimizer"], backprop["replacement"])] == [
        ("part", "optimizer"),
        ("part", "replacement"),
    ]
    parts = {
        of: {name: {one["name"]: one for one in its} for name, its in all_of.items()}
        for of, all_of in offered["parts"].items()
    }
    for name, build in OPTIMIZERS.classes.items():
        assert [*parts["optimizer"][name]] == [field.name for field in dataclasses.fields(build)]
    for name in ("continual", "generate-and-test", "redo", "random"):
        assert [*parts["replacement"][name]] == [field.name for field in dataclasses.fields(REPLACEMENTS[name].func)]
    shape = lambda one: (one["kind"], one["scale"], one["low"], one["high"], one["zero"])
    rate, decay = parts["replacement"]["continual"]["rate"], parts["replacement"]["continual"]["decay"]
    assert shape(rate) == ("slider", "log", 1e-6, 1.0, True), "its bounds are 0 and 1, and it is small"
    assert shape(decay) == ("slider", "decay", 0.0, 0.9999, False), "its bounds are 0 and 1, and it is nearly 1"
    assert parts["replacement"]["continual"]["utility"]["choices"] == ("adaptable", "contribution")
    assert parts["optimizer"]["shrink_perturb"]["base"]["part"] == "optimizer"
    assert parts["replacement"]["own"]["rate"]["default"] == 1e-5 and parts["replacement"]["broken"] == {}


@pytest.mark.parametrize("stream", ["tracking", "slowly-changing", "permuted-inputs", "random-labels"])
def test_endless_and_very_long_streams_run_for_a_while_by_default(stream):
    setting = read_setting({"stream": {"name": stream}, "network": {"hidden": 5}, "learners": {"backprop": {}}})
    assert setting.steps == 20_000


class Looking(cp.Learner):
    """Looks ahead or back."""

    network: cp.Network
    ahead: float = 1.0
    kind: str = eqx.field(static=True, default="plain")

    def init(self, key):
        return {"w": self.network.init(key)[1]}

    def predict(self, state, x):
        return self.network.outputs_of(x[:1].repeat(self.network.units), state["w"].T)

    def update(self, state, x, y):
        outputs = self.predict(state, x)
        loss, delta = self.network.error(outputs, y)
        return {"w": state["w"] + 1e-3 * self.ahead * delta[None, :]}, cp.Outcome(loss, outputs)

    def weights(self, state):
        return {"w": state["w"]}


def broken(network, step_size):
    raise RuntimeError("not today")


def seldom(rate=1e-5):
    return cp.RandomReplacement(rate, 3.0)


@pytest.fixture
def own(own_registries):
    """Learners of one's own, as `--import` registers them: one with a hostile name, one that cannot be built; and a
    replacement."""
    REPLACEMENTS["own"], REPLACEMENTS["broken"] = seldom, broken
    LEARNERS[HOSTILE], LEARNERS["$(touch hacked)'"], LEARNERS["broken"] = Looking, Looking, broken


def test_own_learner_gets_its_controls_and_runs_and_a_broken_one_harms_no_other(own, client):
    offered = {one["name"]: one for one in catalogue()["learners"]}
    ahead, kind = offered[HOSTILE]["controls"]
    assert (ahead["kind"], ahead["scale"], ahead["low"]) == ("slider", "symlog", -10)
    assert (kind["kind"], kind["default"]) == ("text", "plain")
    assert offered["broken"]["missing"] == "RuntimeError: not today" and not offered["crossprop"]["missing"]
    setting = SMALL | {"learners": {HOSTILE: {"ahead": -0.5}}}
    found = frames(client, setting)
    begin = only(found, "begin")
    assert begin["learners"][0]["name"] == HOSTILE
    assert HOSTILE not in json.dumps(offered["crossprop"]) and only(found, "end")["diverged"] == {}
    assert set(joined(found)) == {"loss", "drift_w"}
    assert [frame for frame in found if frame["kind"] == "features"][-1]["learners"][HOSTILE] == {}


def test_features_and_weights_of_a_learner_of_ones_own_are_drawn(own_registries, client):
    LEARNERS["radial"] = Radial
    looks = [frame for frame in frames(client, SMALL | {"learners": {"radial": {}}}) if frame["kind"] == "features"]
    last = looks[-1]["learners"]["radial"]
    assert last["activity"]["rows"] == ["start", "A", "B"] and last["activity"]["units"] == 4
    assert (last["weights"]["width"], last["weights"]["height"], last["weights"]["count"]) == (4, 20, 1)


def test_curves_are_those_of_run_and_a_link_needs_no_more_than_the_setting(client):
    found = frames(client, SMALL)
    begin, end = only(found, "begin"), only(found, "end")
    assert [found[0]["kind"], found[-1]["kind"]] == ["begin", "end"] and end["diverged"] == {}
    space = {}
    exec(begin["python"], space)
    records, curves = space["records"], joined(found)
    assert set(curves) == {"loss", "incoming_drift", "outgoing_drift"}
    for variable, lines in curves.items():
        for name, line in lines.items():
            expected = records[variable].sel(learner=name).mean("seed").values
            np.testing.assert_allclose(line["mean"], expected, rtol=6e-4)  # curves are sent with four digits
            assert (np.array(line["low"]) <= line["mean"]).all() and (np.array(line["mean"]) <= line["high"]).all()
    assert [step for frame in found for step in frame.get("step", ())] == records.step.values.tolist()
    assert [task["label"] for task in begin["tasks"]] == ["A", "B"]
    assert begin["python"].startswith("import crossprop as cp\nimport json")


def test_first_variable_is_the_one_that_learners_are_compared_by():
    names = [
        variable["name"] for variable in live.variables({"incoming_drift": 0, "loss": 0, "error": 0, "drift_w": 0})
    ]
    assert names == ["error", "loss", "incoming_drift", "drift_w"]


def test_features_are_drawn_at_the_end_of_every_visit(client):
    looks = [frame for frame in frames(client, SMALL) if frame["kind"] == "features"]
    last = looks[-1]["learners"]["crossprop"]
    assert last["activity"]["rows"] == ["start", "A", "B"]
    assert last["activity"]["kept"][0] == 1 and min(last["activity"]["kept"]) >= -1
    assert (last["weights"]["width"], last["weights"]["height"], last["weights"]["count"]) == (4, 20, 1)
    assert last["weights"]["pixels"] != last["change"]["pixels"]


def test_moving_a_slider_compiles_nothing_and_another_size_does(client):
    last = lambda setting: [frame for frame in frames(client, setting) if frame["kind"] == "windows"][-1]["compiled"]
    frames(client, changed())
    for moved in (changed(step_size=0.02), changed(step_size=1e-5, eta=0.3), changed(eta=1.0)):
        assert last(moved) == 0
    moved = changed()
    moved["network"] = {"hidden": 4, "incoming_scale": 0.5, "outgoing_scale": 2.0}
    assert last(moved) == 0
    assert last(changed() | {"seeds": 3}) == 0
    frames(client, SMALL)
    assert last(SMALL | {"learners": {"backprop": {}}}) == 0
    assert last(changed() | {"network": {"hidden": 5}}) > 0
    upgd = lambda **own: changed(optimizer={"name": "upgd", **own}, replacement={"name": "continual", "rate": 0.1})
    assert last(upgd()) > 0
    assert last(upgd(sigma=0.1, weight_decay=0)) == 0


def test_compiling_is_announced_for_new_programs_only(client):
    setting = changed() | {"network": {"hidden": 6}}
    frames(client, SMALL)
    assert [frame["new"] for frame in frames(client, setting) if frame["kind"] == "compiling"] == [["crossprop"]]
    assert not [frame for frame in frames(client, setting) if frame["kind"] == "compiling"]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (SMALL | {"stream": {"name": "nowhere"}}, "the name of stream must be one of 'geoff'"),
        (changed(step_size=-1), "step_size must be a finite number above 0, got -1"),
        (changed(eta=2), "eta must be between 0 and 1, got 2"),
        (changed(etta=2), "did you mean 'eta'?"),
        (SMALL | {"learners": {}}, "learners must be 1 to 8, got 0"),
        (SMALL | {"seeds": 1000}, "seeds must be between 1 and 32, got 1000"),
        (SMALL | {"steps": 10**6}, "steps must be between 1 and 120, got 1000000"),
        (SMALL | {"import": ["os"]}, "a key of a setting must be one of"),
        (SMALL | {"network": {"hidden": 10**7}}, "the states of all runs must fit in 2 GiB for the lab, got"),
        (SMALL | {"network": {"hidden": [2] * 21}}, "hidden must have at most 20 layers in the lab, got 21"),
        (SMALL | {"network": {"hidden": 0}}, "hidden must be at least 1, got 0"),
        (SMALL | {"record_every": 0.5}, "record_every must be a whole number, got 0.5"),
        ("no table", "a setting must be a table, got 'no table'"),
    ],
)
def test_a_setting_that_cannot_be_run_is_named_before_work(client, setting, expected):
    answer = client.ask("runs", {"page": "a page", "setting": setting})
    assert answer.status == 422 and expected in answer.json()["error"]


def test_requests_are_bounded(client, monkeypatch):
    long = client.ask("runs", b" " * (server.MOST_BODY + 1))
    assert long.status == 422 and "at most 65536 bytes" in long.json()["error"]
    assert "a request must be JSON" in client.ask("runs", b"{").json()["error"]
    deep = b'{"page": "p", "paused": ' + b"[" * 30_000 + b"]" * 30_000 + b"}"
    assert [client.ask(name, deep).status for name in ("runs", "pause")] == [422, 422]
    assert "page must be" in client.ask("runs", {"setting": SMALL}).json()["error"]
    assert "paused must be" in client.ask("pause", {"page": "a page"}).json()["error"]
    monkeypatch.setattr(server, "MOST_PAGES", 0)
    assert "close one of them" in client.ask("runs", {"page": "a page", "setting": SMALL}).json()["error"]


def test_a_run_that_fails_on_the_way_is_told(client, monkeypatch):
    monkeypatch.setattr(live.PageRuns, "_advance", lambda self, groups: 1 / 0)
    assert frames(client, SMALL)[-1] == {"kind": "error", "error": "ZeroDivisionError: division by zero"}
    until(lambda: not client.pages.runs)


def test_diverged_runs_are_counted_and_their_curves_end(client):
    found = frames(client, changed(step_size=1e3))
    assert only(found, "end")["diverged"] == {"crossprop": 2}
    assert joined(found)["loss"]["crossprop"]["mean"][-1] is None


def test_examples_are_kept_while_there_is_room(client, monkeypatch):
    shared = client.pages.shared
    only(frames(client, SMALL), "end")
    kept = {**shared.tables}
    only(frames(client, SMALL), "end")
    assert kept and all(shared.tables[key] is each for key, each in kept.items())
    monkeypatch.setattr(live, "MOST_EXAMPLES", 0)
    only(frames(client, SMALL | {"stream": SMALL["stream"] | {"noise": 0.7}}), "end")
    assert len(shared.tables) == 1


NAMED = {
    "stream": {"name": "geoff", "examples": 60, "features": 20, "noise": 0.5},
    "network": {"hidden": 4, "incoming_scale": 0.5},
    "learners": {"crossprop": {"step_size": 0.01}, "mixed é": {"rule": "crossprop", "eta": 0.25, "step_size": 0.02}},
    "seeds": 2,
    "steps": 90,
}
APART = NAMED | {
    "network": {"hidden": [4, 3], "layer_norm": True, "bias": True},
    "learners": {"backprop": {"step_size": 0.01}, "foresight": {"step_size": 0.02, "ahead": -0.5, "layers": "top"}},
}


PARTS = SMALL | {
    "learners": {
        "backprop": {"optimizer": {"name": "autostep", "horizon": 200, "bound": "unit"}},
        "foresight": {"optimizer": "autostep", "replacement": {"name": "continual", "rate": 0.05, "as_run": True}},
    },
}
NESTED = SMALL | {
    "learners": {
        "backprop": {"optimizer": {"name": "l2_init", "base": {"name": "clip_weights", "kappa": 0.5, "base": "adam"}}}
    },
}


@pytest.mark.parametrize(
    "setting",
    [PARTS, NESTED, *(pytest.param(each, marks=pytest.mark.long) for each in (SMALL, APART, NAMED))],
    ids=["parts", "nested", "small", "apart", "named"],
)
def test_command_gives_the_same_records(setting, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    read = read_setting(setting)
    *before, line = code.as_command(read).rsplit("\n", 1)
    subprocess.run(["bash", "-c", "\n".join(before)], check=True)
    main(shlex.split(line)[1:])
    space = {}
    exec(code.as_python(read), space)
    records = space["records"]
    assert records.sizes["step"] == (read.steps - 1) // read.record_every + 1
    found = cp.open_sweep("lab-sweep")
    for name in read.learners:
        losses = found[name].loss
        np.testing.assert_array_equal(np.squeeze(losses.values), records.loss.sel(learner=name).values)


def test_code_of_optimizers_and_replacements_is_what_one_would_write(own):
    setting = read_setting(PARTS)
    python = code.as_python(setting)
    assert "optimizer=cp.optimizers.autostep(horizon=200, bound='unit')" in python
    assert "optimizer='autostep', replacement=cp.ContinualReplacement(rate=0.05, as_run=True)" in python
    nested = code.as_python(read_setting(NESTED))
    assert "optimizer=cp.optimizers.l2_init(base=cp.optimizers.clip_weights(kappa=0.5, base='adam'))" in nested
    both = {name: {"replacement": {"name": "own", "rate": 0.5}} for name in ("backprop", "crossprop")}
    setting = read_setting(SMALL | {"learners": both})
    python = code.as_python(setting)
    assert "REPLACEMENTS['own'](rate=0.5)" in python and "from crossprop.replacements import REPLACEMENTS" in python


def test_code_of_hostile_names_is_text(own, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    setting = read_setting(SMALL | {"learners": {HOSTILE: {"ahead": 2.0}, "b\nEOF\ntouch hacked\n": {"rule": HOSTILE}}})
    space = {}
    exec(code.as_python(setting), space)
    assert [*space["records"].learner.values] == [HOSTILE, "b\nEOF\ntouch hacked\n"]
    script, _ = code.as_command(setting).rsplit("\n", 1)
    subprocess.run(["bash", "-c", script], check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["lab.toml"]
    main(["sweep", "lab.toml"])


def test_runs_pause_go_on_and_stop_when_the_page_closes_or_runs_another_setting(client):
    pages, work = client.pages, client.pages.shared.work
    opened = {page: client.open("runs", {"page": page, "setting": LONG}) for page in ("one", "other")}
    hear = lambda page: json.loads(opened[page][1].readline())["kind"]
    until(lambda: hear("one") == "windows")
    assert set(pages.runs) == {"one", "other"}
    client.ask("pause", {"page": "one", "paused": True})
    until(lambda: hear("one") == "paused")
    assert hear("one") == "paused"
    until(lambda: hear("other") == "windows")
    client.ask("pause", {"page": "one", "paused": False})
    until(lambda: hear("one") == "windows")
    first = pages.runs["one"]
    further, _ = client.open("runs", {"page": "one", "setting": LONG})
    until(first.stop.is_set)
    assert pages.runs["one"] is not first
    for connection in (further, *(connection for connection, _ in opened.values())):
        connection.close()
    for _, answer in opened.values():
        answer.close()
    until(lambda: not pages.runs and not work)


def test_server_ends_although_a_page_listens():
    with serving() as client:
        connection, answer = client.open("runs", {"page": "one", "setting": LONG})
        assert json.loads(answer.readline())["kind"] == "begin"
    with closing(connection):
        answer.read()
    assert not client.pages.runs and not client.lab.shared.work


def test_server_ends_although_something_is_compiled(monkeypatch):
    compiling, done = threading.Event(), threading.Event()
    monkeypatch.setattr(live, "SECONDS_TO_END", 0.1)
    monkeypatch.setattr("crossprop.execution.make_room", lambda: (compiling.set(), done.wait(60)))
    try:
        with serving() as client:
            connection, answer = client.open("runs", {"page": "one", "setting": SMALL})
            assert compiling.wait(60)
            began = time.monotonic()
        assert time.monotonic() - began < 5 and not client.lab.has_ended
        with closing(connection):
            answer.read()
    finally:
        done.set()


def test_browser_is_opened_with_a_private_file_and_without_the_token(monkeypatch, capsys):
    opened = []

    def look(address):
        page = Path(urlsplit(address).path)
        opened.append(
            (address, page, page.stat().st_mode & 0o777, page.parent.stat().st_mode & 0o777, page.read_text())
        )

    monkeypatch.setattr("webbrowser.open", look)
    serve = server.Lab.serve
    monkeypatch.setattr(server.Lab, "serve", lambda lab: (lab.stop(), serve(lab)))
    main(["lab", "http://127.0.0.1:1/old/#%7B%22a%22%7D"])
    ((address, page, mode, folder_mode, text),) = opened
    url = capsys.readouterr().out.split()[4]
    assert url.endswith("/#%7B%22a%22%7D") and f"url={url}" in text
    assert address.startswith("file:///") and urlsplit(url).path.strip("/") not in address
    assert (mode, folder_mode) == (0o600, 0o700) and not page.parent.exists()


def test_logging_of_the_process_is_left_alone():
    """Its handlers were closed, and with them the streams of absl's."""
    handler, closed = logging.NullHandler(), []
    handler.close = lambda: closed.append("handler")
    lab = server.Lab(0)
    lab.shared.close()
    lab.socket.close()
    assert not closed


def test_a_port_that_is_taken_is_named():
    with server.bind(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} cannot be used .*: give another one with --port"):
            server.bind(port)


@pytest.mark.long
def test_ctrl_c_ends_the_lab_cleanly(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from crossprop.learners import LEARNERS\nLEARNERS['mine'] = LEARNERS['frozen']\n"
    )
    words = [sys.executable, "-c", "from crossprop.cli import main; main()", "lab", "--no-open", "--import", "mine"]
    words += ["http://127.0.0.1:1/old/#%7B%7D"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as lab:
        url = lab.stdout.readline().split()[-1]
        assert url.startswith("http://127.0.0.1:") and url.endswith("/#%7B%7D")
        where = urlsplit(url)
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
        connection.request("GET", where.path + "catalogue")
        assert "mine" in [one["name"] for one in json.load(connection.getresponse())["learners"]]
        connection.request("POST", where.path + "runs", json.dumps({"page": "p", "setting": LONG}))
        with closing(connection), connection.getresponse() as answer:
            assert json.loads(answer.readline())["kind"] == "begin"
            lab.send_signal(signal.SIGINT)
            out, err = lab.communicate(timeout=60)
    assert (lab.returncode, err) == (0, "") and out.endswith("The lab is closed.\n")


def test_a_file_of_classes_opens_with_the_step_size_for_classes(monkeypatch, tmp_path):
    (file := tmp_path / "data.csv").write_text("size,kind\n" + "81,flat\n64,house\n" * 5)
    monkeypatch.setitem(STREAMS, str(file), dict)  # put back after the test
    serve = server.Lab.serve
    monkeypatch.setattr(server.Lab, "serve", lambda lab: (lab.stop(), serve(lab)))
    main(["lab", str(file), "--target", "kind", "--no-open"])
    offered = {stream["name"]: stream for stream in catalogue()["streams"]}
    assert offered[str(file)]["step_sizes"]["sgd"] == 2**-5 and offered["geoff"]["step_sizes"]["sgd"] == 0.0005


def test_a_registered_stream_opens_with_the_step_size_that_it_has_on_the_command_line(monkeypatch):
    def broken():
        raise OSError("no such file")

    own = {"numbers": cp.Arrays(np.ones((3, 1)), np.ones(3)), "classes": cp.Arrays(np.ones((3, 1)), [0, 1, 1])}
    for name, stream in own.items():
        monkeypatch.setitem(STREAMS, name, lambda stream=stream: stream)
    monkeypatch.setitem(STREAMS, "broken", broken)
    offered = {stream["name"]: stream for stream in catalogue()["streams"]}
    for name in own:
        on_command_line = specification.build({"stream": name, "learners": ["backprop", "adam"]}).learners
        steps = {"sgd": on_command_line["backprop"].step_size, "adam": on_command_line["adam"].step_size}
        assert offered[name]["step_sizes"].items() >= steps.items()
    assert offered["classes"]["step_sizes"]["sgd"] == 2**-5 and offered["broken"]["step_sizes"]["sgd"] == 2**-8


def test_a_link_without_a_setting_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["lab", "http://127.0.0.1:1/token/", "--no-open"])
    assert "with a setting behind its #, or a file, got 'http" in capsys.readouterr().err
