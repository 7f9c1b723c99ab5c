"""The API reference is what its script would write, and leaves nothing out."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import house
import pytest

import offpolicy as op

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "reference.py"
PAGES = ROOT / "docs" / "reference"


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))


def test_the_pages_are_up_to_date(tmp_path):
    subprocess.run([sys.executable, SCRIPT, "--out", tmp_path], check=True, timeout=120)
    made = {page.name: page.read_text(encoding="utf-8") for page in tmp_path.iterdir()}
    kept = {page.name: page.read_text(encoding="utf-8") for page in PAGES.iterdir()}
    stale = [name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name)]
    assert not stale, f"make reference: {stale}"


def headings(*pages):
    texts = [(PAGES / f"{page}.md").read_text(encoding="utf-8") for page in pages]
    return set(re.findall(r"^##+ (?:\w+\.)?(\w+)$", "\n".join(texts), re.MULTILINE))


def test_every_public_name_is_described():
    described = headings(*(page.stem for page in PAGES.glob("*.md")))
    modules = {"__version__", *op._MODULES}
    assert set(op.__all__) - modules <= described
    assert [name for name in house.idle(described) if name.split(".")[0] != "torch"] == []
    assert headings("torch") == {"Batch", "TorchPolicy", "ice_loss"}
    assert {name for name in vars(op.errors) if name.endswith("Error")} <= headings("errors")


def shown_parameters(name):
    """The names in a signature as it is printed."""
    for page in PAGES.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        found = re.search(rf"^##+ (?:\w+\.)?{name}\n\n```py\n(.*?)^```$", text, re.M | re.S)
        if found:
            break
    signature = found[1].strip().removeprefix("class ")
    node = ast.parse(f"def {signature if '(' in signature else signature + '()'}: ...").body[0]
    rest = [node.args.kwarg] if node.args.kwarg else []
    return [one.arg for one in (*node.args.args, *node.args.kwonlyargs, *rest)]


@pytest.mark.parametrize(
    "name", [name for name in op._HOME if name not in ("OffpolicyError", "Policy", "LogScan")]
)
def test_signatures_are_those_of_the_objects(name):
    expected = [one for one in inspect.signature(getattr(op, name)).parameters if one[0] != "_"]
    assert shown_parameters(name) == expected


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\frac1n \sum_i c_i r_i", "1/n Σᵢ cᵢ rᵢ"),
        (r"\frac{\lambda c_i}{c_i^2 + \lambda}(r_i - \hat\delta(y_i))",
         "(λ cᵢ)/(cᵢ² + λ) (rᵢ − δ\u0302(yᵢ))"),
        (r"\mathbb V_{\pi_0}(c\delta)", "V_π₀(cδ)"),
        (r"\Big\{\sqrt{n\rho^2 + 1}\Big\}", "{√(nρ² + 1)}"),
        (r"\Phi^{-1}(V) \le \prod_{j<k} x", "Φ⁻¹(V) ≤ Π_{j<k} x"),
    ],
)  # fmt: skip
def test_formulas_in_letters(scripts, tex, text):
    from plain_math import plain_math

    assert plain_math(tex) == text


def test_an_unknown_command_is_an_error(scripts):
    from plain_math import plain_math

    with pytest.raises(KeyError):
        plain_math(r"\unheardof x")


def test_docstrings_as_markdown(scripts):
    from docstrings import markdown

    shown = markdown("""Sum ``a`` and :math:`\\pi`, if a < b.

    Parameters
    ----------
    a, b : float, optional
        Numbers,
        two of them.
    c
        A third.

    Examples
    --------
    >>> 1 + 1
    2
    """)
    assert shown == (
        "Sum `a` and π, if a &lt; b.\n\n**Parameters**\n\n"
        "- `a`, `b` (float, optional): Numbers, two of them.\n- `c`: A third.\n\n"
        "**Examples**\n\n```py\n>>> 1 + 1\n2\n```"
    )


def test_the_page_on_the_method_is_the_docstring_of_the_room():
    import method_page

    text = method_page.PAGE.read_text(encoding="utf-8")
    assert method_page.page(text) == text, "python scripts/method_page.py"
    assert "## In formulas" in text
