"""Which fields tell the episodes of an archive apart: those that people named with few values, no ids, no texts."""

from __future__ import annotations

import re

import pytest

from catalog import Catalog
from catalog.filters.parse import as_where
from catalog.filters.to_text import where_text
from catalog.filters.where import Compare
from catalog.query.differences import find_differences
from catalog.query.sampling import draw_ids, sample_episodes
from catalog.query.suggestions import suggest_keys, suggest_values
from catalog.testing.records import make_record
from wshard.errors import FilterError

EPISODES = 124


def describe(n):
    """Return metadata as several people would write them."""
    return {
        "task": f"put {n % 40} away",
        "thirty": f"scene {n % 30}",
        "thirty one": f"scene {n % 31}",
        "mixed": (1, "1", True, "true")[n % 4],
        "behaviour": ("grasp", "push", "slide")[n % 3],
        'say "x"': ("a b", 'c"d', None)[n // 2 % 3],
        "label": n % 2,
        "robot": {"arm type": ("left", "right")[n // 62]},
        "תווית": ("שלום", "עולם")[n // 3 % 2],
        "night": n % 5 == 0,
        "rare": "yes" if n < 3 else None,
        "one": "always",
        "seed": n * 7,
        "file": f"{n}.mp4",
        "recorded": f"2026-01-01T10:{n}",
        "env_name": f"env-{n % 5}",  # as env
        "robot id": 7 * (n % 5),  # in other words
        "parts": ["a", "b"][: n % 2],
    }


@pytest.fixture
def catalog(tmp_path):
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        folders = ("/data/robot_a", "/data/robot_b")
        rows = [make_record(n, folder=folders[n // 7 % 2], metadata=describe(n)) for n in range(EPISODES)]
        catalog.episodes.register(rows)
        yield catalog


def test_few_values_of_several_episodes_each_are_facets(catalog):
    found = find_differences(catalog.query, sample_episodes(catalog.query))
    own = ("meta.thirty", "meta.mixed", "meta.behaviour", r'meta."say \"x\""', "meta.label", 'meta.robot."arm type"')
    assert found.facets == ("env", "meta.task", "success", *own, "folder"), "the most telling first"
    assert found.more_facets[:4] == ("meta.תווית", "meta.night", "meta.rare", "path")
    others = (
        'meta."robot id"',
        'meta."thirty one"',
        "meta.env_name",
        "meta.file",
        "meta.one",
        "meta.recorded",
        "meta.seed",
    )
    assert found.more_facets[4:] == others, "lists are no values"
    assert found.labels == ("env", "meta.task")
    some = {"rare", "label"}
    few = [
        row._replace(metadata={key: row.metadata[key] for key in some & row.metadata.keys()})
        for row in sample_episodes(catalog.query)
    ]
    found = find_differences(catalog.query, few)
    assert ("meta.label" in found.facets, found.more_facets[0]) == (True, "meta.rare"), "few episodes have it"
    rows = sample_episodes(catalog.query)
    own = [row._replace(env_id="", metadata={key: row.metadata[key] for key in ("behaviour", "label")}) for row in rows]
    assert find_differences(catalog.query, own).labels == ("meta.behaviour",), "a number alone says nothing"


def test_names_of_topics_are_facets_on_request_only(catalog):
    rows = [
        row._replace(
            metadata={
                "arm/mode": n % 3,
                "topics": {"/cam/depth": {"messages": n % 4}},
                "mode": ("a", "b", "c")[n % 3],
                "label": n % 2,
            }
        )
        for n, row in enumerate(sample_episodes(catalog.query))
    ]
    found = find_differences(catalog.query, rows)
    assert [name for name in found.facets if name.startswith("meta.")] == ["meta.mode", "meta.label"]
    assert found.more_facets[0] == "meta.topics./cam/depth.messages"
    assert "meta.arm/mode" in found.more_facets


def test_each_value_of_a_facet_finds_its_episodes(catalog):
    found = find_differences(catalog.query, sample_episodes(catalog.query))
    for field in (*found.facets, *found.more_facets[:3]):
        for value, episodes in catalog.query.facets([field])[field]:
            where = ~Compare(field, "exists") if value is None else Compare(field, "eq", value)
            assert catalog.query.count(as_where(where_text(where))) == episodes, where_text(where)


def test_what_repeats_in_steps_is_sampled_in_all_its_values(catalog):
    for step in (2, 5, 10):
        rows = catalog.query.select(draw_ids(range(1, EPISODES + 1), EPISODES // step), limit=EPISODES).rows
        assert len(rows) == EPISODES // step
        assert len({row.env_id for row in rows}) == 5, "every fifth has the same"


def test_columns_of_what_people_write_count_by_how_much_of_it_there_is(catalog):
    annotations = catalog.annotations
    ids = catalog.query.ids()

    def columns():
        return find_differences(catalog.query, sample_episodes(catalog.query)).columns

    first = columns()[: columns().index("folder")]
    annotations.set_scores("rating", {ids[0]: 5.0})
    annotations.tag(ids[:2], "good")
    assert columns() == (*first, "tags", "score.rating", "folder", "success"), "one of many takes no place of the task"
    annotations.review(ids[:1], "accepted")
    annotations.tag(ids[:110], "good")
    assert columns().index("score.rating") > max(columns().index(name) for name in ("review", "tags"))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("label:1", "meta.label"),
        ("env:reach labl:1", "meta.label"),
        ('"arm" OR arm_type:left', 'meta.robot."arm type"'),
        ("behavior:push", "meta.behaviour"),
        ("lenght:3", "length"),
    ],
)
def test_a_field_without_its_prefix_is_suggested_with_it(catalog, text, meant):
    with pytest.raises(FilterError, match=f"did you mean {re.escape(meant)}[?]") as found, suggest_keys(catalog.query):
        catalog.query.count(text)
    assert found.value.position == text.index(found.value.field)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("folder:robot_a", "folder:*robot_a* matches 6"),
        ("folder:Robot_A", "(/data/robot_a?)"),
        ("meta.behaviour:Grasp", "(grasp?)"),
        ("meta.behaviour:gras", "meta.behaviour:*gras* matches 42 of 124 episodes"),
        ("env:env-1 meta.behaviour:psuh", "(push?)"),
        ('meta.robot."arm type":up,rigth', "(right?)"),
        ("environment:env-11", "(env-1?)"),
    ],
)
def test_values_that_no_episode_has_are_said_with_those_that_are_meant(catalog, text, meant):
    assert any(meant in line for line in suggest_values(catalog.query, as_where(text)))
    assert suggest_values(catalog.query, as_where(f"{text} OR length:>0")) == [], "something matches"


def test_values_of_metadata_are_compared_in_some_episodes(catalog, monkeypatch):
    monkeypatch.setattr("catalog.query.suggestions._MOST_EPISODES", 1)
    mistyped = [as_where(text) for text in ("meta.behaviour:Grasp", "meta.behaviour:psuh", "meta.behaviour:opne")]
    lines = [line for where in mistyped for line in suggest_values(catalog.query, where, empty=[where])]
    assert sum("?)" in line for line in lines) <= 1, "one episode has one behaviour"
    assert suggest_values(catalog.query, as_where("environment:env-11")) == ["no episode has env 'env-11' (env-1?)"]


@pytest.mark.parametrize("text", ["Environment:a", "Location:a", "file:a", "Length:3", "Success:yes", "Total_reward:1"])
def test_fields_are_found_by_what_the_app_calls_them(text):
    assert as_where(text) == as_where(text.lower())
    assert where_text(as_where(text)).partition(":")[0] in {"env", "path", "length", "success", "reward"}


def test_other_mistakes_are_reported_as_they_are(catalog):
    for text in ("nothing_like_it:1", "length:long"):
        with pytest.raises(FilterError) as plain:
            as_where(text)
        with pytest.raises(FilterError, match=f"^{re.escape(str(plain.value))}$"), suggest_keys(catalog.query):
            catalog.query.count(text)
