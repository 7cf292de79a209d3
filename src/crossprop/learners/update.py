"""The update of a credit rule, for `learner.update` and for all engines.

An update has two halves. `respond` is all that happens above the first weights. `move_layer` moves these and their
memory matrices by the coefficients that the first half gave; an engine may do it later, or for many examples at once.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jax import Array

from crossprop.learners.credit import Credit, Outcome
from crossprop.learners.layer_update import credit_layers, credited, forward, move_layer, move_outgoing, moved, remember
from crossprop.learners.renewal import renewed
from crossprop.learners.unit_major import Layer, Stack, UnitMajorState
from crossprop.learners.whole_network import learn_at_once


def learn(
    stack: Stack, work: UnitMajorState, inputs: Any, y: Array, move: Callable[..., Layer] = move_layer
) -> tuple[UnitMajorState, Outcome]:
    """A whole update; `inputs` have their constant. An engine may have its own way to `move` the first layer."""
    if stack.whole.network_optimizer() is not None:
        work, outcome, phis = learn_at_once(stack, work, inputs, y)
        return renewed(stack, work, phis), outcome
    if not work.layers:
        return _learn_linear(stack, work, inputs, y)
    z = stack.nets[0].weigh(inputs, work.layers[0].weights)
    work, credit, outcome, phis = respond_and_show(stack, work, z, y)
    work = work.with_first(move(stack.rules[0], work.layers[0], credit, inputs, outcome.loss))
    return renewed(stack, work, phis), outcome


def _learn_linear(stack: Stack, work: UnitMajorState, inputs: Any, y: Array) -> tuple[UnitMajorState, Outcome]:
    outputs = stack.top.outputs_of(inputs, work.outgoing)
    loss, delta = stack.top.error(outputs, y)
    return move_outgoing(stack, work, delta, inputs, loss)[0], Outcome(loss, outputs)


def respond(stack: Stack, work: UnitMajorState, z: Array, y: Array) -> tuple[UnitMajorState, Credit, Outcome]:
    """The first half of an update: all is new but the first layer's weights and memory matrices, which still have to
    follow `credit`."""
    return respond_and_show(stack, work, z, y)[:3]


def respond_and_show(
    stack: Stack, work: UnitMajorState, z: Array, y: Array
) -> tuple[UnitMajorState, Credit, Outcome, tuple[Array, ...]]:
    """`respond`, and the units of every hidden layer where units are replaced."""
    activations, features = forward(stack, work, z)
    outputs = stack.top.outputs_of(features[-1], work.outgoing)
    loss, delta = stack.top.error(outputs, y)
    credits = credit_layers(stack, work, activations, delta)
    features = credited(features, credits)
    work, step = move_outgoing(stack, work, delta, features[-1], loss)
    layers = list(work.layers)
    for at in reversed(range(len(layers))):
        layers[at] = remember(stack.rules[at], stack.nets[at], layers[at], credits[at], step)
        if at > 0:
            layers[at], move = moved(stack.rules[at], layers[at], credits[at], features[at - 1], loss)
            step = stack.nets[at - 1].transposed(move)
    still_to_follow = credits[0]._replace(unit_memory=None, step_memory=None, error=None)
    phis = () if work.replacement is None else tuple(units.phi for units in activations)
    return replace(work, layers=tuple(layers)), still_to_follow, Outcome(loss, outputs), phis
