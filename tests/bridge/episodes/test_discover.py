"""Files of a folder are found, and so catalogued, in the natural order of their names."""

from __future__ import annotations

from bridge_episodes import episode, ingest, opened_archive, save


def test_files_are_catalogued_in_the_natural_order_of_folders_and_names(tmp_path):
    expected = []
    for number, name in enumerate(("run_9/demo_10", "run_10/demo_1", "run_9/demo_2", "run_10/demo_01")):
        (path,) = save(tmp_path / "new", episode(0, number))
        expected.append(tmp_path / "data" / f"{name}.wshard")
        expected[-1].parent.mkdir(parents=True, exist_ok=True)
        path.rename(expected[-1])
    ingest(tmp_path / "archive", tmp_path / "data")
    with opened_archive(tmp_path / "archive") as opened:
        found = [row.path for row in opened.catalog.query.select(order="id").rows]
    assert found == [str(expected[index]) for index in (2, 0, 3, 1)]
