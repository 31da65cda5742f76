"""Every option: its range, its message, its flag, its text."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import odmlib
from odmlib.errors import ParameterError
from odmlib.machines.declarations import DECLARATIONS
from odmlib.options import KERNELS, MACHINES, TrainOptions, flag_of, option_fields, without_effect

GOOD = {
    "machine": list(MACHINES),
    "kernel": list(KERNELS),
    "degree": [1, 3, 100, np.int64(2)],
    "gamma": ["scale", "auto", "mean", 1e-300, 1, 1e300, np.float32(0.5)],
    "coef0": [-1e300, 0, 1],
    "C": [None, 1e-300, 1, 1e300, np.float64(2)],
    "lambda_": [None, 1e-300, 1e300],
    "lambda1": [None, 0, 3.5],
    "lambda2": [None, 0, 1e9],
    "nu": [0, 0.5, 1, 1024.0],
    "theta": [0, 0.2, 0.999999],
    "epsilon": [0.1],
    "threshold": ["midpoint", "kkt", "none"],
    "decision_scale": ["unit", "svm"],
    "bias": [None, -1, 0, 2.5],
    "tol": [1e-300, 1e-3, 1],
    "cache_mb": [1e-3, 200, 1e9],
    "shrinking": [True, False, 0, 1],
    "multiclass": [None, "ovo", "ovr"],
    "probability": [True, False, 0, 1],
    "coverage": [True, False, 0, 1],
    "relaxation": ["majorise", "frozen"],
    "unlabeled": [0, -1, "?", None],
    "balance": ["band", "equal", 0.3, {1: 0.2, 2: 0.8}, {"a": np.float64(0.5)}],
    "max_disagree": [None, 0, 0.1, 1],
    "max_cuts": [None, 0, 1000],
    "raw": [False, 0],
    "hard_margin": [False, 0],
    "partition": ["stratified-class"],
    "partitions": [None],
    "levels": [None],
    "stop_level": [None],
    "pass_up": ["support"],
    "landmarks": [None],
    "approx": [None],
    "rank": [None],
    "eta": [None],
    "inner_steps": [None],
    "solver": ["auto", "working-set"],
    "threads": [None, 1, 1024],
    "seed": [0, 2**63 - 1, np.int32(7)],
    "max_iter": [None, 1, 2**62],
    "time_limit": [None, 1e-9, 1e9],
    "max_vectors": [None, 1, 2**62],
    "class_weight": [None, "balanced", {1: 2}, {"a": 0, "b": 0.5}, {}],
    "sample_weight": [None],
    "init": [None],
    "callback": [None, print],
}
NO_NUMBERS = ["1", "abc", [1], np.array([1.0]), 1j, {}]
NOT_FINITE = [np.nan, np.inf, -np.inf]
BAD = {
    "machine": ["ODM", "", 2, None],
    "kernel": ["RBF", "", 2, None, "laplace"],
    "degree": [0, -1, 101, 2.5, 2.0, None, *NO_NUMBERS, *NOT_FINITE],
    "gamma": [0, -1, "0.5", "wide", None, *NO_NUMBERS, *NOT_FINITE],
    "coef0": [None, *NO_NUMBERS, *NOT_FINITE],
    "C": [0, -1, *NO_NUMBERS, *NOT_FINITE],
    "lambda_": [0, -1, *NO_NUMBERS, *NOT_FINITE],
    "lambda1": [-1, *NO_NUMBERS, *NOT_FINITE],
    "lambda2": [-1, *NO_NUMBERS, *NOT_FINITE],
    "nu": [-0.1, *NO_NUMBERS, *NOT_FINITE],
    "theta": [-0.1, 1, 1.5, *NO_NUMBERS, *NOT_FINITE],
    "epsilon": [-0.1, *NO_NUMBERS, *NOT_FINITE],
    "threshold": ["", "Midpoint", None, 0],
    "decision_scale": ["", "SVM", None, 1],
    "bias": [*NO_NUMBERS, *NOT_FINITE],
    "tol": [0, -1, 1.1, None, *NO_NUMBERS, *NOT_FINITE],
    "cache_mb": [0, -1, 1e13, None, *NO_NUMBERS, *NOT_FINITE],
    "shrinking": [2, -1, "1", None, "no"],
    "multiclass": ["", "OVO", "binary", "joint", 1],
    "probability": [2, -1, "1", None, "no"],
    "coverage": [2, -1, "1", None, "no"],
    "relaxation": ["", "Frozen", None, 1],
    "balance": ["", "Band", "fraction", "0.3", 0, 1, -0.1, {}, {1: 0}, {1: "a"}, None, *NOT_FINITE],
    "max_disagree": [-0.1, 1.1, *NO_NUMBERS, *NOT_FINITE],
    "max_cuts": [-1, 1001, 1.5, *NO_NUMBERS, *NOT_FINITE],
    "raw": [2, -1, "1", None, "no"],
    "hard_margin": [2, -1, "1", None, "no"],
    "partition": ["", "Random", None, 1],
    "partitions": [0, -1, 1.5, 2**31, *NO_NUMBERS, *NOT_FINITE],
    "levels": [-1, 31, 1.5, *NO_NUMBERS, *NOT_FINITE],
    "stop_level": [-1, 31, 1.5, "Auto", *NO_NUMBERS, *NOT_FINITE],
    "pass_up": ["", "All", None, 1],
    "landmarks": [0, -1, 1.5, 2**31, *NO_NUMBERS, *NOT_FINITE],
    "approx": ["", "Nystrom", 1],
    "rank": [0, -1, 1.5, 2**31, *NO_NUMBERS, *NOT_FINITE],
    "eta": [0, -1, *NO_NUMBERS, *NOT_FINITE],
    "inner_steps": [0, -1, 1.5, *NO_NUMBERS, *NOT_FINITE],
    "solver": ["", "newton", "fast", None, 1],
    "threads": [0, -1, 1025, 1.5, *NO_NUMBERS, *NOT_FINITE],
    "seed": [-1, 2**63, 1.5, None, *NO_NUMBERS, *NOT_FINITE],
    "max_iter": [0, -2, 1.5, 2**63, *NO_NUMBERS, *NOT_FINITE],
    "time_limit": [0, -1, *NO_NUMBERS, *NOT_FINITE],
    "max_vectors": [0, -1, 1.5, 2**63, *NO_NUMBERS, *NOT_FINITE],
    "class_weight": ["even", 3, [1, 2], {1: -1}, {1: np.nan}, {1: np.inf}, {1: "2"}, {1: None}],
    "callback": [3, "print"],
}


def test_every_option_is_tested():
    names = [option.name for option in option_fields()]
    assert list(GOOD) == names
    assert set(names) - set(BAD) == {"sample_weight", "init", "unlabeled"}  # looked at where they are used


@pytest.mark.parametrize("name", GOOD)
def test_good_values(name):
    for value in GOOD[name]:
        assert getattr(TrainOptions(**{name: value}), name) is value


@pytest.mark.parametrize("name", BAD)
def test_bad_values_are_named(name):
    for value in BAD[name]:
        with pytest.raises(ParameterError) as caught:
            TrainOptions(**{name: value})
        message = str(caught.value)
        flags = next(option for option in option_fields() if option.name == name).metadata["flags"]
        if name == "class_weight":
            assert "class_weight" in message or "class weight" in message
        elif name != "machine" or value not in MACHINES:
            assert message.startswith(f"{name} must be ")
            assert not flags or flags[0] in caught.value.shell.split(" must be ")[0]
        shown = next(iter(value.values())) if name == "class_weight" and isinstance(value, dict) else value
        assert str(shown) in message or repr(shown) in message


def test_two_names_for_one_thing():
    with pytest.raises(ParameterError, match="give one of them"):
        TrainOptions(C=1, lambda_=1)


@pytest.mark.parametrize("machine", MACHINES)
def test_solvers_go_with_machines_and_kernels(machine):
    everything = {name for other in DECLARATIONS.values() for name in other.linear.names + other.kernel.names}
    for kernel in KERNELS:
        own = DECLARATIONS[machine].linear if kernel == "linear" else DECLARATIONS[machine].kernel
        for solver in everything:
            message = message_of({"machine": machine, "kernel": kernel, "solver": solver})
            if solver in own.names:
                assert message is None
            else:
                assert message.startswith(f"--solver must be one of {', '.join(own.names)} for ")
                assert message.endswith(f"found {solver!r}")


def test_mcodm_has_solvers_of_its_own():
    """It used to take every linear solver's name, and to train with another."""
    with pytest.raises(ParameterError, match="one of auto, newton, dcd for machine mcodm, found 'blocks'"):
        TrainOptions(machine="mcodm", kernel="linear", solver="blocks")


def test_every_declared_option_is_an_option():
    declared = {}
    for machine in DECLARATIONS.values():
        for name, option in machine.options.items():
            assert declared.setdefault(name, option) is option  # machines may share one, not its name alone
    assert set(declared) <= {option.name for option in option_fields()}


def test_defaults_of_the_bias():
    assert [TrainOptions(kernel=kernel).bias_value for kernel in KERNELS] == [1, 1, 0, 0, 0]
    assert TrainOptions(kernel="linear", bias=-1).bias_value == 0
    assert TrainOptions(kernel="rbf", bias=2).bias_value == 2


def test_lambda_and_c():
    assert TrainOptions().weights_for(10) == (1, 10)
    assert TrainOptions(C=3).weights_for(10) == (3, 30)
    assert TrainOptions(lambda_=5).weights_for(10) == (0.5, 5)
    with pytest.raises(ParameterError, match="overflows"):
        TrainOptions(C=1e308).weights_for(10)


def test_nu_above_1():
    """The ODM paper's C1 and C2 are independent: C2 = nu C1."""
    refused = {
        "ssodm": "nu (-n) must be at least 0 and at most 1, found 4.0",
        "odmo": "nu (-n) must be above 0 and below 1, found 4.0",
    }
    for machine in MACHINES:
        assert message_of({"machine": machine, "nu": 4.0}) == refused.get(machine)


def test_machines():
    assert MACHINES.index("odm") == 2
    for machine in MACHINES:
        assert TrainOptions(machine=machine).machine == machine


def test_sodm_options_are_for_sodm():
    wishes = {"partition": "random", "partitions": 4, "levels": 2, "stop_level": 1, "landmarks": 10}
    TrainOptions(machine="sodm", **wishes)
    approximate = {"approx": "nystrom", "rank": 7}
    TrainOptions(machine="sodm", solver="newton", **approximate)
    wishes |= approximate
    for name, value in wishes.items():
        with pytest.raises(ParameterError, match=f"{name} is for machine sodm"):
            TrainOptions(**{name: value})


def test_defaults_depend_on_the_machine():
    for machine, nu, theta in (("odm", 0.5, 0.2), ("sodm", 0.5, 0.2), ("odmr", 1.0, 0.2), ("odmo", 0.1, 0.0)):
        options = TrainOptions(machine=machine)
        assert (options.nu, options.theta) == (nu, theta)
        assert TrainOptions(machine=machine, nu=0.3).nu == 0.3


def test_flags():
    flags = [flag for option in option_fields() for flag in option.metadata["flags"]]
    assert len(flags) == len(set(flags))
    assert flag_of("theta") == "theta (-p)"
    assert flag_of("callback") == "callback"
    for option in option_fields():
        assert option.metadata["help"]
        assert bool(option.metadata["flags"]) == bool(option.metadata["usage"])


def message_of(given: dict) -> str | None:
    """What TrainOptions says against the options; None if it takes them."""
    try:
        TrainOptions(**given)
    except ParameterError as error:
        return error.shell
    return None


def test_wrong_combinations_have_the_messages_of_old():
    """The file was written by version 0.1.0, with these exceptions: nu may be above 1, None is the default of
    nu and theta, gamma may be mean, mcodm, odm and odml name their own solvers, linear blocks of sodm may
    have strata, its linear machines levels, and its stop level may be auto, an option of sodm for another
    machine is told before a wrong solver is, long flags stand alone, and a name in capitals and a
    number get a suggestion."""
    cases = json.loads((Path(__file__).parent / "option_messages.json").read_text())
    for case in cases:
        if case["given"] in ({"nu": None}, {"theta": None}):
            continue
        for names, message in case["messages"]:
            for machine in MACHINES[:7] if names == "all" else names.split():
                assert message_of({"machine": machine} | case["given"]) == message, (machine, case["given"])
            if not names:  # the machine itself is wrong
                assert message_of(case["given"]) == message


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("c", "C"),
        ("cache_size", "cache_mb"),
        ("verbose", "callback"),
        ("dual", "solver"),
        ("gama", "'gamma'"),
    ],
)
def test_names_of_other_libraries_get_a_suggestion(name, meant):
    with pytest.raises(TypeError, match=f"has no option '{name}'; did you mean {meant}"):
        odmlib.train([[1.0], [2.0]], [1, 2], **{name: 1})


def test_no_limit_of_iterations_as_scikit_learn_says_it():
    assert TrainOptions(max_iter=-1).max_iter is None


def test_python_errors_have_no_flags_and_plain_numbers():
    for given, message in (
        ({"theta": np.float64(2.0)}, "theta must be at least 0 and below 1, found 2.0"),
        ({"degree": np.float64(2.0)}, "degree must be a whole number from 1 to 100, found 2.0"),
        ({"kernel": "RBF"}, "kernel must be one of linear, poly, rbf, sigmoid, precomputed, found 'RBF'; "
         "did you mean 'rbf'?"),
    ):  # fmt: skip
        with pytest.raises(ParameterError) as caught:
            TrainOptions(**given)
        assert str(caught.value) == message
        assert str(pickle.loads(pickle.dumps(caught.value))) == message


@pytest.mark.parametrize(
    ("given", "notes"),
    [
        ({"kernel": "linear", "gamma": 4.0}, ["gamma (-g) has no effect with kernel linear"]),
        ({"machine": "svm", "nu": 0.3}, ["nu (-n) has no effect with machine svm"]),
        ({"machine": "kmomd", "bias": 1.0}, ["bias (-B) has no effect with machine kmomd"]),
        ({"threshold": "kkt"}, ["threshold (--threshold) has no effect with machine odm"]),
        ({"gamma": 4.0, "nu": 0.3}, []),
        ({"machine": "ssodm", "unlabeled": 3, "lambda1": 2.0}, []),
    ],
)
def test_options_without_effect_are_noted(given, notes):
    assert list(without_effect(TrainOptions(**given), given)) == notes
