"""Networks: initial weights by number and by name, biases, normalisation, depth, and clear errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import crossprop as cp
from crossprop.network import SCHEMES

KEY = jax.random.key(0)
pytestmark = pytest.mark.usefixtures("quick_compilation")
FAN_IN, SIZE = 400, 300


def weights_of(scheme, **options):
    """The initial weights into one hidden layer, and those into the outputs."""
    network = cp.Network(FAN_IN, (SIZE,), 200, incoming_scale=scheme, outgoing_scale=scheme, **options)
    (incoming,), outgoing = network.init(KEY)
    return np.asarray(incoming), np.asarray(outgoing)


@pytest.mark.parametrize(("activation", "gain"), [("relu", 2**0.5), ("tanh", 5 / 3), ("linear", 1.0)])
@pytest.mark.parametrize("scheme", ["kaiming", "kaiming-uniform", "lecun", "lecun-uniform"])
def test_weights_by_name_have_the_deviation_of_their_fan_in(scheme, activation, gain):
    incoming, outgoing = weights_of(scheme, activation=activation)
    gain = gain if scheme.startswith("kaiming") else 1.0
    assert incoming.std() == pytest.approx(gain / FAN_IN**0.5, rel=0.02) and abs(incoming.mean()) < 1e-3
    assert outgoing.std() == pytest.approx(1 / SIZE**0.5, rel=0.02)  # the outputs are linear
    bounded = np.abs(incoming).max() <= 3**0.5 * gain / FAN_IN**0.5 * (1 + 1e-6)
    assert bounded == scheme.endswith("uniform")


def test_sparse_weights_leave_every_unit_equally_many_and_at_least_one():
    incoming, outgoing = weights_of("sparse", bias=False)
    assert (np.count_nonzero(incoming, axis=0) == FAN_IN // 10).all()
    assert (np.count_nonzero(outgoing, axis=0) == SIZE // 10).all()
    assert np.count_nonzero(incoming, axis=1).min() > 0 and np.abs(incoming).max() <= 1 / FAN_IN**0.5
    (narrow,), _ = cp.Network(3, (5,), bias=False, incoming_scale="sparse").init(KEY)
    assert (np.count_nonzero(narrow, axis=0) == 1).all()


def test_biases_have_nothing_to_do_with_which_weights_are_zero():
    incoming, _ = cp.Network(10, 1000, incoming_scale="sparse", bias=True, bias_scale=1.0).init(KEY)
    weights, biases = np.asarray(incoming[:-1]), np.asarray(incoming[-1])
    means = np.array([biases[own != 0].mean() for own in weights])
    assert (np.abs(means) < 0.5).all(), means  # of about 100 biases each


def test_weights_and_biases_as_in_pytorch_are_uniform_up_to_the_root_of_their_fan_in():
    incoming, outgoing = weights_of("pytorch", bias=True)
    for values, fan_in in ((incoming, FAN_IN), (outgoing, SIZE)):
        for part in (values[:-1], values[-1]):
            assert 0.97 < np.abs(part).max() * fan_in**0.5 <= 1 + 1e-6
            assert part.std() == pytest.approx((3 * fan_in) ** -0.5, rel=0.1)
    assert (weights_of("pytorch", bias=True, bias_scale=0)[0][-1] == 0).all()


@pytest.mark.long
def test_biases_are_normal_with_weights_by_number_and_zero_with_weights_by_name():
    by_number, _ = weights_of(0.5, bias=True)
    by_name, _ = weights_of("lecun", bias=True)
    own, _ = weights_of("lecun", bias=True, bias_scale=2.0)
    none, _ = weights_of(0.5, bias=True, bias_scale=0)
    assert by_number[-1].std() == pytest.approx(0.5, rel=0.1) and own[-1].std() == pytest.approx(2.0, rel=0.1)
    assert (by_name[-1] == 0).all() and (none[-1] == 0).all() and none[:-1].std() == pytest.approx(0.5, rel=0.02)


def test_every_layer_can_have_its_own_scale():
    incoming, outgoing = cp.Network(50, (60, 70), 80, bias=False, incoming_scale=(0.1, 3)).init(KEY)
    assert [matrix.shape for matrix in incoming] == [(50, 60), (60, 70)] and not outgoing.any()
    assert [float(matrix.std()) for matrix in incoming] == pytest.approx([0.1, 3], rel=0.05)


def test_by_default_the_first_answers_are_0_and_units_begin_with_unit_size_and_a_bias():
    (incoming,), outgoing = cp.Network(FAN_IN, SIZE).init(KEY)
    assert incoming.shape == (FAN_IN + 1, SIZE) and outgoing.shape == (SIZE + 1, 1) and not outgoing.any()
    assert float(incoming[:-1].std()) == pytest.approx(FAN_IN**-0.5, rel=0.02) and not incoming[-1].any()


def test_the_network_of_the_paper_has_no_bias_and_normal_weights():
    assert cp.Network.paper(3, 4, 2, loss="softmax") == cp.Network(
        3, 4, 2, "tanh", "softmax", bias=False, incoming_scale=1.0, outgoing_scale=1.0
    )
    assert cp.Network.paper(3, 4, bias=True, outgoing_scale=0) == cp.Network(3, 4, bias=True, incoming_scale=1.0)
    (incoming,), outgoing = cp.Network.paper(FAN_IN, SIZE).init(KEY)
    assert float(incoming.std()) == pytest.approx(1, rel=0.02) and float(outgoing.std()) == pytest.approx(1, rel=0.2)
    with pytest.raises(TypeError, match="multiple values for argument 'hidden'"):
        cp.Network.paper(3, 4, hidden=5)


def test_layer_norm_gives_every_layer_mean_0_and_variance_1_before_its_activation():
    network = cp.Network(5, (40, 30), activation="linear", layer_norm=True, bias=True)
    x = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    for layer in network.activations(network.init(KEY)[0], jnp.asarray(x)):
        np.testing.assert_allclose(layer.phi.mean(axis=1), 0, atol=1e-6)
        np.testing.assert_allclose(layer.phi.var(axis=1), 1, rtol=1e-4)


def test_sizes_can_be_lists_and_numpy_numbers():
    for sizes in ([4, 2], (np.int64(4), 2), np.array([4, 2])):
        assert cp.Network(3, sizes) == cp.Network(3, (4, 2))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"hidden": (4, 0)}, ValueError, r"hidden\[1\] must be at least 1, got 0"),
        ({"hidden": (4, 2.5)}, TypeError, r"hidden\[1\] must be a whole number, got 2.5"),
        ({"hidden": "ab"}, TypeError, "hidden must be a whole number, got 'ab'"),
        ({"incoming_scale": (1,)}, ValueError, r"incoming_scale must be one value, or .* 2, got \(1,\)"),
        ({"incoming_scale": (1, "x")}, ValueError, rf"incoming_scale\[1\] must be one of '{SCHEMES[0]}'.*, got 'x'"),
        ({"outgoing_scale": "kaimin"}, ValueError, "outgoing_scale must .* did you mean 'kaiming'"),
        ({"layer_norm": 1}, TypeError, "layer_norm must be True or False, got 1"),
        ({"bias_scale": -1}, ValueError, "bias_scale must be .*at least 0, got -1"),
        ({"activation": "gelu"}, ValueError, "activation must be one of .* got 'gelu'"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        cp.Network(**{"inputs": 3, "hidden": (4, 2)} | arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"incoming_step_size": (0.1,)}, r"incoming_step_size must be a number, or have one per hidden layer, 2, got"),
        ({"incoming_step_size": (0.1, -1)}, r"incoming_step_size\[1\] must be a finite number above 0, got -1"),
        ({"layers": "bottom"}, "layers must be one of 'top', 'all', got 'bottom'"),
        ({"horizon": 0.5}, "horizon must be a finite number, at least 1, got 0.5"),
        ({"ahead": np.inf}, "ahead must be a finite number, got inf"),
    ],
)
def test_bad_arguments_of_a_deep_learner_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        cp.Foresight(cp.Network(3, (4, 2)), 0.1, **arguments)


@pytest.mark.parametrize("given", [None, (0.1,), "0.1", True])
def test_a_step_size_of_one_layer_is_a_number(given):
    with pytest.raises(TypeError, match=r"incoming_step_size\[0\] must be a number, got "):
        cp.Backprop(cp.Network(3, (4, 2)), 0.1, incoming_step_size=(given, 0.1))
