"""The answers to a fixed set of questions as JSON, and two such sets compared number by number.

    python scripts/corpus.py make before.json      # in the old tree
    python scripts/corpus.py make after.json       # in the new one
    python scripts/corpus.py compare before.json after.json

Only names of `op.*` and commands are used, so that any version can be asked the same. A change that
moves or renames code must leave every number as it was; fields that were renamed are in RENAMED.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from click.testing import CliRunner

import offpolicy as op

RENAMED: list[tuple[str, str]] = [
    (r"^\.candidates\b", ".trials"),
    (r"(findings\[\d+\])\.policy", r"\1.place"),
    (r"^(.*)\.imputed$", r"\1.imputed_mass"),
    (r"\.choices\[", ".tuned["),
]
"""Regular expressions over the path of a number, and what they became."""

ADDED = (
    r"\.(checked|provenance|clicks|queries|result\.ranker)$"
    r"|\.results?(\[\d+\])?\.tuned\[\d+\]\.(policy|rule|(stderr|imputed_mass)\[\d+\])$"
)
"""Fields of documents that had none before."""

ALLOWED = {"learn": 1e-6, "rank learn": 1e-6, "evaluate memory RewardModel": 1e-6}
"""Relative differences by the beginning of a question's name; others may differ by 1e-12, and are
counted where they are not equal to the bit."""

TALKATIVE = {"seconds", "sentence", "message", "advice", "covers", "reason", "text", "detail",
             "schema"}  # fmt: skip
"""Fields whose words may change."""


def bandit(n: int, seed: int, K: int = 4) -> dict[str, Any]:
    """Arrays of a log with contexts, users, a policy of two kinds and a model."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n, 3))
    scores = context @ rng.normal(size=(3, K))

    def softmax(s: Any) -> Any:
        e = np.exp(s - s.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    logging, new = softmax(0.7 * scores), softmax(-1.5 * scores + rng.normal(size=(n, K)))
    action = np.array([rng.choice(K, p=p) for p in logging])
    mean = 1 / (1 + np.exp(-scores + 0.5))
    return {
        "context": context,
        "action": action,
        "reward": (rng.random(n) < mean[np.arange(n), action]).astype(float),
        "spend": rng.gamma(1 + 3 * mean[np.arange(n), action]),
        "logging": logging,
        "new": new,
        "other": softmax(2.0 * scores),
        "q": np.clip(mean + 0.1 * rng.normal(size=(n, K)), 0, 1),
        "user": rng.integers(0, n // 8, size=n),
        "day": np.sort(rng.integers(0, 30, size=n)),
        "weight": rng.integers(1, 4, size=n).astype(float),
    }


def table(d: dict[str, Any]) -> pa.Table:
    n, K = d["logging"].shape
    columns: dict[str, Any] = {f"x{j}": d["context"][:, j] for j in range(3)}
    for name in ("action", "reward", "spend", "user", "day", "weight"):
        columns[name] = d[name]
    columns["propensity"] = d["logging"][np.arange(n), d["action"]]
    columns["new_chosen"] = d["new"][np.arange(n), d["action"]]
    for name in ("logging", "new", "other", "q"):
        flat = pa.array(d[name].ravel())
        columns[name] = pa.ListArray.from_arrays(pa.array(np.arange(0, n * K + 1, K)), flat)
    return pa.table(columns)


def long_table(d: dict[str, Any]) -> pa.Table:
    n, K = d["logging"].shape
    row = np.repeat(np.arange(n), K)
    k = np.tile(np.arange(K), n)
    return pa.table(
        {
            "decision": row,
            "action": [f"item{j}" for j in k],
            "chosen": (k == d["action"][row]).astype(int),
            "reward": d["reward"][row],
            "user": d["user"][row],
            "logging": d["logging"].ravel(),
            "new": d["new"].ravel(),
            "other": d["other"].ravel(),
            "q": d["q"].ravel(),
        }
    )


def write_files(folder: Path) -> None:
    small, large = bandit(1500, 1), bandit(40_000, 2)
    t = table(small)
    pq.write_table(t, folder / "small.parquet")
    big = table(large)
    (folder / "parts").mkdir()
    pq.write_table(big.slice(0, 17_000), folder / "parts" / "a.parquet", row_group_size=3_000)
    pq.write_table(big.slice(17_000), folder / "parts" / "b.parquet", row_group_size=50_000)
    pq.write_table(long_table(small), folder / "long.parquet")
    lists = {name: [json.dumps(v) for v in t[name].to_pylist()] for name in ("logging", "new", "q")}
    plain = t.drop_columns(["logging", "new", "other", "q"])
    for name, values in lists.items():
        plain = plain.append_column(name, pa.array(values))
    pacsv.write_csv(plain, folder / "small.csv")
    with (folder / "small.jsonl").open("w", encoding="utf-8") as out:
        for line in t.select(["action", "reward", "logging", "new", "q", "user"]).to_pylist():
            out.write(json.dumps(line) + "\n")
    ranking_log().to_parquet(folder / "clicks.parquet")


def ranking_log() -> Any:
    rng = np.random.default_rng(5)
    sizes = rng.integers(3, 12, size=600)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    N = int(offsets[-1])
    features = rng.normal(size=(N, 4))
    features = np.round(features, 2)
    relevance = (features @ [1.0, -0.5, 0.3, 0.0] + rng.normal(size=N) > 0.8).astype(float)
    shown = features @ [0.6, 0.1, 0.0, 0.5] + 0.7 * rng.normal(size=N)
    rank = np.empty(N, dtype=np.int64)
    for i in range(len(sizes)):
        part = slice(offsets[i], offsets[i + 1])
        rank[part][np.argsort(-shown[part])] = np.arange(1, sizes[i] + 1)
    propensity = 1.0 / rank
    click = (rng.random(N) < propensity * (0.9 * relevance + 0.05)).astype(float)
    return op.ranking.RankingLog.from_arrays(
        offsets=offsets, click=click, rank=rank, propensity=propensity,
        prediction=1 / (1 + np.exp(-features[:, 0])), X=features,
        query=np.arange(600) // 3,
        document=np.concatenate([rng.permutation(14)[:size] for size in sizes]),
    )  # fmt: skip


def questions(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is asked, by name."""
    d = bandit(3_000, 3)
    K = d["logging"].shape[1]
    log = op.BanditLog.from_arrays(
        action=d["action"], reward=d["reward"], logging=d["logging"], context=d["context"]
    )
    clustered = op.BanditLog.from_arrays(
        action=d["action"], reward=d["spend"], logging=d["logging"], cluster=d["user"],
        time=d["day"], row_weight=d["weight"],
    )  # fmt: skip
    every = ["DM", "IPS", "CIPS(M=3)", "SNIPS", "DR", "SNDR", "SB(tau=0.4)", "SWITCH", "SWITCH-DR",
             "DRos", "SGIPS", "SGDR", "CAB", "CAB-DR", "CAB(M=2)", "SB"]  # fmt: skip
    yield (
        "evaluate memory model",
        lambda: op.evaluate(log, d["new"], prediction=d["q"], estimators=every),
    )
    yield "evaluate memory none", lambda: op.evaluate(log, {"a": d["new"], "b": d["other"]})
    yield "evaluate memory clusters", lambda: op.evaluate(clustered, d["new"], prediction=d["q"])
    yield (
        "compare memory",
        lambda: op.compare(log, {"a": d["new"], "b": d["other"]}, prediction=d["q"]),
    )
    yield "compare memory clusters", lambda: op.compare(clustered, {"a": d["new"], "b": d["other"]})
    yield "check memory", lambda: op.check(log, d["new"], prediction=d["q"])
    yield "check memory clusters", lambda: op.check(clustered, d["new"])
    for kind in ("normal", "t", "bootstrap", "bca", "betting", "empirical-bernstein"):

        def asked(kind: str = kind) -> Any:
            plain = op.BanditLog.from_arrays(
                action=d["action"][:300], reward=d["reward"][:300], logging=d["logging"][:300]
            )
            members = ["CIPS(M=3)", "CAB-DR(M=2)"] if "bern" in kind else ["IPS", "CIPS(M=3)"]
            return op.evaluate(
                plain, d["new"][:300], prediction=d["q"][:300], estimators=members, interval=kind
            )

        yield f"evaluate interval {kind}", asked
    for name in ("CAB", "CAB-DR", "SWITCH", "CIPS", "SB"):

        def swept(name: str = name) -> Any:
            c = op.sweep(log, d["new"], prediction=d["q"], estimator=name)
            at = np.array([0, 0.1, 0.5, 0.9, 1]) if name == "SB" else np.geomspace(0.1, 100, 20)
            return {"value": [c.at(x) for x in at], "stderr": [c.stderr_at(x) for x in at]}

        yield f"sweep memory {name}", swept

    def model() -> Any:
        from sklearn.linear_model import LogisticRegression, Ridge

        logging = op.PropensityModel(LogisticRegression(), folds=3).fit(log).predict(log)
        estimated = op.BanditLog.from_arrays(
            action=d["action"], reward=d["reward"], logging=logging.reshape(-1, K),
            context=d["context"],
        )  # fmt: skip
        fitted = op.RewardModel(Ridge(), folds=3).fit(estimated)
        return op.evaluate(estimated, d["new"], prediction=fitted)

    yield "evaluate memory RewardModel", model

    def learned(**options: Any) -> Any:
        learner = op.learning.SoftmaxLearner(**options).fit(log)
        return learner.policy_.probabilities(log)[: 50 * K].tolist()

    yield "learn memory linear", learned
    yield "learn memory CAB", lambda: learned(estimator="CAB(M=5)")

    def cli(*words: str) -> Callable[[], Any]:
        def asked() -> Any:
            found = CliRunner().invoke(__import__("offpolicy.cli").cli.cli, list(words))
            if found.exception and not isinstance(found.exception, SystemExit):
                raise found.exception
            if found.exit_code not in (0, 1):
                raise RuntimeError(f"{words}: {found.output} {found.stderr}")
            return json.loads(found.stdout)

        return asked

    at = str(folder)
    js = ("--format", "json")
    for file in ("small.parquet", "small.csv", "small.jsonl", "parts"):
        where = f"{at}/{file}"
        yield (
            f"evaluate {file} model",
            cli("evaluate", where, "--policy", "new", "--prediction", "q", *js),
        )
        yield (
            f"evaluate {file} clusters",
            cli("evaluate", where, "--policy", "new", "--cluster", "user", *js),
        )
        yield f"check {file}", cli("check", where, "--policy", "new", *js)
        yield f"sweep {file}", cli("sweep", where, "--policy", "new", "--prediction", "q", *js)
    for file in ("small.parquet", "parts"):
        where = f"{at}/{file}"
        context = ("--context", "x*")
        two = ("--policy", "new", "--policy", "other")
        yield (
            f"evaluate {file} trained",
            cli("evaluate", where, *two, *context, "--time", "day", *js),
        )
        yield (
            f"evaluate {file} chosen only",
            cli(
                "evaluate",
                where,
                "--policy",
                "new_chosen",
                "--logging",
                "",
                "-e",
                "IPS",
                "-e",
                "SNIPS",
                *js,
            ),
        )
        yield (
            f"evaluate {file} spend",
            cli(
                "evaluate",
                where,
                "--policy",
                "new",
                "--reward",
                "spend",
                "--row-weight",
                "weight",
                *js,
            ),
        )
        yield (
            f"compare {file}",
            cli("compare", where, *two, "--prediction", "q", "--cluster", "user", *js),
        )
        yield f"compare {file} trained", cli("compare", where, *two, *context, *js)
        yield f"learn {file}", cli("learn", where, *context, "-o", f"{at}/policy.json", *js)
        yield (
            f"evaluate {file} learned",
            cli("evaluate", where, *context, "--policy", f"{at}/policy.json", *js),
        )
    long = ("--decision", "decision", "--chosen", "chosen")
    where = f"{at}/long.parquet"
    yield (
        "evaluate long",
        cli("evaluate", where, *long, "--policy", "new", "--prediction", "q", *js),
    )
    yield "compare long", cli("compare", where, *long, "--policy", "new", "--policy", "other", *js)
    yield "check long", cli("check", where, *long, "--policy", "new", "--cluster", "user", *js)
    clicks = f"{at}/clicks.parquet"
    for metric in ("average rank", "dcg@5"):
        yield (
            f"rank evaluate {metric}",
            cli("rank", "evaluate", clicks, "--ranker", "f1", "--metric", metric, *js),
        )
    yield "rank sweep", cli("rank", "sweep", clicks, "--ranker", "f1", *js)
    yield (
        "rank learn IPS",
        cli("rank", "learn", clicks, "-e", "IPS", "-o", f"{at}/ranker.json", *js),
    )
    yield (
        "rank learn CAB",
        cli("rank", "learn", clicks, "-e", "CAB(M=5)", "-o", f"{at}/ranker.json", *js),
    )
    yield (
        "rank evaluate learned",
        cli("rank", "evaluate", clicks, "--ranker", f"{at}/ranker.json", *js),
    )
    yield (
        "rank propensities",
        lambda: cli("rank", "propensities", clicks, "-o", f"{at}/p.json", *js)(),
    )


def plain(found: Any) -> Any:
    return json.loads(found.to_json()) if hasattr(found, "to_json") else found


def make(out: Path) -> None:
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        for name, ask in questions(Path(folder)):
            print(name, file=sys.stderr, flush=True)
            answers[name] = plain(ask())
    text = json.dumps(answers, indent=1, default=float)
    out.write_text(text.replace(folder, "FOLDER"), encoding="utf-8")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in TALKATIVE:
                yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for k, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{k}]")
    else:
        yield path, value


def renamed(path: str) -> str:
    for old, new in RENAMED:
        path = re.sub(old, new, path)
    return path


def far(a: Any, b: Any, allowed: float) -> bool:
    numbers = isinstance(a, int | float) and isinstance(b, int | float)
    if not numbers or a == b or (a != a and b != b):
        return bool(a != b and not (a != a and b != b))
    return not math.isclose(a, b, rel_tol=allowed, abs_tol=allowed)


def compare(before: Path, after: Path) -> int:
    """How many answers differ, with every difference on a line."""
    old, new = (
        json.loads(before.read_text(encoding="utf-8")),
        json.loads(after.read_text(encoding="utf-8")),
    )
    differing = len(set(old) ^ set(new))
    print(f"{len(old)} and {len(new)} questions; in one only: {sorted(set(old) ^ set(new))}")
    numbers = inexact = 0
    for name in old:
        if name not in new:
            continue
        allowed = next((t for head, t in ALLOWED.items() if name.startswith(head)), 1e-12)
        a = {renamed(path): value for path, value in leaves(old[name])}
        b = dict(leaves(new[name]))
        inexact += sum(path in b and a[path] != b[path] == b[path] for path in a)
        numbers += sum(isinstance(value, int | float) for value in a.values())
        lost = sorted(set(a) - set(b))
        gained = sorted(path for path in set(b) - set(a) if not re.search(ADDED, path))
        changed = [path for path in a if path in b and far(a[path], b[path], allowed)]
        if gained:
            print(f"{name}: {len(gained)} new, such as {gained[0]}")
        if lost or changed:
            differing += 1
            print(f"{name}: {len(changed)} changed, {len(lost)} lost, {len(gained)} new")
            for path in changed[:8]:
                print(f"    {path}: {a[path]!r} -> {b[path]!r}")
            for path in [*lost[:5], *gained[:5]]:
                print(f"    {'lost' if path in a else 'new'}: {path}")
    print(
        f"{numbers} numbers, {inexact} not equal to the bit; {differing} questions with differences"
    )
    return differing


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        sys.exit(bool(compare(Path(sys.argv[2]), Path(sys.argv[3]))))
