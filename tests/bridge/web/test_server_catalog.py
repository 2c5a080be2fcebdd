"""The app serves a catalog on PostgreSQL as it serves one in a folder."""

from __future__ import annotations

import httpx
import pytest
from web_app import need_pages, running_app, write_episodes

from bridge.web.accounts import hash_token, read_accounts
from wshard import TrajectoryIngestor


@pytest.mark.long
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


def test_accounts_of_a_team_change_a_catalog_on_a_server_or_only_read_it(server, tmp_path, monkeypatch):
    need_pages()
    monkeypatch.setenv("WSHARD_CACHE", str(tmp_path / "cache"))
    write_episodes(tmp_path / "episodes", 2)
    auth = tmp_path / "accounts"
    auth.write_text(
        "".join(f"{name} {role} {hash_token(name)}\n" for name, role in (("eve", "editor"), ("bob", "reader")))
    )
    with server.catalog() as url:
        with TrajectoryIngestor(url) as ingestor:
            assert not ingestor.ingest([tmp_path / "episodes"]).failed
        with running_app(url, accounts=read_accounts(auth)) as app, httpx.Client(base_url=app.url) as client:
            row = client.get("/api/episodes", headers={"Authorization": "Bearer bob"}).json()["items"][0]
            change = {"episodes": [row["uid"]], "state": "rejected"}
            for name, status in (("bob", 403), ("mallory", 401), ("eve", 200)):
                answer = client.post("/api/reviews", json=change, headers={"Authorization": f"Bearer {name}"})
                assert answer.status_code == status, answer.text
            (entry,) = app.archive.catalog.annotations.audit([row["id"]])
            assert (entry.who, entry.state) == ("eve", "rejected")
            assert (
                client.post(
                    "/api/undos", json={"undo": answer.json()["undo"]}, headers={"Authorization": "Bearer bob"}
                ).status_code
                == 403
            )
            assert (
                client.post(
                    "/api/undos", json={"undo": answer.json()["undo"]}, headers={"Authorization": "Bearer eve"}
                ).status_code
                == 200
            )
