"""No data set that another program wrote lies there untested."""

from paths import ROOT


def test_every_data_set_is_named_by_a_test(dataset_fixtures):
    text = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    sets = [path.relative_to(dataset_fixtures) for path in dataset_fixtures.glob("*/*")]
    assert len(sets) >= 24
    assert [str(path) for path in sets if path.name not in text] == []
