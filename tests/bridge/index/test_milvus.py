"""The index on a Milvus server, as far as no server is needed: URLs and filters. tests/engines has the rest."""

from __future__ import annotations

import sys

import pytest

from bridge.index.deepdata.filters import compile_where
from bridge.index.deepdata.settings import read_settings
from bridge.index.milvus.expressions import expression
from bridge.index.milvus.index import FORM, open_milvus
from bridge.index.milvus.server import MilvusServer
from bridge.testing.brute_force import make_space
from catalog import EVERYTHING, Catalog
from catalog.filters.where import Compare
from wshard.errors import IndexAccessError, MissingExtraError, UnknownIndexError


@pytest.fixture
def catalog(tmp_path):
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        yield catalog


KITCHEN = Compare("env_id", "eq", "kitchen")
QUOTED = Compare("env_id", "eq", 'say "x"')
LONG = Compare("length", "ge", 3)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (KITCHEN, 'env_id == "kitchen"'),
        (Compare("env_id", "in", ("kitchen", "hall")) & LONG, '(env_id in ["kitchen", "hall"]) and (length_T >= 3)'),
        (Compare("total_reward", "lt", 0.5), "total_reward <= 0.5"),
        (Compare("success", "eq", True) | LONG, "(success == 1) or (length_T >= 3)"),
        (QUOTED, ""),
        (QUOTED & LONG, "(length_T >= 3)"),
        (QUOTED | LONG, ""),
        (~KITCHEN, ""),
    ],
)
def test_filters_match_at_least_what_they_should(where, expected):
    assert expression(compile_where(where)) == expected


def test_everything_is_not_filtered():
    assert expression(compile_where(EVERYTHING)) == ""


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("milvus+http://", r"expected milvus\+http://host:port"),
        ("milvus+http://host:99999", r"expected milvus\+http://host:port"),
        ("milvus+http://host/a/b", r"expected milvus\+http://host:port/PREFIX"),
        ("milvus+http://secret:word@host?rpm=3", r"expected options among ef, batch, timeout in milvus\+http://"),
        ("milvus+http://host?tenant=a", "expected options among ef, batch, timeout in .*found tenant "),
        ("milvus+http://host?zz=1", r"found zz \(.*milvus\+http://TOKEN@HOST, or in MILVUS_TOKEN\)"),
    ],
)
def test_other_urls_are_refused_without_what_they_hide(url, expected, catalog, tmp_path):
    with pytest.raises(UnknownIndexError, match=expected) as caught:
        open_milvus(url, catalog, tmp_path)
    assert "word" not in str(caught.value)
    assert "DEEPDATA_TOKEN" not in str(caught.value)


def test_tokens_come_from_the_url_or_the_environment(catalog, tmp_path, monkeypatch):
    monkeypatch.setenv("MILVUS_TOKEN", "root:Milvus")
    monkeypatch.setenv("DEEPDATA_TOKEN", "of another server")
    for url, token in (
        ("milvus+http://host", "root:Milvus"),
        ("milvus+https://a:b%40c@host", "a:b@c"),
        ("milvus+http://key@host", "key"),
    ):
        with open_milvus(url, catalog, tmp_path) as index:
            assert index._settings.token == token
            assert index._settings.place == f"{url.partition(':')[0]}://host/wshard"


def test_a_refusal_says_where_a_token_is_given():
    text = "call unauthenticated: auth check failure"
    for url, fault in (("milvus+http://host", "no token was given"), ("milvus+http://key@host", "does not suffice")):
        server = MilvusServer(read_settings(url, environment={}, form=FORM))
        error = server._translate("search", text, 0)
        assert isinstance(error, IndexAccessError)
        assert f"{fault}: set MILVUS_TOKEN" in str(error)


def test_without_pymilvus_its_extra_is_named(catalog, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    space = make_space()
    catalog.vectors.add_space(space.fingerprint, space.family, space.to_json())
    with (
        open_milvus("milvus+http://127.0.0.1:1", catalog, tmp_path) as index,
        pytest.raises(MissingExtraError, match=r"pip install 'wshard\[milvus\]'"),
    ):
        index.upsert(space, [])
