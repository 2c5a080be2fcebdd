"""Embed task descriptions into ledger and index.

Notes are not embedded: they change without the file, so their vectors would be out of date.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bridge.ingest.fill import commit
from bridge.support.batches import batches
from catalog.full_text import tasks
from catalog.vectors.records import Among, EmbeddingRow
from embedders.text.base import as_text_encoder, encode_by, text_space

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.index.base import Vectors
    from bridge.ingest.report import Run
    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow
    from embedders.text.base import AnyTextEncoder, TextEncoder

_MAX_CACHED: Final = 4096  # texts; thousands of episodes have the same task


def load_text_encoder(text_encoder: AnyTextEncoder | None) -> TextEncoder | None:
    """Return the text encoder, loaded, or None. Raises EmbedderError if it cannot be loaded."""
    if text_encoder is None:
        return None
    encoder = as_text_encoder(text_encoder)
    text_space(encoder)  # which loads it
    return encoder


def task_of(row: EpisodeRow) -> str:
    """Return the task descriptions in the metadata, one per line; "" if there are none."""
    return "\n".join(text.strip() for text in tasks(row.metadata) if text.strip())


def episodes_with_text(catalog: Catalog) -> Among:
    """Return the episodes of a Space of texts: all with words."""
    return Among(tuple(layout.id for layout in catalog.query.layouts()), with_words=True)


def embed_tasks(run: Run, encoder: TextEncoder) -> None:
    """Embed the task of every episode in the encoder's Space; no file is opened.

    Raises EmbedderError for any failure of the encoder; committed work is kept, and the next run continues.
    """
    catalog, space = run.archive.catalog, text_space(encoder)
    space_id = catalog.vectors.add_space(space.fingerprint, space.family, space.to_json()).id
    vectors_by_text: dict[str, Vectors] = {}
    done = False
    while not done:  # another ingest may have registered episodes
        among, without_task = episodes_with_text(catalog), []
        if waiting := catalog.vectors.pending_ids(space_id, among):
            run.watch.stage("embedding tasks", len(waiting))
        for batch in batches(waiting):
            rows = catalog.vectors.pending(space_id, replace(among, ids=tuple(batch)))  # without concurrent changes
            tasks = [(row, text) for row in rows if (text := task_of(row))]
            run.report.tasks += len(commit(run, space_id, space, _rows(encoder, tasks, vectors_by_text)))
            without_task += [row.id for row in rows if not task_of(row)]  # they have notes only
            run.watch.advance(len(batch))
        done = catalog.vectors.activate(space_id, among, ignoring=without_task)


def _rows(
    encoder: TextEncoder, tasks: Sequence[tuple[EpisodeRow, str]], vectors_by_text: dict[str, Vectors]
) -> list[EmbeddingRow]:
    """Return the rows for the ledger; each text is encoded once."""
    if len(vectors_by_text) > _MAX_CACHED:
        vectors_by_text.clear()
    new = [*dict.fromkeys(text for _, text in tasks if text not in vectors_by_text)]
    if new:
        vectors_by_text.update(zip(new, encode_by(encoder, new), strict=True))
    return [EmbeddingRow(row.id, row.digest, 1, vectors_by_text[text].astype("<f4").tobytes()) for row, text in tasks]
