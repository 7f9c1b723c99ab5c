"""The name is the object is the command-line word: parse inverts str, and refuses in sentences."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import offpolicy as op
from offpolicy.errors import EstimatorError
from offpolicy.estimators._named import NAMED, as_estimator
from tests.support.members import PARAMETRIC, PLAIN
from tests.support.refusals import refuses

NAMES = list(NAMED)
UP_TO_ONE = [name for name in PARAMETRIC if NAMED[name].parameter_limit == 1.0]
UNBOUNDED = [name for name in PARAMETRIC if name not in UP_TO_ONE]


def make(name: str, value: float) -> op.Estimator:
    kind = NAMED[name]
    return kind(**{kind.parameter_name: value})


@pytest.mark.parametrize("name", NAMES)
def test_a_bare_name_round_trips(name):
    estimator = op.parse(name)
    assert type(estimator) is NAMED[name]
    assert str(estimator) == name
    assert op.parse(name.lower()) == op.parse(f"  {name.upper()} ") == estimator


@pytest.mark.parametrize("name", UNBOUNDED)
@settings(derandomize=True, deadline=None)
@given(value=st.floats(0.0, math.inf) | st.integers(0, 10**300))
@example(value=0)
@example(value=-0.0)
@example(value=math.inf)
@example(value=1e-300)
@example(value=1e300)
@example(value=1e15)
@example(value=2**53 + 1)
def test_every_parameter_round_trips(name, value):
    estimator = make(name, value)
    assert op.parse(str(estimator)) == estimator
    assert estimator.parameter == float(value)


@pytest.mark.parametrize("name", UP_TO_ONE)
@settings(derandomize=True, deadline=None)
@given(value=st.floats(0.0, 1.0))
@example(value=0)
@example(value=1)
@example(value=1e-300)
def test_every_share_round_trips(name, value):
    estimator = make(name, value)
    assert op.parse(str(estimator)) == estimator
    assert estimator.parameter == value


@pytest.mark.parametrize(
    ("estimator", "text"),
    [
        (op.CAB(M=10), "CAB(M=10)"),
        (op.CAB(M=0.5), "CAB(M=0.5)"),
        (op.CAB(M=-0.0), "CAB(M=0)"),
        (op.CABDR(M=math.inf), "CAB-DR(M=inf)"),
        (op.SWITCHDR(M=1e300), "SWITCH-DR(M=1e+300)"),
        (op.SB(tau=0.25), "SB(tau=0.25)"),
        (op.DRos(lam=2), "DRos(lam=2)"),
        (op.CAB(), "CAB"),
    ],
)
def test_text_of_an_estimator(estimator, text):
    assert str(estimator) == text
    assert op.parse(text) == estimator


@pytest.mark.parametrize(
    "text", ["cab(10)", "CAB(M = 10)", " Cab ( m=10.0 ) ", "CAB(1e1)", "CAB(10)", "CAB(M=10)"]
)
def test_spellings_of_one_estimator(text):
    assert op.parse(text) == op.CAB(M=10)


@pytest.mark.parametrize("text", ["CAB", "CAB()", "cab( )"])
def test_a_parameter_left_out_is_yet_to_be_chosen(text):
    assert op.parse(text) == op.CAB()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CBA", 'There is no estimator "CBA". Did you mean "CAB"? The names are DM, IPS, '),
        ("CABDR(M=3)", 'There is no estimator "CABDR". Did you mean "CAB-DR"?'),
        ("xyzzy", 'There is no estimator "xyzzy". The names are DM, IPS, '),
        ("CAB(tau=3)", 'the parameter of CAB is M, not tau. Write "CAB(M=3)".'),
        ("DRos(lambda=3)", 'the parameter of DRos is lam, not lambda. Write "DRos(lam=3)".'),
        ("CAB(M=)", '"CAB(M=)": the parameter has no value.'),
        ("CAB(M=ten)", '"CAB(M=ten)": "ten" is not a number.'),
        ("IPS(3)", '"IPS(3)": IPS has no parameter.'),
        ("IPS(M=3)", '"IPS(M=3)": IPS has no parameter.'),
        ("IPS()", "IPS has no parameter"),
        ("IPS(M=)", "IPS has no parameter"),
        ("CAB(", '"CAB(" is not an estimator. Write a name, with its parameter in brackets'),
        ("CAB M=10", '"CAB M=10" is not an estimator.'),
        ("CAB(M=1)(M=2)", "is not an estimator."),
        ("CAB(M=1, tau=2)", "is not an estimator."),
        ("", '"" is not an estimator.'),
    ],
)
def test_parse_says_what_is_wrong(text, message):
    with pytest.raises(EstimatorError) as caught:
        op.parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *((name, -1.0, "is -1.0; it must be a number") for name in PARAMETRIC),
        *((name, math.nan, "is nan; it must be a number") for name in PARAMETRIC),
        *((name, 1.5, "is 1.5; it must be a number from 0 to 1.") for name in UP_TO_ONE),
        *((name, math.inf, "is inf; it must be a number from 0 to 1.") for name in UP_TO_ONE),
    ],
)
def test_parameters_out_of_range(name, value, message):
    parameter = NAMED[name].parameter_name
    for attempt in (lambda: make(name, value), lambda: op.parse(f"{name}({value})")):
        with pytest.raises(EstimatorError) as caught:
            attempt()
        assert f"{name}: {parameter} {message}" in str(caught.value)


@pytest.mark.parametrize(
    "value", ["ten", [1.0], 10**400, 1j], ids=["text", "list", "huge", "complex"]
)
def test_parameters_that_are_no_numbers(value):
    with refuses(EstimatorError, "M"):
        op.CAB(M=value)


def test_equal_estimators_are_one_key():
    assert op.CAB(M=10) == op.CAB(M=10.0) == op.parse("CAB(M=10)")
    assert (
        len({op.CAB(M=10), op.CAB(M=10.0), op.parse("cab(10)"), op.CAB(M=0), op.CAB(M=-0.0)}) == 2
    )


def test_unequal_estimators_differ():
    different = [op.CAB(), op.CAB(M=1), op.CAB(M=2), op.CABDR(M=1), op.CIPS(M=1), op.IPS(), op.DM()]
    assert len(set(different)) == len(different)


def test_estimators_are_frozen():
    estimator = op.CAB(M=10)
    with pytest.raises(FrozenInstanceError):
        estimator.M = 5.0


@pytest.mark.parametrize("name", PARAMETRIC)
def test_resolved_says_whether_the_parameter_is_there(name):
    assert not NAMED[name]().resolved
    assert NAMED[name]().parameter is None
    assert make(name, 0.5).resolved


@pytest.mark.parametrize("name", PLAIN)
def test_estimators_without_parameter_are_always_resolved(name):
    assert NAMED[name]().resolved
    assert NAMED[name]().parameter is None


def test_an_unresolved_estimator_has_no_formula():
    with refuses(EstimatorError, "M"):
        op.CAB().masses(*[0.5] * 2)


def test_as_estimator_takes_names_and_objects():
    assert as_estimator("DR") == as_estimator(op.DR()) == op.DR()


@pytest.mark.parametrize("thing", [op.DM, 3, None], ids=["class", "number", "none"])
def test_as_estimator_refuses_anything_else(thing):
    with pytest.raises(EstimatorError):
        as_estimator(thing)


def test_an_ice_is_written_as_its_label():
    constant = dict.fromkeys(("alpha", "beta", "gamma"), abs)
    assert str(op.ICE(**constant)) == "ICE"
    assert str(op.ICE(**constant, label="half")) == "half"
    assert op.ICE(**constant).resolved
