"""TeX as plain text: the few commands that the docstrings use, for pages without scripts."""

from __future__ import annotations

import re

SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "Delta": "Δ", "zeta": "ζ", "eta": "η",
    "lambda": "λ", "mu": "μ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ",
    "varphi": "φ", "Phi": "Φ", "varepsilon": "ε", "epsilon": "ε", "sum": "Σ", "prod": "Π",
    "le": "≤", "ge": "≥", "ne": "≠", "pm": "±", "cdot": "·", "times": "×", "mid": "|",
    "propto": "∝", "infty": "∞", "to": "→", "in": "∈", "min": "min", "max": "max", "ln": "ln",
    "log": "log", "exp": "exp", "quad": "  ", "qquad": "  ", "top": "ᵀ", "dots": "…", "{": "{",
    "}": "}", "|": "‖", ",": " ", " ": " ", ";": " ", "!": "",
}  # fmt: skip
IGNORED = {"big", "Big", "bigg", "Bigg", "left", "right", "textstyle", "displaystyle"}
ACCENTS = {"hat": "\u0302", "bar": "\u0304", "tilde": "\u0303"}
INNER = {"text", "mathrm", "mathbb", "mathbf", "mathcal"}
RAISED = dict(zip("0123456789+-=()nαβγ", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿᵅᵝᵞ", strict=True))
LOWERED = dict(
    zip("0123456789+-=()aeijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True)
)
WORD = re.compile(r"[\w\u0302\u0303\u0304]+")
TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[{}_^]|\s+|.", re.DOTALL)


def plain_math(tex: str) -> str:
    """One formula, in letters.

    >>> plain_math(r"\\frac1n \\sum_i c_i r_i")
    '1/n Σᵢ cᵢ rᵢ'
    """
    text = _sequence(iter(TOKEN.findall(tex)))
    return re.sub(r"\s+", " ", text).strip()


def _sequence(tokens, until: str | None = None) -> str:
    parts: list[str] = []
    for token in tokens:
        if token == until:
            break
        parts.append(_one(token, tokens))
    return "".join(parts)


def _one(token: str, tokens) -> str:
    """The text of a token, with the arguments that it takes."""
    if token == "{":
        return _sequence(tokens, "}")
    if token in "_^":
        return _moved(_argument(tokens), LOWERED if token == "_" else RAISED, token)
    if not token.startswith("\\"):
        return " " if token.isspace() else token.replace("-", "−")
    name = token[1:]
    if name in ("frac", "tfrac"):
        return f"{_grouped(_argument(tokens))}/{_grouped(_argument(tokens))} "
    if name == "sqrt":
        inner = _argument(tokens)
        return f"√{inner}" if len(inner) == 1 else f"√({inner})"
    if name in ACCENTS:
        inner = _argument(tokens)
        return inner[:1] + ACCENTS[name] + inner[1:]
    if name in INNER:
        return _argument(tokens)
    if name in IGNORED:
        return ""
    return SYMBOLS[name]


def _argument(tokens) -> str:
    token = next(tokens)
    while token.isspace():
        token = next(tokens)
    return _one(token, tokens)


def _grouped(text: str) -> str:
    return text if WORD.fullmatch(text) else f"({text})"


def _moved(text: str, letters: dict[str, str], mark: str) -> str:
    plain = text.replace("−", "-")
    if all(letter in letters for letter in plain):
        return "".join(letters[letter] for letter in plain)
    return f"{mark}{text}" if WORD.fullmatch(text) else f"{mark}{{{text}}}"
