"""Lines and files in others' formats."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = os.environ.get("OFFPOLICY_DATA")


needs_data = pytest.mark.skipif(not DATA, reason="OFFPOLICY_DATA is not set")


def data(*parts: str) -> Path:
    assert DATA
    return Path(DATA, "logs", *parts)


DSJSON = {
    "cb_simple_pdrop.json": 1,
    "ccb_data.json": 66,
    "decisionservice.json": 3,
    "dsjson_cb.json": 23,
    "igl.dsjson": 200,
    "issue4669.dsjson": 2,
}


LINE = {
    "_label_cost": -2,
    "_label_probability": 0.3,
    "_label_Action": 3,
    "_labelIndex": 2,
    "Timestamp": "2026-11-03T10:00:00Z",
    "EventId": "e1",
    "a": [3, 1, 2],
    "c": {"_multi": [{}, {}, {}]},
    "p": [0.3, 0.6, 0.1],
}


DANGLING = {
    "RewardValue": 1.0,
    "EventId": "e1",
    "EnqueuedTimeUtc": "2026-11-03",
    "Observations": [],
}


SLOTS = {
    "EventId": "e3",
    "c": {"_multi": [{}, {}, {}], "_slots": [{}, {}]},
    "_outcomes": [
        {"_label_cost": -1, "_id": "top", "_a": [2, 0, 1], "_p": [0.5, 0.2, 0.3], "_o": []},
        {"_label_cost": 0.5, "_id": "side", "_a": [1, 0], "_p": [0.9, 0.1], "_o": []},
    ],
}
