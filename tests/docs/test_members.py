"""What is written from the classes of the estimators is as they are now."""

from __future__ import annotations

import members
import pytest


@pytest.mark.parametrize("name", members.WRITTEN)
def test_it_is_up_to_date(name):
    text = (members.ROOT / name).read_text(encoding="utf-8")
    for writer in members.WRITTEN[name]:
        assert writer(text) == text, "make members"


def test_a_new_member_would_be_written_everywhere(monkeypatch):
    kind = type("NEW", (members.NAMED["CIPS"],), {"name": "NEW", "__slots__": ()})
    monkeypatch.setitem(members.NAMED, "NEW", kind)
    for name, writers in members.WRITTEN.items():
        text = (members.ROOT / name).read_text(encoding="utf-8")
        for writer in writers:
            assert "NEW" in writer(text), (name, writer)
