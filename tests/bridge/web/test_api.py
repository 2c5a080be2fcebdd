"""The API returns what the commands print as JSON, and its document names every route and parameter."""

from __future__ import annotations

import json
import re
import threading
import time
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import h5py
import httpx
import numpy as np
import pytest
from bridge_episodes import episode, ingest, save
from command_line import app as commands
from simplejpeg import decode_jpeg
from typer.testing import CliRunner
from web_app import make_archive, need_pages, running_app, write_episodes

from bridge.curation.archive_vectors import read_chosen_vectors
from bridge.web.accounts import Account, hash_token
from bridge.web.api import sample, scatter
from bridge.web.application import ENDPOINTS
from catalog.filters.fields import field_of
from wshard import Channel, Episode, TrajectoryIngestor, convert_location, open_wshard, save_wshard
from wshard.core.media.images import encode_image

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; DROP TABLE episode; --",
    "\u202egnp.exe\x07",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    make_archive(folder)
    return folder


@pytest.fixture(scope="module")
def app(home):
    need_pages()
    with running_app(home / "lab") as running:
        yield running


@pytest.fixture(scope="module")
def client(app):
    with app.client() as signed_in:
        yield signed_in


def printed(home, *arguments: str):
    done = CliRunner().invoke(commands, [*arguments, "--archive", str(home / "lab"), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def get(client, path, **parameters: object):
    answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_pages_are_those_of_ls(client, home):
    assert get(client, "/api/episodes") == printed(home, "ls")
    found = get(client, "/api/episodes", where="env:lift length:90..", sort="-reward", limit=1)
    assert found == printed(home, "ls", "--where", "env:lift length:90..", "--sort", "-reward", "--limit", "1")
    rest = get(client, "/api/episodes", where="env:lift length:90..", sort="-reward", after=found["next"])
    assert len(found["items"]) + len(rest["items"]) == found["total"] == 2
    assert get(client, "/api/episodes", skip=10, count="false")["items"] == get(client, "/api/episodes")["items"][10:]
    columns = ["uid", "meta.task", "tags"]
    chosen = get(client, "/api/episodes", columns=columns)
    assert chosen == printed(home, "ls", "--columns", ",".join(columns))


def test_facets_and_episodes_are_those_of_the_commands(client, home):
    requested = {"field": ["env", "success"], "histogram": "length", "bins": 10, "where": "env:lift,push"}
    message = printed(home, "facets", "env", "success", "--histogram", "length", "--where", "env:lift,push")
    assert get(client, "/api/facets", **requested) == message
    uid = get(client, "/api/episodes")["items"][3]["uid"]
    (shown,) = printed(home, "show", uid)["items"]
    found = get(client, f"/api/episodes/{uid}")
    assert {name: found[name] for name in shown} == shown
    assert found["lane_kinds"]["signal/cam"] == "camera"
    assert found["rate"] == 20


def test_a_mistake_in_a_filter_is_shown_at_its_character(client):
    answer = client.get("/api/count", params={"where": "env:lift length:x"})
    assert answer.status_code == 400
    assert answer.json()["position"] == 16
    assert answer.json()["error"] == "FilterSyntaxError"
    answer = client.get("/api/count", params={"where": "env:lift trimed_from:arm-longer"})
    assert "(did you mean meta.trimmed_from?), at character 10" in answer.json()["message"]


def test_fields_have_what_files_and_people_named(client):
    names = {one["name"]: one for one in get(client, "/api/fields")["items"]}
    assert {"env", "reward", "meta.task", "lane.signal/state.max", "lane.action/ctrl.rate"} <= names.keys()
    assert {field_of(name).short for name in names} == names.keys()
    assert names["reward"] == {
        "name": "reward",
        "type": "float",
        "many": False,
        "operators": names["length"]["operators"],
    }
    assert get(client, "/api/count", where="lane.signal/state.max:>10")["total"] == 1
    assert get(client, "/api/count", where="env:lift")["hints"] == []
    assert get(client, "/api/count", where="env:lif")["hints"] == [
        "env:lif matches no whole value; env:*lif* matches 4 of 12 episodes"
    ]
    assert 0 < get(client, "/api/count", where=get(client, "/api/fields")["example"])["total"] < 12


def test_columns_are_those_in_which_episodes_differ(tmp_path):
    write_episodes(tmp_path / "own", 4)
    convert_location([tmp_path / "own" / f"{number:02d}.wshard" for number in (0, 3)], tmp_path / "both.hdf5")
    with TrajectoryIngestor(tmp_path / "lab") as ingestor:
        assert not ingestor.ingest([tmp_path / "both.hdf5"]).failed
    with running_app(tmp_path / "lab") as app, app.client() as client:
        fields = get(client, "/api/fields")
        assert fields["facets"] == ["env", "success"], "of two episodes no value is that of several"
        assert fields["columns"] == ["meta.task", "length", "reward", "success"], "what tells most apart comes first"
        assert get(client, "/api/storage")["bytes"] == (tmp_path / "both.hdf5").stat().st_size, "of both episodes"
        app.archive.archive.ingest([tmp_path / "own"])
        app.archive.catalog.annotations.tag(app.archive.catalog.query.ids("length:<85"), "short")
        fields = get(client, "/api/fields")
        assert {*fields["columns"]} >= {"format", "folder", "tags"}
        assert fields["facets"] == ["env", "meta.task", "success", 'meta."arm side"', "folder", "format", "tag"]
        uids = [row["uid"] for row in get(client, "/api/episodes")["items"]]
        names = {uid: get(client, f"/api/episodes/{uid}")["name"] for uid in uids}
        assert {"both.hdf5/arm-00", "00.wshard/arm-00"} <= {*names.values()}
        series = get(client, "/api/series", of=[*names], lanes=1)["items"]
        right, wrong, *_ = names
        probed = get(client, "/api/probe", right=right, wrong=wrong)
        assert all(one["name"] == names[one["uid"]] for one in [*series, *probed["items"], *probed["uncertain"]])


def test_series_are_the_lanes_of_the_files(client, home):
    row = get(client, "/api/episodes", where="episode:arm-03")["items"][0]
    with open_wshard(row["file_path"]) as file:
        state = file["state"][:]
    (item,) = get(client, "/api/series", of=f"{row['uid']}@10:20", lane="state")["items"]
    (lane,) = item["lanes"]
    assert item["pictures"] == ["signal/cam"]
    assert item["name"] == "arm-03"
    assert lane["steps"] == [*range(10, 20)]
    assert np.allclose(np.array(lane["values"]).T, state[10:20], atol=1e-5)
    (item,) = get(client, "/api/series", of=row["uid"], lane="state", points=20)["items"]
    thinned = np.array(item["lanes"][0]["values"])
    assert thinned.shape == (3, 20)
    assert np.allclose(thinned.max(axis=1), state.max(axis=0), atol=1e-5), "extremes stay"
    assert np.allclose(thinned.min(axis=1), state.min(axis=0), atol=1e-5)
    (item,) = get(client, "/api/series", of=row["uid"])["items"]
    assert [lane["lane"] for lane in item["lanes"]][:3] == ["signal/state", "action/ctrl", "reward"]


def test_plots_begin_with_a_lane_that_was_compared_the_widest_first(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 9)).astype(np.float32)
    lanes = {name: Channel.of(name, rows[:, :width]) for name, width in (("gripper", 1), ("pose", 2), ("wide", 8))}
    actions = {"all": Channel.of("all", rows)}
    save_wshard(Episode("one", "", 60, observations=lanes, actions=actions), tmp_path / "one.wshard")
    with TrajectoryIngestor(tmp_path / "lab", lanes={"gripper": 1, "pose": 1}) as ingestor:
        assert ingestor.ingest([tmp_path / "one.wshard"]).embedded == 1
    with running_app(tmp_path / "lab") as app, app.client() as client:
        (row,) = get(client, "/api/episodes")["items"]

        def shown(*compared: str) -> list[str]:
            (item,) = get(client, "/api/series", of=row["uid"], compared=[*compared])["items"]
            return [lane["lane"] for lane in item["lanes"]]

        assert shown() == ["signal/pose", "signal/gripper", "signal/wide", "action/all"], "what was embedded first"
        assert shown("signal/gripper", "signal/wide (7 of 8 channels)") == ["signal/gripper", "signal/wide"]
        assert shown("signal/cam") == []
        assert get(client, "/api/fields")["columns"] == [], "a column of one value tells nothing"


def test_pictures_are_the_frames_of_the_lane(client):
    row = get(client, "/api/episodes", where="episode:arm-03")["items"][0]
    with open_wshard(row["file_path"]) as file:
        frame = file["cam"][17]
    path = f"/api/episodes/{row['uid']}/pictures/17/signal/cam"
    answer = client.get(path)
    assert answer.headers["content-type"] == "image/jpeg"
    assert np.abs(decode_jpeg(answer.content).astype(int) - frame).mean() < 6
    assert decode_jpeg(client.get(path, params={"width": 32}).content).shape == (24, 32, 3)
    again = client.get(path, headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_file_of_an_episode_is_downloaded_as_it_is(client):
    row = get(client, "/api/episodes", where="episode:arm-03")["items"][0]
    answer = client.get(f"/api/episodes/{row['uid']}/file")
    assert answer.content == Path(row["file_path"]).read_bytes()
    assert 'filename="03.wshard"' in answer.headers["content-disposition"]
    part = client.get(f"/api/episodes/{row['uid']}/file", headers={"range": "bytes=3-9"})
    assert (part.status_code, part.content) == (206, answer.content[3:10])


def test_one_file_that_is_gone_does_not_stop_the_others(client, home):
    rows = get(client, "/api/episodes", where="episode:arm-10,arm-11")["items"]
    file = home / "episodes" / "11.wshard"
    away = file.rename(file.with_suffix(".away"))
    try:
        first, second = get(client, "/api/series", of=[row["uid"] for row in rows])["items"]
        assert first["lanes"]
        assert second["lanes"] == []
        assert "no such file" in second["error"].lower()
        assert client.get(f"/api/episodes/{rows[1]['uid']}").json()["file_is_there"] is False
    finally:
        away.rename(file)


def test_what_people_say_is_recorded_with_their_name_and_undone(client):
    uids = [row["uid"] for row in get(client, "/api/episodes", limit=2)["items"]]

    def post(path, **body: object):
        answer = client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert post("/api/tags", episodes=uids, name="keep")["changed"] == 2
    assert post("/api/tags", where="tag:keep", expect=2, name="keep", remove=True)["changed"] == 2
    assert client.post("/api/tags", json={"where": "tag:keep", "expect": 2, "name": "x"}).status_code == 409
    assert client.post("/api/tags", json={"where": "", "name": "x"}).status_code == 400
    assert client.post("/api/tags", json={"name": "x"}).status_code == 400
    post("/api/reviews", episodes=uids[:1], state="rejected")
    post("/api/reviews", episodes=uids[:1], undo=True)
    (note,) = post("/api/notes", episodes=uids[:1], text="gripper slips")["items"]
    post("/api/scores", episodes=uids, name="rating", value=4)
    history = get(client, f"/api/episodes/{uids[0]}/history")["items"]
    assert [(one["kind"], one["who"]) for one in history] == [("review", "ann"), ("review", "ann"), ("note", "ann")]
    assert get(client, "/api/count", where="score.rating:4")["total"] == 2
    assert post("/api/scores", episodes=uids, name="rating")["changed"] == 2
    assert client.delete(f"/api/notes/{note['id']}").status_code == 200
    assert client.delete(f"/api/notes/{note['id']}").status_code == 404


def test_hostile_texts_stay_text(client):
    uid = get(client, "/api/episodes", sort="-episode_id")["items"][0]["uid"]
    for text in HOSTILE:
        for path, body in (
            ("/api/notes", {"text": text}),
            ("/api/tags", {"name": text}),
            ("/api/reviews", {"state": text}),
        ):
            answer = client.post(path, json={"episodes": [uid], **body})
            assert answer.status_code in (200, 400), answer.text
        page = client.get(f"/episodes/{uid}", params={"q": text})
        assert text not in page.text
    for name in ("uid", "x'><script>"):
        assert "<script>" not in client.get(f"/episodes/{name}").text.replace('<script type="module" src', "")


def test_the_state_changes_with_the_archive(client):
    before = get(client, "/api/state")["instant"]
    assert get(client, "/api/state")["instant"] == before
    uid = get(client, "/api/episodes", sort="-episode_id")["items"][0]["uid"]
    client.post("/api/tags", json={"episodes": [uid], "name": "fresh"})
    assert get(client, "/api/state")["instant"] != before


def test_the_document_names_every_route_and_parameter(app, client):
    document = get(client, "/api/openapi.json")
    assert document["openapi"].startswith("3.1")
    served = {
        (method, re.sub(r":\w+}", "}", route.path))
        for route in app.routes()
        if route.path.startswith("/api/") and route.path != "/api/openapi.json"
        for method in route.methods - {"HEAD"}
    }
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == served
    assert len(described) == len(ENDPOINTS)
    ids = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))
    for endpoint in ENDPOINTS:
        message = document["paths"][re.sub(r":\w+}", "}", endpoint.path)][endpoint.method.lower()]
        body = message.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        names = {one["name"] for one in message["parameters"]} | set(body.get("properties", {}))
        assert names == {one.name for one in endpoint.parameters}
        assert all(one.about for one in endpoint.parameters)


def test_uploaded_queries_find_what_their_arrays_find(app, client, home):
    recorded = (home / "episodes" / "05.wshard").read_bytes()
    with open_wshard(BytesIO(recorded)) as file:
        state = file["state"][:]
    named, bare, text, headed = BytesIO(), BytesIO(), BytesIO(), BytesIO()
    np.savez(named, state=state, other=state[:3])
    np.save(bare, state)
    np.savetxt(text, state, delimiter=";")
    clock = np.arange(len(state))[:, None]
    head = "t," + ",".join(f"signal/state[{number}]" for number in range(3))
    np.savetxt(headed, np.hstack([clock, state]), delimiter=",", header=head, comments="")
    files = {"a.npz": named.getvalue(), "a.npy": bare.getvalue(), "a.csv": text.getvalue(), "b.csv": headed.getvalue()}
    expected = [hit.uid for hit in app.archive.archive.search(state, 4)]
    for name, content in (files | {"a.wshard": recorded}).items():
        made = client.post("/api/queries", params={"name": name}, content=content).json()
        assert (made["length"], made["lanes"], made["episode_id"]) == (len(state), ["signal/state"], name)
        found = get(client, "/api/search", query=made["uid"], top=4)
        assert [hit["uid"] for hit in found["items"]] == expected, name
        moments = get(client, "/api/moments", query=f"{made['uid']}@10:60", top=1)["items"]
        assert (moments[0]["episode_id"], moments[0]["span"]) == ("arm-05", [10, 60])
        (series,) = get(client, "/api/series", of=made["uid"], lanes=1)["items"]
        assert np.allclose(np.transpose(series["lanes"][0]["values"]), state, atol=1e-4)
        assert get(client, f"/api/queries/{made['uid']}") == made
        assert client.get(f"/api/episodes/{made['uid']}").status_code == 404, "it is no episode of the archive"
    refused = {"a.csv": b"1,2\n3\n", "b.csv": b"x\xff", "c.csv": b"1\n2\n", "a.txt": b"1"}
    for name, content in (refused | {"a.npz": b"PK", "a.wshard": recorded[:99]}).items():
        assert client.post("/api/queries", params={"name": name}, content=content).status_code == 400, name
    for _ in range(40):
        assert client.post("/api/queries", params={"name": "a.npy"}, content=files["a.npy"]).status_code == 200
    assert client.get("/api/search", params={"query": made["uid"]}).status_code == 404, "only the last ones stay"


def test_an_uploaded_picture_finds_what_the_file_finds(app, client, home):
    with open_wshard((home / "episodes" / "06.wshard").read_bytes()) as file:
        picture = encode_image(file["cam"][31], "png")
    made = client.post("/api/queries", params={"name": "seen.png"}, content=picture).json()
    assert (made["length"], made["episode_id"]) == (1, "seen.png")
    for path, find in (("/api/search", app.archive.archive.search), ("/api/moments", app.archive.archive.moments)):
        expected = [(hit.uid, hit.seen.camera, hit.seen.step) for hit in find(image=picture, top_k=4)]
        items = get(client, path, query=made["uid"], top=4)["items"]
        assert [(hit["uid"], hit["seen"]["camera"], hit["seen"]["step"]) for hit in items] == expected
    assert expected
    as_pages = {"query": made["uid"], "top": 4, "background": True}
    assert "job" in get(client, "/api/moments", **as_pages), "frames are read before, with progress"
    assert finished(client, "/api/moments", **as_pages)["items"] == items
    assert get(client, "/api/series", of=made["uid"], lanes=1)["items"][0]["pictures"] == ["signal/picture"]
    for content in (b"", b"<svg/>", picture[:40]):
        assert client.post("/api/queries", params={"name": "seen.png"}, content=content).status_code == 400


def test_hits_are_those_of_the_commands(client, home):
    rows = {row["episode_id"]: row for row in get(client, "/api/episodes")["items"]}
    uid, other, seen = (rows[name]["uid"] for name in ("arm-01", "arm-02", "arm-06"))

    def without_times(found):
        return {name: value for name, value in found.items() if name not in ("milliseconds", "explained")}

    cases = [
        (("search", uid, "--top", "3"), "/api/search", {"query": uid, "top": 3}),
        (("search", f"{uid}@10:50", "--unlike", other, "--exclude-self", "--contributions"), "/api/search",
         {"query": f"{uid}@10:50", "unlike": other, "exclude_self": True, "contributions": True}),
        (("search", "--text", "wipe", "--where", "env:lift"), "/api/search", {"text": "wipe", "where": "env:lift"}),
        (("search", uid, "--windows", "30:8", "--distinct"), "/api/search",
         {"query": uid, "windows": "30:8", "distinct": True}),
        (("moments", f"{uid}@10:50", "--top", "4", "--per-episode", "1"), "/api/moments",
         {"query": f"{uid}@10:50", "top": 4, "per_episode": 1}),
        (("moments", f"{seen}#cam@20:30", "--unlike", f"{seen}#cam@60", "--exclude-self"), "/api/moments",
         {"query": f"{seen}#cam@20:30", "unlike": f"{seen}#cam@60", "exclude_self": True}),
        (("search", uid, "--image", f"{seen}#cam@20"), "/api/search", {"query": uid, "like": f"{seen}#cam@20"}),
        (("search", f"{seen}#none@20"), "/api/search", {"query": f"{seen}#none@20"}),
    ]  # fmt: skip
    for arguments, path, parameters in cases:
        answer = client.get(path, params=parameters)
        done = CliRunner().invoke(commands, [*arguments, "--archive", str(home / "lab"), "--json"])
        if done.exit_code:
            assert answer.json()["message"] in done.output
        else:
            assert without_times(answer.json()) == without_times(json.loads(done.stdout))
    hits = get(client, "/api/moments", query=f"{uid}@10:50", exclude_self=True)["items"]
    assert hits
    assert all(hit["alignment"] and hit["lane_scores"] for hit in hits)


def test_a_search_imports_nothing_and_reads_no_other_file(client, home):
    uid = get(client, "/api/episodes")["items"][0]["uid"]
    for embedder in ("os:system", "bridge.web:x", "learned:/etc/passwd", "nothing"):
        answer = client.get("/api/search", params={"query": uid, "embedder": embedder})
        assert (answer.status_code, answer.json()["error"]) == (400, "QueryError")
    for query in (str(home / "episodes" / "00.wshard"), "arm-00", f"{uid}@5:2", f"{uid}@0:99999"):
        assert client.get("/api/search", params={"query": query}).status_code in (400, 404)
    (known, *_) = (one["embedder"] for one in get(client, "/api/spaces")["items"] if one["windows"] == "whole episodes")
    assert get(client, "/api/search", query=uid, embedder=known.split()[0], top=1)["items"][0]["uid"] == uid


def test_videos_go_out_in_ranges_as_they_are_in_the_file(client):
    row = get(client, "/api/episodes", where="episode:arm-03")["items"][0]
    with open_wshard(row["file_path"]) as file:
        whole = file.encoded("cam").source().read()
    base = f"/api/episodes/{row['uid']}/videos"
    (lane,) = get(client, base)["items"]
    assert (lane["lane"], lane["start"], round(lane["rate"], 3)) == ("signal/cam", 0, 20)
    path = f"{base}/signal/cam"
    assert client.get(path).content == whole
    for text, start, stop in (("0-", 0, None), ("5-9", 5, 10), (f"{len(whole) - 3}-99999999", len(whole) - 3, None)):
        answer = client.get(path, headers={"range": f"bytes={text}"})
        assert answer.status_code == 206
        assert answer.content == whole[start:stop]
        assert answer.headers["content-range"] == f"bytes {start}-{(stop or len(whole)) - 1}/{len(whole)}"
    for text in (f"{len(whole)}-", "9-5", "-5", "0-1,3-4", "x", f"{'9' * 99}-"):
        assert client.get(path, headers={"range": f"bytes={text}"}).status_code == 416
    assert client.get(f"{base}/signal/state").status_code == 400
    plain = get(client, "/api/episodes", where="episode:arm-06")["items"][0]
    with open_wshard(plain["file_path"]) as file:
        frame = bytes(file.encoded("cam").image(5))
    assert client.get(f"/api/episodes/{plain['uid']}/pictures/5/signal/cam").content == frame


def test_depths_are_shown_after_cameras_and_are_none_to_search(tmp_path):
    need_pages()
    one = episode(0, 0, env_id="arm")
    for name, dtype in (("a_depth", np.uint16), ("b_cam", np.uint8)):
        one.observations[name] = Channel.of(name, np.ones((one.length, 16, 24, 1), dtype))
    save(tmp_path / "in", one)
    ingest(tmp_path / "lab", tmp_path / "in")
    with running_app(tmp_path / "lab") as running, running.client() as api:
        (row,) = get(api, "/api/episodes")["items"]
        kinds = get(api, f"/api/episodes/{row['uid']}")["lane_kinds"]
        assert (kinds["signal/a_depth"], kinds["signal/b_cam"]) == ("picture", "camera")
        (series,) = get(api, "/api/series", of=row["uid"])["items"]
        assert series["pictures"] == ["signal/b_cam", "signal/a_depth"]


def finished(client, path, **parameters: object):
    """Return what a queue holds once its job is done."""
    while "job" in (found := get(client, path, **parameters)):
        while get(client, f"/api/jobs/{found['job']['id']}")["state"] in ("waiting", "running"):
            time.sleep(0.02)
    return found


def test_labels_are_doubted_by_default_that_tell_the_episodes_apart(tmp_path):
    need_pages()
    tasks = [
        episode(task, number, env_id="arm", metadata={"task": "ab"[task]}) for task in (0, 1) for number in range(4)
    ]
    tasks.append(episode(0, 9, env_id="arm", metadata={"task": "b"}))
    save(tmp_path / "episodes", *tasks)
    ingest(tmp_path / "lab", tmp_path / "episodes")
    with running_app(tmp_path / "lab") as running, running.client() as signed_in:
        found = finished(signed_in, "/api/queues/mislabeled")
        assert [one["episode_id"] for one in found["items"]] == ["task-0-9"]
        assert found["items"] == finished(signed_in, "/api/queues/mislabeled", label="meta.task")["items"]


def test_queues_spaces_and_jobs_are_those_of_the_commands(client, home):
    found = finished(client, "/api/queues/outliers", where="env:lift,push")
    assert found["items"] == printed(home, "outliers", "--where", "env:lift,push")["items"]
    assert found["stale"] is False
    few = finished(client, "/api/queues/outliers", where="env:lift")
    assert f"{few['of']} episodes in groups of fewer than 8: too few to tell what is rare" in few["left_out"]
    assert finished(client, "/api/queues/duplicates")["items"] == printed(home, "duplicates")["items"]
    assert (
        finished(client, "/api/queues/duplicates", pieces=True)["items"]
        == printed(home, "duplicates", "--pieces")["items"]
    )
    assert client.get("/api/queues/nothing").status_code == 404
    uids = {one["uid"] for one in get(client, "/api/queues/unreviewed", where="env:lift")["items"]}
    assert uids == {one["uid"] for one in get(client, "/api/episodes", where="env:lift -review:*")["items"]}
    assert get(client, "/api/spaces") == printed(home, "index", "spaces")
    job = client.post("/api/jobs", json={"kind": "fsck"}).json()
    while job["state"] in ("waiting", "running"):
        job = get(client, f"/api/jobs/{job['id']}")
    assert job["result"] == printed(home, "fsck")
    assert job["who"] == "ann"
    assert client.post("/api/jobs", json={"kind": "rm"}).status_code == 400
    storage = get(client, "/api/storage")
    assert sum(one["episodes"] for one in storage["items"]) == 12
    assert get(client, "/api/jobs")["items"][0]["kind"] == "fsck"


def test_a_job_ends_as_stopped_or_failed_with_its_reason(client, app):
    begun, going = threading.Event(), threading.Event()

    def work(job):
        job.stage("waiting", 2)
        begun.set()
        going.wait(10)
        job.advance(1)

    job = app.archive.jobs.start("slow", work)
    assert app.archive.jobs.start("slow", work) is job, "the same work is not begun twice"
    begun.wait(10)
    assert client.delete(f"/api/jobs/{job.id}").status_code == 200
    going.set()
    failing = app.archive.jobs.start("failing", lambda _job: 1 / 0)
    while failing.state != "failed":
        time.sleep(0.01)
    assert job.state == "stopped"
    assert "ZeroDivisionError" in get(client, f"/api/jobs/{failing.id}")["error"]
    assert client.get("/api/jobs/999999").status_code == 404


def test_collections_are_those_of_the_commands(client, home):
    uids = [row["uid"] for row in get(client, "/api/episodes", limit=3)["items"]]
    assert client.post("/api/collections", json={"name": "a", "episodes": uids[:2]}).status_code == 200
    assert client.post("/api/collections", json={"name": "b", "where": "env:lift", "live": True}).status_code == 200
    assert get(client, "/api/collections") == printed(home, "collection", "ls")
    assert get(client, "/api/collections/a") == printed(home, "collection", "show", "a")
    assert get(client, "/api/collections/diff", before="a", after="b") == printed(home, "collection", "diff", "a", "b")
    listed = client.get("/api/collection-lists/a", params={"form": "csv"})
    assert listed.headers["content-disposition"] == "attachment"
    assert (
        listed.text == CliRunner().invoke(commands, ["export-list", "a", "--archive", str(home / "lab")]).stdout
        or "uid" in listed.text
    )
    split = client.post("/api/collection-splits", json={"ref": "b", "fractions": {"train": 0.5, "test": 0.5}})
    assert [one["name"] for one in split.json()["items"]] == ["b/train", "b/test"]
    assert split.json()["notes"] == []
    whole = {"ref": "b", "fractions": {"train": 0.5, "test": 0.5}, "by": ["env"]}
    assert "b/test has 0 of 2" in client.post("/api/collection-splits", json=whole).json()["notes"][0]
    assert client.delete("/api/collections/b/train").status_code == 200
    assert client.get("/api/collections/b/train").status_code == 404


def test_points_of_the_map_are_the_principal_components(client, app, monkeypatch):
    found = get(client, "/api/map", colour="meta.task")
    assert len(found["uids"]) == found["total"] == 12
    assert found["labels"] == ["pick up", "wipe off"]
    assert found["matching"] == 12
    assert get(client, "/api/map")["colour"] == "env", "of three values, tasks have two"
    assert get(client, "/api/map", where="env:lift")["colour"] == "meta.task"
    known = read_chosen_vectors(app.archive.archive, "")
    assert found["uids"] == [row.uid for row in known.episodes]
    apart = known.directions - known.directions.mean(axis=0)
    values = np.linalg.svd(apart.astype(float), compute_uv=False) ** 2
    places = np.stack([found["x"], found["y"]], axis=1)
    assert np.allclose((places**2).sum(axis=0), values[:2], rtol=1e-3)
    assert abs(found["share"] - values[:2].sum() / values.sum()) < 1e-6
    some = get(client, "/api/map", where="env:lift", colour="length")
    assert some["labels"] == sorted(some["labels"], key=float)
    monkeypatch.setattr(scatter, "_MOST_POINTS", 3)
    monkeypatch.setattr(scatter, "_SIDE", 3)
    cells = get(client, "/api/map", where="length:>1")
    assert sum(cells["counts"]) == cells["total"] == 12
    assert len(cells["uids"]) == len(cells["counts"]) <= 9


def test_a_probe_is_that_of_the_command_and_is_saved(client, home, app):
    rows = {row["episode_id"]: row["uid"] for row in get(client, "/api/episodes")["items"]}
    right, wrong = ([rows[f"arm-{number:02d}"] for number in numbers] for numbers in ((1, 3, 5), (0, 2, 4)))
    found = get(client, "/api/probe", right=right, wrong=wrong, top=5)
    marks = [
        *(part for uid in right for part in ("--right", uid)),
        *(part for uid in wrong for part in ("--wrong", uid)),
    ]
    assert found == printed(home, "probe", *marks, "--top", "5")
    assert found["recall"] is not None
    assert all(int(one["episode_id"][-2:]) % 2 for one in found["items"])
    saved = client.post("/api/probe", json={"right": right, "wrong": wrong, "name": "odd one"}).json()
    assert saved["collection"]["name"] == "odd one"
    assert get(client, "/api/count", where='collection:"odd one"')["total"] == found["positive"]
    for marked in ({"right": []}, {"right": right, "wrong": right}):
        assert client.get("/api/probe", params=marked).status_code == 400


def test_facets_of_many_episodes_are_estimated_from_a_sample(client, monkeypatch):
    assert get(client, "/api/facets", field="env", sample=True)["scale"] == 1, "twelve are counted"
    monkeypatch.setattr(sample, "_MANY", 10)
    monkeypatch.setattr(sample, "_ENOUGH", 6)
    found = get(client, "/api/facets", field=["env", "success"], histogram="length", sample=True, bins=3)
    assert found["scale"] == 2
    assert sum(one["episodes"] for one in found["items"][0]["values"]) == 12
    assert sum(found["histograms"][0]["counts"]) == 6
    own = get(client, "/api/facets", field='meta."arm side"', where="length:80..90", sample=True)
    assert (own["scale"], own["counted"]) == (1, None), "these are few"
    own = get(client, "/api/facets", field='meta."arm side"', where="length:80..", sample=True)
    assert (own["scale"], own["counted"]) == (2, 6)
    left = {"field": "env", "where": 'meta."arm side":left'}
    found = get(client, "/api/facets", **left, sample=True)
    assert (found["scale"], found["items"]) == (1, get(client, "/api/facets", **left)["items"]), "six are counted by id"
    assert get(client, "/api/facets", field="tag", sample=True)["scale"] == 1, "rare values would be missed"
    assert "scale" not in get(client, "/api/facets", field="env")


def ended(client, job):
    while job["state"] in ("waiting", "running"):
        time.sleep(0.02)
        job = get(client, f"/api/jobs/{job['id']}")
    return job


def test_exports_are_what_convert_writes_and_are_downloaded(client, home, tmp_path):
    rows = get(client, "/api/episodes", where="env:push", sort="episode_id")["items"][:2]
    chosen = {"episodes": [row["uid"] for row in rows]}
    requested = {**chosen, "format": "wshard", "name": "two"}
    job = ended(client, client.post("/api/exports", json=requested).json())
    assert (job["state"], job["result"]["episodes"], job["result"]["failures"]) == ("done", 2, 0), job
    assert (job["done"], job["total"], job["who"]) == (2, 2, "ann")
    packed = client.get(f"/api/exports/{job['id']}/file")
    with ZipFile(BytesIO(packed.content)) as archive:
        archive.extractall(tmp_path)
    for row in rows:
        with (
            open_wshard(row["file_path"]) as truth,
            open_wshard(tmp_path / "two" / f"{row['episode_id']}.wshard") as copy,
        ):
            assert copy.load() == truth.load()
    requested = {"where": "env:push", "expect": 4, "format": "robomimic", "name": "arms"}
    job = ended(client, client.post("/api/exports", json=requested).json())
    assert job["state"] == "done", job
    job = ended(client, client.post("/api/exports", json={**requested, "name": "less", "without": ["nothing"]}).json())
    assert "no lane 'nothing' to leave out; there are" in job["error"]
    with h5py.File(BytesIO(client.get(f"/api/exports/{job['id'] - 1}/file").content)) as file:
        assert len(file["data"]) == 4
    with TrajectoryIngestor(home / "lab") as ingestor:
        assert ingestor.ingest([home]).new == 0, "exports are no new episodes"
    assert client.get(f"/api/exports/{job['id'] + 1}/file").status_code == 404


def test_exports_go_nowhere_else_and_can_be_stopped(client, app):
    chosen = {"episodes": [get(client, "/api/episodes")["items"][0]["uid"]]}
    for name in ("../x", "", "a/b", "x" * 101, ".hidden", "a.wshard", "<b>"):
        answer = client.post("/api/exports", json={**chosen, "format": "wshard", "name": name})
        assert answer.status_code == 400, name
    assert client.post("/api/exports", json={**chosen, "format": "nothing", "name": "x"}).status_code == 400
    assert client.post("/api/exports", json={"format": "wshard", "name": "x"}).status_code == 400
    going = threading.Event()
    app.archive.jobs.start("busy", lambda _: going.wait(10))
    waiting = client.post("/api/exports", json={**chosen, "format": "wshard", "name": "never"}).json()
    assert client.delete(f"/api/jobs/{waiting['id']}").json()["state"] == "waiting"
    going.set()
    assert ended(client, waiting)["state"] == "stopped"
    assert not (app.archive.archive.folder / ".exports" / "never").exists()
    assert client.get(f"/api/exports/{waiting['id']}/file").status_code == 404


def test_every_format_can_be_exported_or_says_what_is_not_installed(client):
    uid = get(client, "/api/episodes", where="episode:arm-03")["items"][0]["uid"]
    jobs = {}
    for one in get(client, "/api/formats")["items"]:
        name = one["format"]
        answer = client.post("/api/exports", json={"episodes": [uid], "format": name, "name": f"one-{name}"})
        jobs[name] = answer.json()
    for name, begun in jobs.items():
        job = ended(client, begun)
        assert (job["state"] == "done" and job["result"]["episodes"] == 1) or "pip install" in job["error"], (name, job)
    assert jobs["rrd"]["kind"] == "export one-rrd"
    assert jobs.keys() >= {"lance_video", "rrd", "wshard"}


def test_exports_of_one_name_are_those_of_one_person(app, client):
    uids = [row["uid"] for row in get(client, "/api/episodes", limit=2)["items"]]
    going = threading.Event()
    app.archive.jobs.start("busy with something", lambda _: going.wait(10))
    try:
        requested = {"format": "wshard", "name": "shared"}
        first, again, other = (
            client.post("/api/exports", json={**requested, "episodes": some}).json()["id"]
            for some in (uids[:1], uids[:1], uids[1:])
        )
        assert first == again != other, "the same is done once, and other episodes are added"
        app.sign_ins._accounts[hash_token("bob")] = Account("bob")
        bob = {"authorization": "Bearer bob"}
        answer = httpx.post(f"{app.url}/api/exports", json={**requested, "episodes": uids}, headers=bob)
        assert (answer.status_code, "choose another name" in answer.text) == (409, True)
    finally:
        app.sign_ins._accounts.clear()
        going.set()
    assert [ended(client, get(client, f"/api/jobs/{one}"))["result"]["episodes"] for one in (first, other)] == [1, 1]


def test_changes_of_all_that_pass_are_taken_back_where_they_changed_something(client):
    uids = [row["uid"] for row in get(client, "/api/episodes", where="env:wipe")["items"]]
    had = {"episodes": uids[:1]}
    assert client.post("/api/tags", json={**had, "name": "seen"}).status_code == 200
    everything = {"where": "env:wipe", "expect": len(uids)}
    numbers = [
        client.post(path, json={**everything, **body}).json()["undo"]
        for path, body in (
            ("/api/tags", {"name": "seen"}),
            ("/api/reviews", {"state": "accepted"}),
            ("/api/notes", {"text": "wobbles"}),
        )
    ]
    where = ("tag:seen", "review:accepted", "note:wobbles")
    assert [get(client, "/api/count", where=one)["total"] for one in where] == [len(uids)] * 3
    for number in numbers:
        assert client.post("/api/undos", json={"undo": number}).status_code == 200
        assert client.post("/api/undos", json={"undo": number}).status_code == 409
    assert [get(client, "/api/count", where=one)["total"] for one in where] == [1, 0, 0]


def test_residuals_are_drawn_by_their_signs(client, home):
    row = get(client, "/api/episodes", where="episode:arm-04")["items"][0]
    (item,) = get(client, "/api/series", of=f"{row['uid']}@10:30")["items"]
    (residual,) = item["residuals"]
    assert residual["lane"] == "residual/state/sign2nddiff"
    with open_wshard(row["file_path"]) as file:
        state = file["state"][:]
    bend = 2 * state[10:30] - state[9:29] - state[11:31]
    assert residual["steps"] == [*range(10, 30)]
    assert np.array_equal(np.array(residual["values"]).T > 0, bend > 0)
