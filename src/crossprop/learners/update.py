"""The update of a credit rule, for `learner.update` and for all engines.

An update has two halves. `learn_above` updates everything except the first layer's weights and memory matrices.
`move_layer` moves these by the coefficients that the first half gave; an engine may do it later, or for many examples
at once.
"""

from collections.abc import Callable
from typing import Any

from jax import Array

from crossprop.learners.credit import Credit, Layer, Outcome, State
from crossprop.learners.layer_update import credit_layers, credited, forward, move_layer, move_outgoing, moved, remember
from crossprop.learners.renewal import renewed
from crossprop.learners.stack import Stack
from crossprop.learners.whole_network import learn_at_once


def learn(
    stack: Stack, state: State, inputs: Any, y: Array, move: Callable[..., Layer] = move_layer
) -> tuple[State, Outcome]:
    """A whole update; `inputs` have their constant. An engine may have its own way to `move` the first layer."""
    if stack.whole.network_optimizer() is not None:
        state, outcome, phis = learn_at_once(stack, state, inputs, y)
        return renewed(stack, state, phis), outcome
    if not state.layers:
        return _learn_linear(stack, state, inputs, y)
    z = stack.nets[0].weigh(inputs, state.layers[0].weights)
    state, credit, outcome, phis = _learn_above(stack, state, z, y)
    state = state.with_first(move(stack.rules[0], state.layers[0], credit, inputs, outcome.loss))
    return renewed(stack, state, phis), outcome


def _learn_linear(stack: Stack, state: State, inputs: Any, y: Array) -> tuple[State, Outcome]:
    outputs = stack.top.outputs_of(inputs, state.outgoing)
    loss, delta = stack.top.error(outputs, y)
    return move_outgoing(stack, state, delta, inputs, loss)[0], Outcome(loss, outputs)


def learn_above(stack: Stack, state: State, z: Array, y: Array) -> tuple[State, Credit, Outcome]:
    """Updates everything except the first layer's weights and memory matrices, which the caller moves by `credit`."""
    return _learn_above(stack, state, z, y)[:3]


def _learn_above(stack: Stack, state: State, z: Array, y: Array) -> tuple[State, Credit, Outcome, tuple[Array, ...]]:
    """The same, with the units of every hidden layer where units are replaced."""
    activations, features = forward(stack, state, z)
    outputs = stack.top.outputs_of(features[-1], state.outgoing)
    loss, delta = stack.top.error(outputs, y)
    credits = credit_layers(stack, state, activations, delta)
    features = credited(features, credits)
    state, step = move_outgoing(stack, state, delta, features[-1], loss)
    layers = list(state.layers)
    for at in reversed(range(len(layers))):
        layers[at] = remember(stack.rules[at], stack.nets[at], layers[at], credits[at], step)
        if at > 0:
            layers[at], move = moved(stack.rules[at], layers[at], credits[at], features[at - 1], loss)
            step = stack.nets[at - 1].transposed(move)
    still_to_follow = credits[0]._replace(unit_memory=None, step_memory=None, error=None)
    phis = () if state.replacement is None else tuple(units.phi for units in activations)
    return state._replace(layers=tuple(layers)), still_to_follow, Outcome(loss, outputs), phis
