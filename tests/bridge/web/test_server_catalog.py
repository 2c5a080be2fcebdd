"""The app serves a catalog on PostgreSQL as it serves one in a folder."""

from __future__ import annotations

from web_app import need_pages, running_app, write_episodes

from bridge import TrajectoryIngestor


def test_a_catalog_on_a_server_is_served(server, tmp_path, monkeypatch):
    need_pages()
    monkeypatch.setenv("WSHARD_CACHE", str(tmp_path / "cache"))
    write_episodes(tmp_path / "episodes", 4)
    with server.catalog() as url:
        with TrajectoryIngestor(url) as ingestor:
            assert not ingestor.ingest([tmp_path / "episodes"]).failed
        with running_app(url) as app, app.client() as client:
            rows = client.get("/api/episodes", params={"sort": "-length", "skip": 1}).json()["items"]
            assert [row["episode_id"] for row in rows] == ["arm-02", "arm-01", "arm-00"]
            found = client.get("/api/moments", params={"query": f"{rows[0]['uid']}@5:40", "exclude_self": True}).json()
            assert found["items"]
            changed = client.post("/api/reviews", json={"episodes": [rows[0]["uid"]], "state": "accepted"})
            assert changed.json()["items"][0]["who"] == "ann"
            facets = client.get("/api/facets", params={"field": "review"}).json()["items"][0]["values"]
            assert {"value": "accepted", "episodes": 1} in facets
            assert "postgresql" in client.get("/api/state").json()["archive"]
