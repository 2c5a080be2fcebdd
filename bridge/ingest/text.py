"""Embed task descriptions into ledger and index.

Notes are not embedded: they change without the file, so their vectors would be out of date.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bridge.ingest.fill import commit
from bridge.support.batches import batches
from catalog.full_text import texts
from catalog.vectors.records import Among, EmbeddingRow
from embedders.text.base import as_text_encoder, encode_by, text_space

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.index.base import Vectors
    from bridge.ingest.report import Run
    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow
    from embedders.text.base import AnyTextEncoder, TextEncoder

_REMEMBERED: Final = 4096  # texts: thousands of episodes have the same task


def loaded(sentences: AnyTextEncoder | None) -> TextEncoder | None:
    """Return the text encoder that is meant, None for none. Raises EmbedderError for whatever is wrong with it."""
    if sentences is None:
        return None
    encoder = as_text_encoder(sentences)
    text_space(encoder)  # which loads it
    return encoder


def task_of(row: EpisodeRow) -> str:
    """Return the task descriptions in the metadata, one per line; "" if there are none."""
    return "\n".join(text.strip() for text in texts(row.metadata, ()) if text.strip())


def speaking(catalog: Catalog) -> Among:
    """Return whom a Space of texts is for: every episode with words."""
    return Among(tuple(layout.id for layout in catalog.query.layouts()), with_words=True)


def embed_tasks(run: Run, encoder: TextEncoder) -> None:
    """Embed the task of every episode in the encoder's Space; no file is opened.

    Raises EmbedderError for any failure of the encoder; committed work is kept, and the next run continues.
    """
    catalog, space = run.archive.catalog, text_space(encoder)
    number = catalog.vectors.add_space(space.fingerprint, space.family, space.to_json()).id
    known: dict[str, Vectors] = {}
    done = False
    while not done:  # another ingest may have registered episodes
        among, silent = speaking(catalog), []
        if waiting := catalog.vectors.pending_ids(number, among):
            run.watch.stage("embedding tasks", len(waiting))
        for batch in batches(waiting):
            rows = catalog.vectors.pending(number, replace(among, ids=tuple(batch)))  # without concurrent changes
            said = [(row, text) for row in rows if (text := task_of(row))]
            run.report.tasks += len(commit(run, number, space, _rows(encoder, said, known)))
            silent += [row.id for row in rows if not task_of(row)]  # they have notes only
            run.watch.advance(len(batch))
        done = catalog.vectors.activate(number, among, ignoring=silent)


def _rows(
    encoder: TextEncoder, said: Sequence[tuple[EpisodeRow, str]], known: dict[str, Vectors]
) -> list[EmbeddingRow]:
    """Return what the ledger is to hold; each text is encoded once."""
    if len(known) > _REMEMBERED:
        known.clear()
    new = [*dict.fromkeys(text for _, text in said if text not in known)]
    if new:
        known.update(zip(new, encode_by(encoder, new), strict=True))
    return [EmbeddingRow(row.id, row.digest, 1, known[text].astype("<f4").tobytes()) for row, text in said]
