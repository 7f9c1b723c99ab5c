"""What an expression cannot say: every attempt ends in one sentence, and nothing is done."""

from __future__ import annotations

import itertools
import os
import time

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import offpolicy as op
from offpolicy.errors import ParameterError
from offpolicy.logs.expressions import Expression
from offpolicy.logs.expressions._kinds import DUCKDB, SPARK
from offpolicy.logs.files._sql import connect
from tests.support.cases import make_case
from tests.support.commands import fails
from tests.support.files import table_of, write
from tests.support.refusals import refuses

TYPES = {
    "action": "BIGINT", "reward": "DOUBLE", "shop": "VARCHAR", "flag": "BOOLEAN", "day": "DATE",
    "at": "TIMESTAMP", "zoned": "TIMESTAMP WITH TIME ZONE", "list": "DOUBLE[]", "nothing": '"NULL"',
    "wide": "DECIMAL(30,4)", "a b": "INTEGER",
}  # fmt: skip

STATEMENTS = [
    "COPY (SELECT 1) TO 'out.csv'", "ATTACH 'made.db'", "INSTALL httpfs", "LOAD httpfs",
    "SELECT 1", "SELECT", "FROM log", "FROM log SELECT *", "WITH x AS (SELECT 1) SELECT * FROM x",
    "DROP TABLE log", "CREATE TABLE x AS SELECT 1", "INSERT INTO log VALUES (1)",
    "UPDATE log SET reward = 1", "DELETE FROM log", "PRAGMA version", "SET threads = 1",
    "CALL pragma_version()", "EXPORT DATABASE 'x'", "IMPORT DATABASE 'x'", "VACUUM", "CHECKPOINT",
    "EXPLAIN SELECT 1", "DESCRIBE log", "SHOW TABLES", "SUMMARIZE log", "PREPARE x AS SELECT 1",
    "EXECUTE x", "BEGIN TRANSACTION", "PIVOT log ON action", "VALUES (1)", "USE memory",
    "DETACH memory", "COMMENT ON TABLE log IS 'x'",
]  # fmt: skip
TAILS = [
    "true; {}", "true) ; {}; --", "true); {}; (true", "true UNION {}", "true OR ({})",
    "reward IN ({})", "EXISTS ({})", "(({})) = 1",
]  # fmt: skip
FUNCTIONS = [
    f"{call} = 1"
    for call in (
        "random()", "rand()", "uuid()", "gen_random_uuid()", "now()", "current_timestamp",
        "current_date", "current_user", "getenv('HOME')", "current_setting('threads')",
        "read_text('/etc/passwd')", "read_csv('/etc/passwd')", "read_parquet('x.parquet')",
        "glob('*')", "nextval('s')", "setseed(0.5)", "sum(reward)", "count(*)", "count()",
        "max(reward)", "row_number() OVER ()", "sum(reward) OVER (ORDER BY action)",
        "lag(reward) OVER ()", "list_transform(list, x -> x + 1)", "list_filter(list, x -> x > 1)",
        "regexp_matches(shop, '(a+)+$')", "repeat(shop, 1000000000)", "unnest(list)",
        "struct_pack(a := 1)", "query('SELECT 1')", "query_table('log')", "eval('1')",
        "printf('%s', shop)", "md5(shop)", "hash(shop)", "sleep(10)", "error('x')",
        "write_log('x')", "version()", "pg_sleep(1)", "java_method('java.lang.System', 'exit', 1)",
        "reflect('java.lang.System', 'getenv')", "input_file_name()",
        "monotonically_increasing_id()",
        "pg_catalog.version()", "main.abs(reward)", "abs(DISTINCT reward)",
        "abs(reward) FILTER (x)",
        "coalesce(*)", "COLUMNS('re.*')", "abs(COLUMNS(*))", "abs()", "abs(1, 2)", "nullif(1)",
        "cast(reward)", "cast(reward as blob)", "cast(reward as integer[])",
        "cast(shop as json)", "cast(reward as integer)", "try_cast(reward as double)", "(abs)(1)",
        '"abs"(reward)', "extract(year from day)", "interval '1 day'", "reward.abs()",
    )
]  # fmt: skip
SYNTAX = [
    "", "   ", "\t\n", "*", "reward", "reward > ", "> 1", "reward > 1 2", "reward > 1,",
    "(reward > 1",
    "reward > 1)", "()", "reward = (1, 2)", "(reward, action) = (1, 2)", "reward in ()",
    "reward in 1", "reward in list", "reward between 1", "reward between symmetric 1 and 2",
    "reward is 1", "reward is true", "reward is not distinct from 1", "reward = null",
    "reward in (1, null)", "not", "and", "reward and", "case end", "case when flag then 1",
    "case flag + 1 when 1 then 2 end = 1", "reward > 1 and", "reward > 1 > 2", "reward = 1 = 1",
    "reward::blob = 1", "reward::", "shop like reward", "shop like", "shop like 'a' escape 'b'",
    "shop ilike 'a'", "shop glob 'a'", "shop similar to 'a'", "shop ~ 'a'", "shop !~ 'a'",
    "shop collate nocase = 'a'", "shop = 'a' 'b'", "shop = 'a", 'shop = "a', 'shop = ""',
    "shop = ''''a",
    "shop = $$a$$", "shop = $tag$a$tag$", "shop = e'\\x41'", "shop = x'41'", "shop = U&'\\0041'",
    "shop = b'1'", "shop = n'a'", "shop = `a`", "shop = [a]", "shop[1] = 'a'", "shop[1:2] = 'a'",
    "{'a': 1} = 1", "[1, 2] = 1", "[x for x in list] = 1", "MAP {1: 2} = 1", "ROW(1) = 1",
    "log.reward > 1", "memory.main.log.reward > 1", "log.* = 1", "* EXCLUDE (reward) = 1",
    "#1 > 1", "$1 > 1", "? > 1", ":x > 1", "@reward > 1", "reward := 1", "reward => 1",
    "reward -> 1", "x -> x + 1", "lambda x: x", "reward & 1 = 1", "reward | 1 = 1",
    "reward ^ 2 = 1",
    "reward ** 2 = 1", "reward // 2 = 1", "~action = 1", "action << 1 = 1", "action >> 1 = 1",
    "!flag", "flag && flag", "reward <=> 1", "reward == == 1", "reward ! = 1", "+reward > 1",
    "action!", "reward > 1_000", "reward > 0x10", "reward > 1e", "reward > 1e999", "reward > 1.2.3",
    "reward > 1..2", "reward > .", "action > " + "9" * 39, "action > " + "9" * 5000,
    "reward > 1 -- and more", "reward > 1 /* and more */", "/**/ reward > 1", "reward > 1 --",
    "reward > 1 # x", "reward > 1;", ";", ";;", "reward > 1\\", "reward > 1\\g", ".read x",
    "\\! ls",
    "reward > 1 limit 1", "reward > 1 order by 1", "reward > 1 group by action", "reward x > 1",
    "reward as x", "all(list)", "any(list)", "reward = any(list)", "reward = all(list)",
]  # fmt: skip
NAMES = [
    "Reward > 1", "REWARD > 1", '"Reward" > 1', '"reward " > 1', '" reward" > 1', "no_such > 1",
    '"a""b" > 1', '"reward"" > 1 or 1=1 --" = 1', '"x"); DROP TABLE log; --" = 1', "a b > 1",
    "rowid > 1",
    "file_row_number > 1", "filename = 'x'", 'shop = "a"', "'reward' > 1", "order > 1", "log > 1",
    "ｒｅｗａｒｄ > 1", "rewаrd > 1", "reward\u200b > 1", "reward\u00a0> 1", "\ufeffreward > 1",
    "reward ＞ 1", "reward ﹥ 1", "shop = ’a’", "shop = ＇a＇", "shop = ʼaʼ", "shop = “a”",
    "reward > １",
    "reward > ١", "reward > ²", "reward > 1\u2028and", "reward > 1\u037e", "ſelect",
    "reward \0 > 1",
    "shop = 'a\0b'", "reward > 1\x00", "\x1b[31mreward > 1", "reward\u202e > 1", "shop = '\ud800'",
    "\ud800 > 1", "reward > 1\x1a", "reward\v> 1", "reward\f> 1", "reward\x85> 1",
]  # fmt: skip
KINDS = [
    "shop > 1", "shop = 5", "reward = '5'", "reward = shop", "flag = 1", "flag > true",
    "flag + 1 = 2",
    "shop + 1 = 2", "shop + shop = 'a'", "reward || shop = 'a'", "not reward", "reward and flag",
    "reward or true", "case when reward then 1 end = 1", "case when flag then 1 else 'a' end = 1",
    "coalesce(reward, shop) = 1", "abs(shop) = 1", "length(reward) = 1", "year(shop) = 1",
    "hour(day) = 1", "year(reward) = 1", "day > 5", "day = 'yesterday'", "day = '2026-02-30'",
    "at = '2026-01-01 25:00'", "at > '2026-01-01 10:00+02:00'", "zoned = at", "zoned = day",
    "zoned > 'now'", "date 'today' = day", "timestamp 'infinity' = at", "day > date '10000-01-01'",
    "list = 1", "list = list", "length(list) = 1", "wide > 1", "wide is null or wide = 1",
    "action * action * action > 1", "action * action + 0.5 > 1", "lower(shop) = 'zürich'",
    "upper(shop) like 'Ü%'", "shop between 1 and 2", "shop in (1, 2)", "reward in (shop)",
    "at in ('2026-01-01', 5)", "day in ('2026-01-01 10:00', 5)", "-shop = 1", "-flag",
    "round(flag) = 1",
    "reward like 'a'", "starts_with(reward, 'a')", "action % shop = 1",
]  # fmt: skip
ABUSE = [
    "(" * 5000 + "true" + ")" * 5000, "not " * 5000 + "true", "-" + " - " * 5000 + "1 = 1",
    "case when " * 500 + "true" + " then true end" * 500,
    "abs(" * 200 + "reward" + ")" * 200 + " > 1",
    "reward + " * 5000 + "1 > 1", "coalesce(" * 3000, "cast(" * 3000, "(" * 100_000, "[" * 90_000,
    "reward > 1 and " * 20_000 + "true", "'" * 99_999, '"' * 99_999, "1" * 99_999, "x" * 99_999,
    "reward > 1" + " " * 100_000, "é" * 100_001,
    "case when flag then " * 99 + "1" + " end" * 99 + " = 1e",
    "reward" + "::double" * 5000 + " > 1", "(" * 50 + "select" + ")" * 50,
    # Every quotient is written twice, so are all that it is made of.
    "reward" + "".join(f" / ({k}" for k in range(1, 40)) + "+ reward" + ")" * 39 + " > 1",
]  # fmt: skip
ATTEMPTS = [
    *STATEMENTS, *(tail.format(s) for tail, s in itertools.product(TAILS, STATEMENTS[:8])),
    *FUNCTIONS, *SYNTAX, *NAMES, *KINDS, *ABUSE,
]  # fmt: skip


def test_there_are_many():
    assert len(set(ATTEMPTS)) == len(ATTEMPTS) >= 350


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: repr(attempt)[:40])
def test_it_is_refused(attempt):
    started = time.perf_counter()
    with refuses(ParameterError, "where") as caught:
        Expression(attempt).on(TYPES, DUCKDB).as_condition().sql()
    assert time.perf_counter() - started < 5
    sentence = str(caught.value)
    assert sentence.startswith("where")
    assert sentence.isprintable() or "\n" not in sentence
    assert len(sentence) < 1500
    assert sentence.endswith((".", ")"))


SPARK_TYPES = {
    name: {"BIGINT": "bigint", "DOUBLE": "double", "VARCHAR": "string", "BOOLEAN": "boolean",
           "DATE": "date", "TIMESTAMP": "timestamp_ntz", "TIMESTAMP WITH TIME ZONE": "timestamp",
           "DOUBLE[]": "array<double>", '"NULL"': "void", "DECIMAL(30,4)": "decimal(30,4)",
           "INTEGER": "int"}[type_]
    for name, type_ in TYPES.items()
}  # fmt: skip


def test_spark_refuses_the_same():
    for attempt in ATTEMPTS:
        with refuses(ParameterError, "where"):
            Expression(attempt).on(SPARK_TYPES, SPARK).as_condition().sql()


# -- at the doors ----------------------------------------------------------------------------


@pytest.fixture
def logged(tmp_path):
    case = make_case(np.random.default_rng(0), 60, drawn=True)
    (path,) = write(tmp_path, table_of(case, shop=pa.array(["a", "b"] * 30)))
    return path


@pytest.mark.parametrize(
    "attempt",
    [
        "COPY (SELECT 1) TO 'made.csv'", "1); COPY (SELECT 1) TO 'made.csv'; --",
        "ATTACH 'made.db'", "(SELECT content FROM read_text('/etc/passwd')) <> ''",
        "random() < 0.5",
        "reward > 1 -- more", "(" * 5000 + "true" + ")" * 5000, "shop = \"a\"", "",
    ],
    ids=lambda attempt: repr(attempt)[:40],
)  # fmt: skip
def test_the_command_line_says_it_in_one_line(logged, capsys, monkeypatch, attempt):
    folder = logged.parent / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    code, said = fails(["evaluate", str(logged), "--policy", "new", "--where", attempt], capsys)
    assert code == 2
    assert said.startswith("ParameterError: --where")
    assert said.count("\n") == 1
    assert os.listdir(folder) == []


def test_a_frame_and_a_file_refuse_it(logged):
    table = table_of(make_case(np.random.default_rng(0), 60, drawn=True))
    for source in (logged, table):
        with refuses(ParameterError, "where"):
            op.read_log(source, where="random() < 0.5")
        with refuses(ParameterError, "where"):
            op.read_log(source, where="logging = 1")
        with refuses(ParameterError, "where"):
            op.read_log(source, where=5)


def test_a_folder_that_is_not_there_is_not_looked_for_first(tmp_path):
    with refuses(ParameterError, "where"):
        op.read_log(tmp_path / "nowhere.csv", where="true;")


# -- the connection --------------------------------------------------------------------------


def test_the_connection_opens_the_logs_files_alone(logged, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("a\n1\n")
    scan = op.read_log(logged, where="shop = 'a'")
    with connect(files=[str(logged)]) as connection:
        for opened in (scan._database.cursor(), connection):
            assert opened.execute(f"SELECT count(*) FROM '{logged}'").fetchone() == (60,)
            for query in (
                f"SELECT * FROM '{other}'", f"SELECT * FROM read_text('{other}')",
                f"COPY (SELECT 1) TO '{tmp_path}/made.csv'", f"ATTACH '{tmp_path}/made.db'",
                f"SELECT * FROM glob('{tmp_path}/*')", "INSTALL httpfs", "LOAD httpfs",
                "SET enable_external_access = true", "SET allowed_paths = ['/etc/passwd']",
                "SET autoinstall_known_extensions = true", "RESET lock_configuration",
            ):  # fmt: skip
                with pytest.raises(duckdb.Error):
                    opened.execute(query).fetchall()
    assert sorted(os.listdir(tmp_path)) == ["other.csv", "part-0.parquet"]
