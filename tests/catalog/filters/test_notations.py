"""One filter, written in Python, as text and as a URL: the same value each time, mistakes reported where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import (
    EVERYTHING,
    NOTHING,
    AllOf,
    AnyOf,
    Compare,
    F,
    Not,
    Where,
    all_of,
    any_of,
    parse_query,
    parse_where,
    where_query,
    where_text,
)
from catalog.filters.fields import field_of
from catalog.filters.parse import parse_comparison
from catalog.testing.contract import FIELD_NAMES, wheres
from wshard.errors import FilterError, FilterSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable

SAME: list[tuple[Where, str, str]] = [
    (EVERYTHING, "", ""),
    (NOTHING, "-()", "where=-%28%29"),
    (F.env_id == "reach-v3", "env:reach-v3", "env=reach-v3"),
    (F.env_id != "a b", 'env:!="a b"', "env=%21%3D%22a+b%22"),
    (F.total_reward >= 0.8, "reward:0.8..", "reward=0.8.."),
    (F.total_reward <= 2, "reward:..2.0", "reward=..2.0"),
    (F.total_reward.between(-1, 2), "reward:-1.0..2.0", "reward=-1.0..2.0"),
    (F.length > 100, "length:>100", "length=%3E100"),
    (F.length < 100, "length:<100", "length=%3C100"),
    (F.success == True, "success:true", "success=true"),  # noqa: E712  (a filter, not a truth)
    (F.env_id.one_of(["a", "b"]), "env:a,b", "env=a%2Cb"),
    (F.env_id.one_of([]), "env:()", "env=%28%29"),
    (F.tag == "good", "tag:good", "tag=good"),
    (F.tag != "bad", "-tag:bad", "-tag=bad"),
    (F.review.exists(), "review:*", "review=%2A"),
    (F.note.contains("blur"), "note:*blur*", "note=%2Ablur%2A"),
    (F.path.startswith("/data/"), "path:/data/*", "path=%2Fdata%2F%2A"),
    (F.text.contains("pick up"), '"pick up"', "q=pick+up"),
    (F.text.contains("pick*"), "pick*", "q=pick%2A"),
    (~F.text.contains("OR"), '-"OR"', "-q=OR"),
    (F.meta.seed == 3, "meta.seed:3", "meta.seed=3"),
    (F.meta.seed == "3", 'meta.seed:"3"', "meta.seed=%223%22"),
    (F.meta.flag == False, "meta.flag:false", "meta.flag=false"),  # noqa: E712  (as above)
    (F.meta["a.b"]["c d"] == "x", 'meta."a.b"."c d":x', "meta.%22a.b%22.%22c+d%22=x"),
    (F.score["quality"] > 0.5, "score.quality:>0.5", "score.quality=%3E0.5"),
    (F.lane["signal/state"].mean[3] > 0.5, "lane.signal/state.mean[3]:>0.5", "lane.signal%2Fstate.mean%5B3%5D=%3E0.5"),
    (F.lineage.trimmed_from == "u", "lineage.trimmed_from:u", "lineage.trimmed_from=u"),
    (F.collection == "train", "collection:train", "collection=train"),
    ((F.env_id == "a") & (F.length > 5), "env:a length:>5", "env=a&length=%3E5"),
    ((F.env_id == "a") | (F.length > 5), "env:a OR length:>5", "where=env%3Aa+OR+length%3A%3E5"),
    (
        (F.env_id == "a") & ~((F.tag == "b") | (F.tag == "c")),
        "env:a -(tag:b OR tag:c)",
        "env=a&where=-%28tag%3Ab+OR+tag%3Ac%29",
    ),
]


@pytest.mark.parametrize(("where", "text", "query"), SAME, ids=[text for _, text, _ in SAME])
def test_three_forms_of_one_filter(where: Where, text: str, query: str) -> None:
    assert where_text(where) == text
    assert parse_where(text) == where
    assert where_query(where) == query
    assert parse_query(query) == parse_query("?" + query) == where


@given(where=wheres(max_clauses=6))
def test_text_and_url_read_back_as_the_same_value(where: Where) -> None:
    assert parse_where(where_text(where)) == where
    assert parse_query(where_query(where)) == where
    assert hash(parse_where(where_text(where))) == hash(where)


@given(name=st.text(min_size=1), value=st.text())
def test_any_name_and_text_can_be_written(name: str, value: str) -> None:
    try:
        where = (F.meta[name] == value) | F.meta[name][value or "x"].contains(value)
    except FilterError:
        assert "\0" in name + value or any("\ud800" <= sign <= "\udfff" for sign in name + value)
        return
    assert parse_where(where_text(where)) == where
    assert parse_query(where_query(where)) == where


@given(text=st.text(alphabet=st.sampled_from("ab :.,*()<>=!-\"\\'1é\n[]OR"), max_size=25))
def test_whatever_is_typed_is_a_filter_or_a_mistake_at_a_place(text: str) -> None:
    try:
        where = parse_where(text)
    except FilterSyntaxError as error:
        where, position = EVERYTHING, error.position
    else:
        position = 0
    assert 0 <= position <= len(text)
    assert parse_where(where_text(where)) == where


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("  env:a   AND length:>=5 ", "env:a length:5.."),
        ("NOT tag:bad", "-tag:bad"),
        ("--tag:bad", "tag:bad"),
        ("-NOT -tag:bad", "-tag:bad"),
        ("a OR (b OR c)", "a OR b OR c"),
        ("a (b (c))", "a b c"),
        ("(a OR b) c", "(a OR b) c"),
        ("a -()", "-()"),
        ("a OR ()", ""),
        ("env_id:a total_reward:>1 episode:e", "env:a reward:>1.0 episode:e"),
        ("env:a,a,b env:c,c", "env:a,b env:c"),
        ("text:pick", "pick"),
        ("success:yes", "success:true"),
        ("reward:>-inf", "reward:>-inf"),
        ('meta."task":x', "meta.task:x"),
        ('meta.a:1,"1",true,2.5', 'meta.a:"1" OR meta.a:1,2.5 OR meta.a:true'),
    ],
)
def test_other_ways_to_type_the_same(text: str, written: str) -> None:
    assert where_text(parse_where(text)) == written


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("env:", 4, "expected a value"),
        ("env:a lenght:5", 6, r"^expected a field, found 'lenght' \(did you mean length\?\), at character 7"),
        ("goal:pick", 0, r"found 'goal' \(a key of the metadata is meta.goal; fields are episode, env, length, "),
        ("reward>3", 6, "expected a colon, as in reward:>3"),
        ("length:abc", 7, "expected an integer, found 'abc'"),
        ("length:1.5", 7, "expected an integer, found"),
        ("id:stir*", 3, r"expected an integer \(an episode's name is episode:NAME\), found 'stir"),
        ('id:"stir pot*"', 0, r"found 'stir pot\*' \(an episode's name is episode:NAME\), at character 1"),
        ("reward:x", 7, "expected a number"),
        ("success:maybe", 8, "expected true or false"),
        ("a (b", 4, "closing parenthesis for the one at character 3"),
        ("a)", 1, "expected the end"),
        ("a OR", 4, "expected a comparison"),
        ("OR a", 0, "before OR"),
        ("AND a", 0, "before AND"),
        ('env:"x', 6, "closing double quote"),
        ("x tag:!=y", 2, "expected an operator among"),
        ("reward:1..2..3", 11, "expected a space"),
        ('a "!!!"', 2, "expected a word to search for"),
        ("env:*x", 6, r"expected a second \*"),
        ("success:>true", 0, "expected an operator among"),
        ("lane.x.size:5", 0, "with a statistic among"),
        ("(" * 60 + "a" + ")" * 60, 51, "at most 50 levels"),
        ("-" * 60 + "a", 51, "at most 50 levels"),
        (" ".join(["a"] * 501), 0, "at most 500 comparisons"),
    ],
)
def test_a_mistake_in_the_text_is_reported_with_its_position(text: str, position: int, message: str) -> None:
    with pytest.raises(FilterSyntaxError, match=message) as caught:
        parse_where(text)
    assert caught.value.position == position


@pytest.mark.parametrize("query", ["nonsense", "colour=red", "length=x", "where=(", "q=%21", "env=%ff", "-=a"])
def test_a_mistake_in_a_url_is_reported(query: str) -> None:
    with pytest.raises(FilterSyntaxError, match="expected"):
        parse_query(query)


def test_a_mistake_in_a_url_names_the_parameter() -> None:
    with pytest.raises(FilterSyntaxError, match="parameter 'length': expected an integer") as caught:
        parse_query("env=a&length=>x")
    assert caught.value.position == 1


@pytest.mark.parametrize(
    "make", [lambda: F.env_id == "a" and F.length > 1, lambda: 1 < F.length < 5, lambda: not EVERYTHING]
)
def test_a_filter_is_not_a_truth(make) -> None:
    with pytest.raises(FilterError, match=r"combined by & \| ~"):
        make()


def test_in_is_not_a_filter_and_the_message_names_what_is() -> None:
    with pytest.raises(FilterError, match=r"see F\.env_id\.contains and one_of$"):
        "push" in F.env_id  # noqa: B015


def test_names_that_are_not_fields_are_refused() -> None:
    for make in (lambda: F.colour == 1, lambda: F.env_id.part == 1, lambda: F.score == 1, lambda: F.lane["x"] > 1):
        with pytest.raises(FilterError, match="expected"):
            make()
    assert not hasattr(F.env_id, "__array__")
    assert repr(F.meta.task) == 'F.meta."task"'


@pytest.mark.parametrize("name", FIELD_NAMES)
def test_field_names_read_back(name: str) -> None:
    assert field_of(field_of(name).name) == field_of(field_of(name).short) == field_of(name)


def test_every_filter_is_in_its_normal_form() -> None:
    a, b, c = F.env_id == "a", F.env_id == "b", F.env_id == "c"
    assert (a & b) & c == a & (b & c) == all_of(a, b, c) == AllOf((a, b, c))
    assert (a | b) | c == a | (b | c) == any_of(a, b, c) == AnyOf((a, b, c))
    assert ~~a == all_of(a) == any_of(a) == a & EVERYTHING == a | NOTHING == a
    assert a & NOTHING == any_of() == ~EVERYTHING == NOTHING
    assert a | EVERYTHING == all_of() == ~NOTHING == EVERYTHING
    for make in (
        lambda: AllOf((a,)),
        lambda: AllOf((a, AllOf((b, c)))),
        lambda: AnyOf((a, EVERYTHING)),
        lambda: Not(Not(a)),
        lambda: Not(NOTHING),
        lambda: a & "env:b",
    ):
        with pytest.raises(FilterError, match="expected"):
            make()


def test_values_of_different_types_are_different_filters() -> None:
    assert Compare("meta.x", "eq", 1) != Compare("meta.x", "eq", True)
    assert Compare("meta.x", "in", [0, 2]) == Compare("meta.x", "in", [0.0, 2.0])


@pytest.mark.parametrize(
    ("written", "full"),
    [
        ("score.quality.spike", "score.quality.spike"),
        ('score."quality.spike"', "score.quality.spike"),
        ("score.quality/spike", "score.quality/spike"),
        ("lane.signal/observation.state.max[3]", "lane.signal/observation.state.max[3]"),
        ('lane."signal/observation.state".max', "lane.signal/observation.state.max"),
        ("lane.a.min.max", "lane.a.min.max"),
        ('lane."a b.c".d.mean', 'lane."a b.c.d".mean'),
        ('score."odd name"', 'score."odd name"'),
        ('score."trailing."', 'score."trailing."'),
    ],
)
def test_names_of_scores_and_lanes_may_have_dots(written, full):
    field = field_of(written)
    assert field.name == full
    assert field_of(field.name) == field
    assert parse_where(f"{written}:>=1") == parse_where(where_text(Compare(written, "ge", 1.0)))


@pytest.mark.parametrize("read", [parse_where, parse_query, lambda text: parse_comparison("env", text)])
@pytest.mark.parametrize("text", [None, 5, b"env:x", ["env:x"]])
def test_invalid_text_is_refused_as_a_filter(read: Callable[[Any], Where], text: Any) -> None:
    with pytest.raises(FilterError, match="expected text, found"):
        read(text)


def test_names_of_very_many_keys_are_refused():
    name = f"meta{'.a' * 50}"
    assert where_text(parse_where(f"{name}:1")) == f"{name}:1"
    for name in (f"meta{'.a' * 51}", f"meta{'.a' * 3000}"):
        with pytest.raises(FilterError, match="expected at most 50 keys"):
            parse_where(f"{name}:1")
