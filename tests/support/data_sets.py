"""Small made-up data sets where the experiments look for them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from offpolicy.logs.formats.letor import Queries


def write_labelled(root: Path, name: str, X: np.ndarray, y: np.ndarray) -> None:
    """A labelled set, with every digit of its features."""
    folder = root / "uci"
    folder.mkdir(parents=True, exist_ok=True)
    features = [f"x{k}" for k in range(X.shape[1])]
    with gzip.open(folder / f"{name}.csv.gz", "wt") as file:
        file.write(",".join([*features, "label", "split\n"]))
        file.writelines(
            f"{','.join(map(repr, x))},{k},none\n"
            for x, k in zip(X.tolist(), y.tolist(), strict=True)
        )


def write_clouds(root: Path, name: str = "clouds") -> tuple[np.ndarray, np.ndarray]:
    """Four overlapping classes, 800 examples in three dimensions."""
    rng = np.random.default_rng(0)
    y = np.arange(800) % 4
    X = rng.standard_normal((800, 3)) + 2.5 * np.eye(4)[y][:, :3]
    write_labelled(root, name, X, y)
    return X, y


def write_letor(root: Path, name: str = "MQ2008") -> None:
    """80 judged queries of four to eight documents, grades 0 to 2."""
    rng = np.random.default_rng(0)
    folder = root / "ltr" / name
    folder.mkdir(parents=True)
    for part in range(1, 6):
        lines = []
        for qid in range(100 * part, 100 * part + 16):
            for _ in range(rng.integers(4, 9)):
                x = rng.normal(size=46)
                grade = int(x[0] + rng.normal() > 0.3) + int(x[0] > 1.0)
                features = " ".join(f"{j + 1}:{value:.3f}" for j, value in enumerate(x))
                lines.append(f"{grade} qid:{qid} {features}\n")
        (folder / f"S{part}.txt").write_text("".join(lines))


def queries(count: int = 60, seed: int = 0, most: int = 9) -> Queries:
    """Judged queries of two to ``most`` documents; the first feature tells most of relevance."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, most + 1, count)
    X = rng.normal(size=(int(sizes.sum()), 3))
    relevant = rng.random(len(X)) < 1 / (1 + np.exp(1 - X @ [1.5, 0.5, 0.0]))
    offsets = np.cumsum([0, *sizes])
    return Queries(X, relevant.astype(float), offsets, np.arange(count) + 7, 0)
