"""Evaluate the search of the demo, and embedders by themselves: how often the most similar others share the task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bridge.evaluation.metrics import leave_one_out, leave_one_out_by
from catalog.cli.common import print_table
from demo.disturb import pause, warp
from embedders import Blocks, Mean, Moments, merge
from embedders.statistics import statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from bridge.evaluation.metrics import Scores
    from embedders import Embedder
    from wshard import Archive, Hits
    from wshard.types import Array


def evaluate(lab: Archive, say: Callable[[str], None]) -> None:
    """Print the table of the demo."""
    say("\n== How good is it? Leave one out over the MetaWorld episodes: do the most similar others share the task?")
    arms = lab.where("meta.goal_seed:*")
    episodes = [ref.load(["state", "ctrl"]) for ref in arms]
    labels = [ref.metadata["env_id"] for ref in arms]
    states = [episode.observations["state"].data for episode in episodes]
    motions = [
        np.hstack([episode.observations["state"].data[:, :4], episode.actions["ctrl"].data]) for episode in episodes
    ]
    table = [
        ("whole state", "wshard search", *_evaluate_search(lab, arms, states)),
        *_evaluate_embedders("whole state", states, labels),
        *_evaluate_embedders("hand and action", motions, labels),
    ]
    print_table(("lanes", "ranked by", ">P@1", ">mAP", ">mAP, other speed", ">mAP, 40 % pause"), table)
    say("   The whole state gives the task away by its objects' places; hand and action is the behaviour alone.")
    say("   A search ranks by windows, too, and expands its query; the other rows compare one vector per episode.")


def _evaluate_search(lab: Archive, refs: Hits, windows: list[Array]) -> tuple[str, ...]:
    """Return the scores of the default search with up to 100 of the windows [T, D], one per episode, as queries."""
    number_of = {ref.uid: number for number, ref in enumerate(refs)}
    queries = np.arange(0, len(refs), -(-len(refs) // 100))

    def score(change: Callable[[Array, int], Array]) -> Scores:
        def compare(query_numbers: NDArray[np.int64]) -> NDArray[np.float64]:
            similarities = np.full((len(query_numbers), len(refs)), -np.inf)
            for row, number in zip(similarities, query_numbers.tolist(), strict=True):
                query = change(windows[number], number)
                hits = lab.search(query, len(refs), where="meta.goal_seed:*")
                row[[number_of[hit.uid] for hit in hits]] = [hit.score for hit in hits]
            return similarities

        return leave_one_out_by(compare, [ref.metadata["env_id"] for ref in refs], queries)

    return _format_scores(*map(score, (lambda window, _: window, warp, pause)))


def _evaluate_embedders(lanes: str, windows: list[Array], labels: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield a row for the default embedder and one for the mean over time, on the same windows [T, D]."""
    scaling = statistics([merge(map(Moments.of, windows))])
    disturbed = [[change(window, seed) for seed, window in enumerate(windows)] for change in (warp, pause)]
    embedders: tuple[tuple[str, Embedder], ...] = (("blocks (default)", Blocks()), ("mean (baseline)", Mean()))
    for name, embedder in embedders:
        vectors = embedder.embed(windows, scaling)
        query_vectors = [embedder.embed(queries, scaling) for queries in disturbed]
        disturbed_scores = [leave_one_out(vectors, labels, queries=queries) for queries in query_vectors]
        yield lanes, name, *_format_scores(leave_one_out(vectors, labels), *disturbed_scores)


def _format_scores(clean: Scores, *disturbed: Scores) -> tuple[str, ...]:
    means = (scores.mean_average_precision for scores in (clean, *disturbed))
    return tuple(f"{value:.3f}" for value in (clean.precision_at_1, *means))
