"""The grammar of policies: what text stands for, on the command line and in Python.

``column``, ``:item(column)``, ``:probability(column)``, ``:always(arm)``, ``:uniform``,
``:logged``, ``:softmax(scores, temperature=0.5)``, ``:greedy(scores, epsilon=0.05)``,
``:rule(case when … end)``, ``policy.json`` and ``python:module:function``; before any of them,
``NAME=``. What holds a comma, a parenthesis or a quote is quoted.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from offpolicy._core.door import Door
from offpolicy._core.quoting import outside, parts_of, unquoted
from offpolicy._core.saved import saved_file
from offpolicy.errors import ParameterError, did_you_mean
from offpolicy.logs import as_number
from offpolicy.logs.expressions import Expression
from offpolicy.policies._from_columns import (
    Always,
    Column,
    Item,
    Logged,
    Probability,
    Rule,
    ScoresColumn,
)
from offpolicy.policies._policies import EpsilonGreedy, Softmax, Uniform


class Named(NamedTuple):
    """A policy as text says it: its name, and what it is."""

    name: str
    spec: str


def named(text: str) -> Named:
    """``NAME=SPEC``, or ``SPEC``, which is then also the name: the name ends at the first = that
    stands outside parentheses."""
    if not (text.startswith((":", "file:", "python:")) or _CASE.match(text)):
        for at, character in outside(text):
            if character == "=":
                name, spec = unquoted(text[:at]), text[at + 1 :].strip()
                if not name or not spec:
                    missing = "name before" if not name else "policy after"
                    raise _refused(text, f"there is no {missing} the =.")
                return Named(name, spec)
    return Named(_label(text), text)


def _label(spec: str) -> str:
    """How a policy is called in answers if nobody gave it a name."""
    file = saved_file(spec)
    if file is not None:
        return file.stem
    if spec.startswith("python:"):
        return spec.rpartition(":")[2]
    return spec.removeprefix(":") if spec.startswith(":") else unquoted(spec)


def parse_policy(spec: str, *, allow_code: bool = False) -> Any:
    """The policy that a text stands for."""
    if not spec.strip():
        raise _refused(spec, "it is empty.")
    file = saved_file(spec)
    if file is not None:
        from offpolicy.policies.learned import load_policy

        return load_policy(file)
    if spec.startswith("python:"):
        return _function(spec, allow_code)
    if not spec.startswith(":"):
        return Column(unquoted(spec))
    word, bracket, rest = spec[1:].partition("(")
    kind = KINDS.get(word.strip())
    if kind is None:
        close = did_you_mean(":" + word.strip(), [f":{name}" for name in KINDS])
        raise _refused(spec, f"there is no policy :{word.strip()}.{close} {_SAID}")
    if bracket and not rest.rstrip().endswith(")"):
        raise _refused(spec, "a parenthesis is not closed.")
    return kind(spec, rest.rstrip()[:-1] if bracket else "")


_CASE = re.compile(r"\s*case\s+when\b", re.IGNORECASE)


def without_colon(text: str) -> str | None:
    """The policy that was meant by text which lacks the colon; None if none was."""
    if _CASE.match(text):
        return f":rule({text.strip()})"
    word, bracket, _ = text.strip().partition("(")
    needs = word.strip() not in ("uniform", "logged")
    return f":{text.strip()}" if word.strip() in KINDS and bool(bracket) == needs else None


def policies_of(given: str | Sequence[str], *, allow_code: bool = False) -> dict[str, Any]:
    """The policies that texts stand for, ``NAME=SPEC`` each, by name."""
    texts = [given] if isinstance(given, str) else list(given)
    made: dict[str, Any] = {}
    for text in texts:
        name, spec = named(text)
        if name in made:
            raise ParameterError(
                f'Two policies are named "{name}": give one of them another name, as in '
                f"{Door.named('policy')} NAME={spec}.",
                column="policy",
            )
        made[name] = parse_policy(spec, allow_code=allow_code)
    return made


# -- kinds -------------------------------------------------------------------------------------


def _refused(spec: str, why: str) -> ParameterError:
    return ParameterError(f"{Door.named('policy')} {spec}: {why}", column="policy")


def _nothing(policy: type) -> Callable[[str, str], Any]:
    def make(spec: str, inside: str) -> Any:
        if inside.strip():
            raise _refused(spec, "it takes nothing in parentheses.")
        return policy()

    return make


def _one(policy: type, what: str) -> Callable[[str, str], Any]:
    def make(spec: str, inside: str) -> Any:
        parts = parts_of(inside)
        if len(parts) != 1 or not unquoted(parts[0]):
            several = " Put a name with a comma in quotes." if len(parts) > 1 else ""
            raise _refused(spec, f"it takes {what} in parentheses.{several}")
        return policy(unquoted(parts[0]))

    return make


def _scored(policy: type, parameter: str) -> Callable[[str, str], Any]:
    def make(spec: str, inside: str) -> Any:
        first, *more = parts_of(inside)
        said: dict[str, float] = {}
        for part in more:
            name, _, value = part.partition("=")
            number = as_number(value.strip())
            if name.strip() != parameter or number is None or said:
                raise _refused(
                    spec, f"after the column of scores there can be {parameter}=NUMBER, not {part}."
                )
            said[parameter] = float(number)
        if not unquoted(first):
            raise _refused(spec, "it takes a column of scores, lists by candidate.")
        return policy(ScoresColumn(unquoted(first)), **said)

    return make


def _rule(spec: str, inside: str) -> Rule:
    return Rule(Expression(inside, f"{Door.named('policy')} :rule"))


def _function(spec: str, allow_code: bool) -> Any:
    """A function of a module, or an object with ``probabilities(log)``; it is run."""
    module, _, name = spec.removeprefix("python:").rpartition(":")
    if not module or not name:
        raise _refused(spec, "say python:module:function.")
    if not allow_code:
        how = "say --allow-code" if Door.options else "give the function itself"
        raise _refused(spec, f"this runs code of {module}. If you trust it, {how}.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as problem:
        raise _refused(spec, f"it cannot be imported ({problem}).") from None


KINDS: Mapping[str, Callable[[str, str], Any]] = {
    "always": _one(Always, "the name of an arm"),
    "uniform": _nothing(Uniform),
    "logged": _nothing(Logged),
    "item": _one(Item, "a column with the action that would be chosen"),
    "probability": _one(Probability, "a column of probabilities"),
    "softmax": _scored(Softmax, "temperature"),
    "greedy": _scored(EpsilonGreedy, "epsilon"),
    "rule": _rule,
}
_SAID = (
    "There are :always(arm), :uniform, :logged, :item(column), :probability(column), "
    ":softmax(scores, temperature=…), :greedy(scores, epsilon=…) and :rule(case when … end)."
)
