"""Search by what is meant: tasks as vectors beside BM25, true to the files, and in nobody else's way."""

# ruff: noqa: ANN002, ANN003 -- as in tests, whose helpers these are
from __future__ import annotations

import json
from threading import Event

import numpy as np
import pytest
from bridge_episodes import counts, episode, files, ingest, opened_archive, rewrite, save, spaces_of
from command_line import app
from sentence_folders import write_folder
from typer.testing import CliRunner

from bridge.evaluation import evaluate_label, evaluate_search
from bridge.search.ranking.scores import reciprocal_ranks
from embedders import BOTH, WindowPlan
from wshard import TrajectoryIngestor, TrajectoryRetriever, open_archive
from wshard import check_archive as check
from wshard import repair_archive as repair
from wshard.errors import EmbedderError, QueryError, SpaceMismatchError

TASKS = ("pick up the mug", "open the drawer", None, "wave at the door")
MEANT = {"mug": "cup", "lift": "pick", "grasp": "pick", "draw": "drawer"}
WORDS = ("pick", "up", "the", "cup", "open", "drawer", "wave", "at", "door")


class Meanings:
    """Knows nine words and four that mean the same as one of them; counts its calls."""

    name, version = "meanings", 1

    def __init__(self, weight=1.0) -> None:
        self.requested = []
        self._weight = weight

    def parameters(self):
        return {"weight": self._weight}

    def dim(self):
        return len(WORDS) + 1

    def encode(self, texts):
        self.requested += texts
        heard = [[MEANT.get(word, word) for word in text.split()] for text in texts]
        rows = [[words.count(word) * (0.1 if word == "the" else 1) for word in WORDS] + [0.01] for words in heard]
        vectors = np.array(rows).reshape(len(texts), -1) ** self._weight
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def made(task, number, text=None):
    said = text or TASKS[task]
    return episode(task, number, 12, metadata={"task": said} if said else {})


@pytest.fixture
def folder(tmp_path):
    save(tmp_path / "data", *(made(task, number) for task in range(4) for number in range(3)))
    return tmp_path / "data"


@pytest.fixture
def archive(tmp_path, folder):
    ingest(tmp_path / "archive", folder, text_encoder=Meanings())
    return tmp_path / "archive"


def tasks(archive, encoder=None, **requested):
    """Return which tasks the hits are of, in their order."""
    with TrajectoryRetriever(archive, text_encoder=encoder) as retriever:
        return [int(hit.episode_id.split("-")[1]) for hit in retriever.search_similar_episodes(top_k=100, **requested)]


def embedded(archive):
    """Return {episode id: vector} of what the Space of texts holds, in ledger and index."""
    with opened_archive(archive) as opened:
        (space,) = [space for space in spaces_of(archive) if space.of_text]
        points = {point.episode: point.vectors for point in opened.index.scan(space)}
        rows = {row.fingerprint: row.id for row in opened.catalog.vectors.spaces("active")}
        assert sorted(points) == [*opened.catalog.vectors.embedded(rows[space.fingerprint])]
        return {row.episode_id: points[row.id] for row in opened.catalog.episodes.rows(points).values()}


def test_a_task_in_other_words_is_found_by_what_it_means(archive):
    assert tasks(archive, text="lift cup") == []
    assert tasks(archive, Meanings(), text="lift cup")[:3] == [0, 0, 0]
    assert sorted(set(tasks(archive, Meanings(), text="lift cup"))) == [0, 1, 3]  # 2 says nothing
    assert tasks(archive, Meanings(), text="lift cup", where="env:task-3") == [3] * 3
    with pytest.raises(QueryError, match="text: expected words, found ' '"):
        tasks(archive, Meanings(), text=" ")


def test_each_task_with_words_has_the_vector_of_its_text(archive):
    found, encoder = embedded(archive), Meanings()
    assert sorted(found) == sorted(f"task-{task}-{number}" for task in (0, 1, 3) for number in range(3))
    for name, vectors in found.items():
        np.testing.assert_allclose(vectors, encoder.encode([TASKS[int(name.split("-")[1])]]), atol=1e-6)


@pytest.mark.parametrize("query", [False, True])
def test_words_and_meaning_are_one_score_and_fused_with_the_ranks_of_a_query(archive, folder, query):
    requested = {"query_obs": folder / "task-3" / "task-3-1.wshard"} if query else {}
    with TrajectoryRetriever(archive) as plain, TrajectoryRetriever(archive, text_encoder=Meanings()) as retriever:
        text, stored, encoder = "open the mug", embedded(archive), Meanings()
        (meant,) = encoder.encode([text])
        with opened_archive(archive) as opened:
            ids = {row.episode_id: row.id for row in opened.catalog.episodes.rows(opened.catalog.query.ids()).values()}
            words, weights = dict(opened.catalog.query.relevant(text)), opened.catalog.query.word_weights(text)
        assert weights["the"] < 0.3 * weights["mug"]
        cosines = {ids[name]: float(vectors[0] @ meant) for name, vectors in stored.items()}
        whole = sum(weights.values())
        expected = {id_: (cosine + 0.1 * words.get(id_, 0) / whole) / 1.1 for id_, cosine in cosines.items()}
        if query:
            lists = [[ids[hit.episode_id] for hit in plain.search_similar_episodes(**requested, top_k=100)]]
            lists.append(sorted(expected, key=lambda id_: (-round(expected[id_], 6), id_)))
            expected = reciprocal_ranks(lists)
        hits = retriever.search_similar_episodes(**requested, text=text, top_k=100)
        assert {ids[hit.episode_id]: hit.score for hit in hits} == pytest.approx(expected)
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert hits.exact


def test_explained_says_what_was_searched(archive, folder):
    with TrajectoryRetriever(archive, text_encoder=Meanings()) as retriever:
        requested = {"text": "lift", "explain": True}
        alone = retriever.search_similar_episodes(**requested).explained
        beside = retriever.search_similar_episodes(files(folder)[0], plain=True, **requested).explained
    assert alone.route == "words + sentences by scan"
    assert (alone.allowed, alone.scored) == (9, 9)
    assert beside.route == "scan + words + sentences by scan"
    assert beside.scored == 12 + 9
    assert {"words"} < beside.milliseconds.keys()


def test_each_text_is_encoded_once_and_nothing_again(archive, folder):
    again = Meanings()
    assert counts(ingest(archive, folder, text_encoder=again)) == {"unchanged": 12}
    assert again.requested == []
    first = Meanings()
    ingest(archive, folder, text_encoder=first)
    ingest(archive.with_name("other"), folder, text_encoder=first)
    assert sorted(first.requested) == sorted(task for task in TASKS if task)


def test_a_changed_file_loses_its_vector_until_it_is_ingested_with_the_encoder(archive, folder):
    rewrite(folder / "task-1" / "task-1-0.wshard", made(1, 0, "wave at the cup"))
    ingest(archive, folder)
    assert "task-1-0" not in embedded(archive)
    assert "task-1-0" not in _names(archive, "grasp")
    with open_archive(archive) as opened:
        assert [finding.code for finding in check(opened).findings] == ["unembedded"]
        assert [finding.code for finding in repair(opened).findings] == ["unembedded"]  # nobody passed the encoder
    ingest(archive, folder, text_encoder=Meanings())
    assert _names(archive, "grasp mug")[3] == "task-1-0"
    with open_archive(archive) as opened:
        assert check(opened).findings == ()


def _names(archive, text):
    with TrajectoryRetriever(archive, text_encoder=Meanings()) as retriever:
        return [hit.episode_id for hit in retriever.search_similar_episodes(text=text, top_k=100)]


def test_notes_are_found_by_their_words_and_have_no_vector(archive, folder):
    with opened_archive(archive) as opened:
        silent = [
            row.id
            for row in opened.catalog.episodes.rows(opened.catalog.query.ids()).values()
            if "task-2" in row.episode_id
        ]
        opened.catalog.annotations.add_note(silent, "wave wildly", who="ann")
    encoder = Meanings()
    ingest(archive, folder, text_encoder=encoder)
    assert encoder.requested == []
    assert len(embedded(archive)) == 9
    assert set(tasks(archive, text="wildly")) == {2}


def test_several_texts_of_one_episode_are_encoded_together(tmp_path):
    save(tmp_path / "data", episode(0, 0, 12, metadata={"task": "wave", "instruction": [" lift the mug ", "  ", 7]}))
    encoder = Meanings()
    ingest(tmp_path / "archive", tmp_path / "data", text_encoder=encoder)
    assert encoder.requested == ["wave\nlift the mug"]


def test_another_encoder_is_refused_with_advice_and_an_archive_without_stays_as_it_is(tmp_path, archive, folder):
    for place, encoder in ((archive, Meanings(2.0)), (tmp_path / "plain", Meanings())):
        ingest(place, folder)
        with TrajectoryRetriever(place, text_encoder=encoder) as retriever:
            with pytest.raises(
                SpaceMismatchError, match=r"no vectors of the text encoder 'meanings'.*--text-encoder FOLDER"
            ):
                retriever.search_similar_episodes(text="wave")
            assert len(retriever.search_similar_episodes(files(folder)[0])) == 10  # which asks no encoder
    assert not any(space.of_text for space in spaces_of(tmp_path / "plain"))


def test_no_other_search_or_signal_sees_the_space_of_texts(archive, folder, tmp_path):
    ingest(tmp_path / "plain", folder)
    for query in (files(folder)[0], np.zeros((5, 4)), {"state": np.zeros((5, 4))}):
        assert tasks(archive, query_obs=query) == tasks(tmp_path / "plain", query_obs=query)
    with TrajectoryRetriever(archive) as retriever:
        for array in (np.zeros((5, 1)), np.zeros(5), {"meta/task": np.zeros(5)}):
            with pytest.raises(QueryError, match="fits none"):
                retriever.search_similar_episodes(array)
    with open_archive(archive) as opened:
        assert [found.space.of_text for found in evaluate_label(opened, "env_id")] == [False]
    ingest(tmp_path / "windows", folder, windows=[WindowPlan(scales=(5, 8))], text_encoder=Meanings())
    with open_archive(tmp_path / "windows") as opened:
        assert evaluate_search(opened, "env_id") is None  # there is no search for whole episodes
    for verb in (["duplicates"], ["outliers"], ["select", "--count", "2"], ["health"], ["fsck"], ["index", "audit"]):
        done = CliRunner().invoke(app, [*verb, "--archive", str(archive)])
        assert done.exit_code == 0, done.output


def test_an_encoder_that_fails_is_reported_before_anything_is_written_or_costs_only_its_vectors(tmp_path, folder):
    class Failing(Meanings):
        def dim(self):
            raise RuntimeError("no weights")

    class Stumbling(Meanings):
        def encode(self, texts):
            if "open the drawer" in texts:
                raise RuntimeError("a drawer")
            return super().encode(texts)

    with pytest.raises(EmbedderError, match="embedder 'meanings' raised RuntimeError: no weights"):
        ingest(tmp_path / "archive", folder, text_encoder=Failing())
    with opened_archive(tmp_path / "archive") as opened:
        assert opened.catalog.query.count() == 0
    with pytest.raises(EmbedderError, match="embedder 'meanings' raised RuntimeError: a drawer"):
        ingest(tmp_path / "archive", folder, text_encoder=Stumbling())
    assert len(tasks(tmp_path / "archive", query_obs=files(folder)[0])) == 12
    ingest(tmp_path / "archive", folder, text_encoder=Meanings())
    assert len(embedded(tmp_path / "archive")) == 9


def test_windows_and_sentences_come_in_one_run_and_watch_takes_them_too(tmp_path, folder):
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        report = ingestor.ingest(folder, windows=BOTH, text_encoder=Meanings())
        assert counts(report) == {"new": 12, "embedded": 12, "tasks": 9}
        save(folder, made(0, 7))
        with pytest.raises(EmbedderError, match="found no folder"):
            ingestor.watch(folder, text_encoder=tmp_path / "nowhere")
        stop = Event()
        for found in ingestor.watch(folder, text_encoder=Meanings(), stop=stop):
            stop.set()
            assert (found.new, found.tasks) == (1, 1)
    assert "task-0-7" in embedded(tmp_path / "archive")


def test_the_command_line_takes_a_folder(tmp_path, folder):
    pytest.importorskip("tokenizers", reason="tokenizers is not installed: pip install 'wshard[text]'")
    encoder, archive = str(write_folder(tmp_path / "encoder")), str(tmp_path / "archive")

    def run(*arguments, code=0):
        done = CliRunner().invoke(app, [*arguments, "--archive", archive])
        assert done.exit_code == code, done.output
        return done

    for verb in ("ingest", "watch"):
        wrong = run(verb, str(folder), "--text-encoder", str(tmp_path), code=1)
        assert "expected tokenizer.json and model.onnx" in wrong.output
    assert not (tmp_path / "archive").exists()
    assert "12 new, 12 embedded, 9 tasks" in run("ingest", str(folder), "--text-encoder", encoder).stdout
    assert "sentences" in run("index", "spaces").stdout
    hits = json.loads(run("search", "--text", "lift cup", "--text-encoder", encoder, "--json").stdout)["items"]
    assert [hit["metadata"]["env_id"] for hit in hits[:3]] == ["task-0"] * 3
    printed = run("search", "task-3-0", "--text", "lift cup", "--text-encoder", encoder, "--explain", "--plain").stdout
    assert "index: scan + words + sentences by scan" in printed
    wrong = run("search", "--text", "lift cup", "--text-encoder", str(tmp_path), code=1)
    assert "expected tokenizer.json and model.onnx" in wrong.output
