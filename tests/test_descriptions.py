"""What a class says about its hyperparameters is enough: checks, names, sliders and sweeps read it there."""

import json

import jax
import pytest

import crossprop as cp
from crossprop.configuration import configuration
from crossprop.descriptions import backprop_at, built, facts, learner_info
from crossprop.hyperparameters import Hyperparameter, hyperparameter
from crossprop.lab.catalogue import catalogue
from crossprop.learners import LEARNERS
from crossprop.registry import arguments_of

NET = cp.Network(3, 4)


class Mixed(cp.Backprop):
    """A rule with a hyperparameter of its own."""

    mix: Hyperparameter = hyperparameter(default=0.0, low=0, high=1, scale="linear", backprop_at=1)


@pytest.fixture
def mixed(own_registries):
    LEARNERS["mixed"] = Mixed
    return configuration(Mixed(NET, 0.1, mix=1))


def test_a_field_is_the_only_place_of_a_hyperparameter(mixed):
    with pytest.raises(ValueError, match=r"mix must be between 0 and 1, got 2"):
        Mixed(NET, 0.1, mix=2)
    assert facts(mixed, "mix").limits == (0, 1) and backprop_at(mixed) == "mix"
    assert backprop_at(mixed | {"mix": 0.5}) is None
    (offered,) = (each for each in catalogue()["learners"] if each["name"] == "mixed")
    (control,) = (each for each in offered["controls"] if each["name"] == "mix")
    assert (control["kind"], control["scale"], control["low"], control["high"]) == ("slider", "linear", 0, 1)


def test_a_rule_is_named_as_it_is_registered(mixed):
    assert learner_info(mixed) == ("mixed", "sgd", "none")


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_is_built_from_its_description(name):
    own = {"replacement": "redo"} if "replacement" in arguments_of(LEARNERS[name]) else {"objective": "ica"}
    learner = LEARNERS[name](cp.Network(3, (4, 2)), 0.1, **own)
    again = built(json.loads(json.dumps(configuration(learner))), {})
    assert again == learner and jax.tree.structure(again) == jax.tree.structure(learner)
