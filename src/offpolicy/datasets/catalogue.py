"""What is known of every data set: where it comes from, its files, its shape.

Facts, not code. A SHA-256 is that of the official file itself, unpacked: archives are zipped anew
from time to time. Where none is known, shape and class counts are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from offpolicy.errors import DatasetError, did_you_mean

UCI = "https://archive.ics.uci.edu/static/public"
ITEMS = {"all": 80, "men": 34, "women": 46}
"""Campaigns of the Open Bandit Dataset, and how many items could be shown in each."""
OBP = "https://raw.githubusercontent.com/st-tech/zr-obp/master/obd"


@dataclass(frozen=True)
class Member:
    """One official file; ``split`` is what all of it is for: "train", "test", or not said."""

    name: str
    sha256: str | None = None
    split: str = ""


@dataclass(frozen=True)
class Labelled:
    """A set of examples with one label each, in text with one example a line.

    ``labels`` are as in the file, in the order 0 … K − 1; ``counts`` are of each. The label is the
    first or the last field; ``named`` lines begin with a name or number of the example, which is
    no feature. ``train`` is how many rows at the top are for training, where one file holds all.
    Lines that begin with ";" or with the field ``header`` are no examples.
    """

    name: str
    number: int
    archive: str
    members: tuple[Member, ...]
    features: tuple[str, ...]
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    citation: str
    doi: str
    classes: tuple[str, ...] = ()
    separator: str | None = None
    label_first: bool = False
    named: bool = False
    train: int = 0
    header: str = ""
    source: str = UCI

    kind = "labelled"
    licence = "CC BY 4.0"

    @property
    def rows(self) -> int:
        return sum(self.counts)

    @property
    def url(self) -> str:
        return f"{self.source}/{self.number}/{self.archive}"

    @property
    def page(self) -> str:
        return f"https://archive.ics.uci.edu/dataset/{self.number}"

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.classes or self.labels


@dataclass(frozen=True)
class OpenBandit:
    """One log of the Open Bandit Dataset's small sample."""

    behaviour: str
    campaign: str
    sha256: str
    source: str = OBP

    kind = "log"
    rows = 10_000
    licence = "Apache-2.0 (the sample, as part of the repository)"
    citation = (
        "Saito, Aihara, Matsutani and Narita (2021), Open Bandit Dataset and Pipeline: Towards "
        "Realistic and Reproducible Off-Policy Evaluation, NeurIPS Datasets and Benchmarks"
    )
    page = "https://github.com/st-tech/zr-obp/tree/master/obd"

    @property
    def items(self) -> int:
        return ITEMS[self.campaign]

    @property
    def name(self) -> str:
        return f"open-bandit/{self.behaviour}/{self.campaign}"

    @property
    def url(self) -> str:
        return f"{self.source}/{self.behaviour}/{self.campaign}/{self.campaign}.csv"


@dataclass(frozen=True)
class Ranking:
    """Queries with judged documents, in LETOR text, which the user already has.

    ``layouts``: "parts" S1 … S5; "folds" Fold1 … Fold5 with train, vali and test; "splits" by
    ``stems``; "tests" of five folds; "union" in one file. ``inside`` are folders that the official
    archive may put around them.
    """

    name: str
    rows: int
    queries: int
    features: int
    grades: int
    page: str
    licence: str
    citation: str
    layouts: tuple[str, ...]
    stems: tuple[str, str, str] = ("train", "vali", "test")
    inside: tuple[str, ...] = ()

    kind = "ranking"


def _numbered(letter: str, d: int) -> tuple[str, ...]:
    return tuple(f"{letter}{j + 1}" for j in range(d))


_DIGITS = tuple("0123456789")

_LABELLED = (
    Labelled(
        "letter", 59, "letter+recognition.zip",
        (Member("letter-recognition.data",
                "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2"),),
        ("xbox", "ybox", "width", "high", "onpix", "xbar", "ybar", "x2bar", "y2bar", "xybar",
         "x2ybr", "xy2br", "xege", "xegvy", "yege", "yegvx"),
        tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        (789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792, 783, 753, 803, 783, 758,
         748, 796, 813, 764, 752, 787, 786, 734),
        "Slate (1991), Letter Recognition", "10.24432/C5ZP40",
        separator=",", label_first=True, train=16_000,
    ),
    Labelled(
        "optdigits", 80, "optical+recognition+of+handwritten+digits.zip",
        (Member("optdigits.tra",
                "e1b683cc211604fe8fd8c4417e6a69f31380e0c61d4af22e93cc21e9257ffedd", "train"),
         Member("optdigits.tes",
                "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8", "test")),
        _numbered("x", 64), _DIGITS, (554, 571, 557, 572, 568, 558, 558, 566, 554, 562),
        "Alpaydin and Kaynak (1998), Optical Recognition of Handwritten Digits",
        "10.24432/C50P49", separator=",",
    ),
    Labelled(
        "satimage", 146, "statlog+landsat+satellite.zip",
        (Member("sat.trn",
                "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613", "train"),
         Member("sat.tst",
                "4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479", "test")),
        _numbered("x", 36), tuple("123457"), (1533, 703, 1358, 626, 707, 1508),
        "Srinivasan (1993), Statlog (Landsat Satellite)", "10.24432/C55887",
        classes=("red soil", "cotton crop", "grey soil", "damp grey soil",
                 "soil with vegetation stubble", "very damp grey soil"),
    ),
    Labelled(
        "pendigits", 81, "pen+based+recognition+of+handwritten+digits.zip",
        (Member("pendigits.tra",
                "e2b9eb9f0d0467e2b64a4816a3420edf2b8043447576f4b84337aba44a9f97d3", "train"),
         Member("pendigits.tes",
                "8bd03229c5c5291fefe43e45465dd948d2645bf23328b9d993e0b777666b2015", "test")),
        _numbered("x", 16), _DIGITS, (1143, 1143, 1144, 1055, 1144, 1055, 1056, 1142, 1055, 1055),
        "Alpaydin and Alimoglu (1996), Pen-Based Recognition of Handwritten Digits",
        "10.24432/C5MG6K", separator=",",
    ),
    Labelled(
        "ecoli", 39, "ecoli.zip",
        (Member("ecoli.data",
                "008bd8fbb1d8b34040c3c8c4e987cac2a7ebf116e008b140cc6441be5261ba1d"),),
        ("mcg", "gvh", "lip", "chg", "aac", "alm1", "alm2"),
        ("cp", "im", "pp", "imU", "om", "omL", "imL", "imS"), (143, 77, 52, 35, 20, 5, 2, 2),
        "Nakai (1996), Ecoli", "10.24432/C5388M", named=True,
    ),
    Labelled(
        "glass", 42, "glass+identification.zip",
        (Member("glass.data",
                "dd67373f4baf2807345df02cbfef2093d342e61ad0d82a4fb79af43ef8ce449d"),),
        ("RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe"),
        tuple("123567"), (70, 76, 17, 13, 9, 29),
        "German (1987), Glass Identification", "10.24432/C5WW2P",
        classes=("building windows, float", "building windows, not float",
                 "vehicle windows, float", "containers", "tableware", "headlamps"),
        separator=",", named=True,
    ),
    Labelled(
        "vehicle", 149, "statlog+vehicle+silhouettes.zip",
        tuple(Member(f"xa{letter}.dat") for letter in "abcdefghi"),
        ("compactness", "circularity", "distance circularity", "radius ratio",
         "principal axis aspect ratio", "maximum length aspect ratio", "scatter ratio",
         "elongatedness", "principal axis rectangularity", "maximum length rectangularity",
         "scaled variance, major axis", "scaled variance, minor axis",
         "scaled radius of gyration", "skewness, major axis", "skewness, minor axis",
         "kurtosis, minor axis", "kurtosis, major axis", "hollows ratio"),
        ("opel", "saab", "bus", "van"), (212, 217, 218, 199),
        "Mowforth and Shepherd, Statlog (Vehicle Silhouettes)", "10.24432/C5HG6N",
    ),
    Labelled(
        "yeast", 110, "yeast.zip",
        (Member("yeast.data",
                "7cf61776fc04f527f93bf57a327b863893a1225d82df02d457e8950173218258"),),
        ("mcg", "gvh", "alm", "mit", "erl", "pox", "vac", "nuc"),
        ("CYT", "NUC", "MIT", "ME3", "ME2", "ME1", "EXC", "VAC", "POX", "ERL"),
        (463, 429, 244, 163, 51, 44, 35, 30, 20, 5),
        "Nakai (1991), Yeast", "10.24432/C5KG68", named=True,
    ),
    Labelled(
        "page-blocks", 78, "page+blocks+classification.zip", (Member("page-blocks.data"),),
        ("height", "length", "area", "eccentricity", "black pixels, share",
         "black pixels after smoothing, share", "mean transitions", "black pixels",
         "black pixels after smoothing", "transitions"),
        tuple("12345"), (4913, 329, 28, 88, 115),
        "Malerba (1994), Page Blocks Classification", "10.24432/C5J590",
        classes=("text", "horizontal line", "picture", "vertical line", "graphic"),
    ),
    Labelled(
        "segment", 50, "image+segmentation.zip",
        (Member("segmentation.data", split="train"), Member("segmentation.test", split="test")),
        ("region-centroid-col", "region-centroid-row", "region-pixel-count",
         "short-line-density-5", "short-line-density-2", "vedge-mean", "vedge-sd", "hedge-mean",
         "hedge-sd", "intensity-mean", "rawred-mean", "rawblue-mean", "rawgreen-mean",
         "exred-mean", "exblue-mean", "exgreen-mean", "value-mean", "saturation-mean",
         "hue-mean"),
        ("BRICKFACE", "SKY", "FOLIAGE", "CEMENT", "WINDOW", "PATH", "GRASS"), (330,) * 7,
        "Vision Group, University of Massachusetts (1990), Image Segmentation",
        "10.24432/C5GP4N",
        classes=("brickface", "sky", "foliage", "cement", "window", "path", "grass"),
        separator=",", label_first=True, header="REGION-CENTROID-COL",
    ),
)  # fmt: skip

_OPEN_BANDIT = tuple(
    OpenBandit(*words.split())
    for words in (
        "random all 7168295b6e0a9eabcf3392320a5dd434e542b68e705d5cd9491499af589812f1",
        "random men ede6d08c6877f99cd3770f7d09e26c738e6aa6de4445ccccfb1356ba5d06b1eb",
        "random women e65f3bd3beb17664fa69cc129bf7bf852a775f8ffa630506e505fc905315bb34",
        "bts all 0ad874e4dbf6902f0845dd478ad8dde5ef6903583d3ffaace78411bdad064106",
        "bts men db6d1f7ed2d591ba521533e45286d4c1fba7fe57a8ad2e80342210335f43c527",
        "bts women e5d1b49a39b608585a2f3014a3f54970430cd37a495c1b73fceb85cdf428a5b8",
    )
)

_LETOR_PAGE = (
    "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"
)
_MSLR_PAGE = "https://www.microsoft.com/en-us/research/project/mslr/"
_ISTELLA_PAGE = "https://istella.ai/"
_MICROSOFT = "Microsoft Research's terms, to be accepted there"
_ISTELLA = "Istella's terms, not for commercial use, to be accepted there"
_LETOR = "Qin and Liu (2013), Introducing LETOR 4.0 Datasets, arXiv:1306.2597"
_DATO = (
    "Dato et al. (2016), Fast Ranking with Additive Ensembles of Oblivious and Non-Oblivious "
    "Regression Trees, ACM TOIS 35(2)"
)

_RANKING = (
    Ranking("MQ2007", 69_623, 1_692, 46, 3, _LETOR_PAGE, _MICROSOFT, _LETOR, ("folds", "parts")),
    Ranking("MQ2008", 15_211, 784, 46, 3, _LETOR_PAGE, _MICROSOFT, _LETOR, ("folds", "parts")),
    Ranking("MSLR-WEB10K", 1_200_192, 10_000, 136, 5, _MSLR_PAGE, _MICROSOFT, _LETOR, ("folds",)),
    Ranking("MSLR-WEB30K", 3_771_125, 31_531, 136, 5, _MSLR_PAGE, _MICROSOFT, _LETOR, ("folds",)),
    Ranking("Istella", 10_454_629, 33_018, 220, 5, _ISTELLA_PAGE, _ISTELLA, _DATO, ("splits",),
            inside=("full",)),
    Ranking("Istella-S", 3_408_630, 33_018, 220, 5, _ISTELLA_PAGE, _ISTELLA,
            "Lucchese et al. (2016), Post-Learning Optimization of Tree Ensembles for Efficient "
            "Ranking, SIGIR", ("splits",), inside=("sample",)),
    Ranking("Yahoo-Set1", 709_877, 29_921, 700, 5, "https://webscope.sandbox.yahoo.com/",
            "Yahoo! Webscope's terms, for research at universities, to be asked for there",
            "Chapelle and Chang (2011), Yahoo! Learning to Rank Challenge Overview, JMLR W&CP 14",
            ("splits",), stems=("set1.train", "set1.valid", "set1.test")),
    Ranking("MQ2007_85pct", 59_135, 1_692, 46, 3, _LETOR_PAGE, _MICROSOFT, _LETOR,
            ("union",)),
    Ranking("ClueWeb09_webis", 26_646, 61, 42, 5, "https://github.com/webis-de", "MIT",
            "Webis group, learning-to-rank features over ClueWeb09", ("tests",)),
)  # fmt: skip

LABELLED = {entry.name: entry for entry in _LABELLED}
OPEN_BANDIT = {entry.name: entry for entry in _OPEN_BANDIT}
RANKING = {entry.name: entry for entry in _RANKING}

Entry = Labelled | OpenBandit | Ranking


def entries() -> dict[str, Entry]:
    """All data sets of the catalogue by name, in the order in which they are listed."""
    return {**LABELLED, **OPEN_BANDIT, **RANKING}


def entry(name: str) -> Entry:
    """The data set with this name in the catalogue, however it is capitalised."""
    by_fold = {known.casefold(): entry for known, entry in entries().items()}
    if name.casefold() not in by_fold:
        raise unknown(name, list(entries()))
    return by_fold[name.casefold()]


def for_ranking(name: str) -> Ranking:
    """The set for ranking with this name."""
    known = entry(name)
    if not isinstance(known, Ranking):
        raise DatasetError(f"{known.name} is not a set for ranking.")
    return known


def unknown(name: str, names: list[str]) -> DatasetError:
    if name not in names and name in entries():
        return DatasetError(
            f"{name} cannot be used here; what can is {', '.join(names[:12])}"
            f"{', …' if len(names) > 12 else ''}.",
            column="name",
        )
    return DatasetError(
        f'There is no data set "{name}".{did_you_mean(name, names)} "offpolicy datasets list" '
        f"names them all.",
        column="name",
    )
