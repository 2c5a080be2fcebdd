"""One collection of the fake server; see deepdata_fake.py for what L, S and § mean."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from deepdata_filters import passes


class RefusedError(Exception):
    """An answer other than 200: status and plain text (§2)."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Collection:
    """Documents in memory; nodes keep deleted and ghostly vectors, as the graph does (S-5, S-7)."""

    schema: dict[str, Any]
    next_id: int = 1
    documents: dict[int, dict[str, Any]] = field(default_factory=dict)
    nodes: list[tuple[int, list[float]]] = field(default_factory=list)
    deleted: set[int] = field(default_factory=set)
    poisoned: bool = False
    matrix: Any = None  # of the nodes, with which of them can be reached; None = to be made anew
    reachable: Any = None

    @property
    def dim(self) -> int:
        return int(self.schema["fields"][0]["dim"])

    def add(self, vectors: dict[str, Any], metadata: Any) -> int:
        number = self.next_id
        self.next_id += 1  # failed inserts use up an id, too (§4)
        if not vectors:
            raise RefusedError(400, "at least one vector required")  # L45
        if "embedding" not in vectors:
            raise RefusedError(500, "document validation failed: missing required vector field: embedding")  # L43
        if extra := set(vectors) - {"embedding"}:
            raise RefusedError(500, f"document validation failed: unknown vector field: {extra.pop()}")  # L44
        raw = [float(x) if isinstance(x, int | float) else 0.0 for x in vectors["embedding"]]  # L50
        if len(raw) != self.dim:
            words = f"failed to add to index embedding: vector dimension mismatch: expected {self.dim}, got {len(raw)}"
            raise RefusedError(500, words)  # L42
        with np.errstate(over="ignore"):
            vector = np.array(raw).astype(np.float32)
        self.poisoned |= not np.isfinite(vector).all()  # S-2: accepted, and for ever
        self.documents[number] = {"vector": vector.tolist(), "metadata": metadata}
        self.nodes.append((number, vector.tolist()))
        self.matrix = None
        return number

    def delete(self, number: int) -> None:
        if number not in {known for known, _ in self.nodes}:
            words = f"failed to delete from index embedding: vector with ID {number} not found"
            raise RefusedError(500, f"failed to delete document: {words}")  # L126
        self.documents.pop(number, None)
        self.deleted.add(number)  # the place in the graph stays (S-5); again is fine (L123)

    def search(self, ask: dict[str, Any]) -> dict[str, Any]:
        query = np.array(ask["queries"]["embedding"], np.float32)
        if len(query) != self.dim:
            raise RefusedError(
                500, f"search failed: query dimension mismatch: expected {self.dim}, got {len(query)}"
            )  # L75
        top_k, offset = ask.get("top_k", 0), ask.get("offset", 0)
        if top_k <= 0:
            raise RefusedError(400, "top_k must be positive")  # L71
        if top_k > 10**9 or (ask.get("ef_search") or 0) > 10**9:
            os._exit(2)  # S-3: out of memory
        ranked = self._ranked(query, ask.get("filters"), top_k + offset)[offset:]
        documents = [self._shown(number, ask.get("include_vectors")) for number, _ in ranked]
        found = {"status": "success", "documents": documents, "scores": [score for _, score in ranked]}
        return found | {"candidates_examined": len(ranked)}

    def _ranked(self, query: Any, filters: Any, count: int) -> list[tuple[int, float]]:
        if self.matrix is None:
            self.matrix = np.array([vector for _, vector in self.nodes], np.float32).reshape(-1, self.dim)
            self.reachable = self._reachable()
        norms = np.linalg.norm(self.matrix, axis=1) * np.linalg.norm(query)
        with np.errstate(all="ignore"):
            cosines = np.where(norms > 0, self.matrix @ query / np.where(norms > 0, norms, 1), 0)
        distances = np.maximum(0, 1 - cosines).astype(np.float32)
        order = (at for at in np.argsort(distances, kind="stable").tolist() if at in self.reachable)
        if filters is not None:  # applied during the walk: as many as requested come back (§12)
            saved = [*islice((at for at in order if self._meets(self.nodes[at][0], filters)), count)]
        else:  # deleted ones are dropped afterwards (S-5; L124)
            spare = count if len(self.deleted) > 0.1 * len(self.nodes) else 0
            saved = [at for at in islice(order, count + spare) if self.nodes[at][0] not in self.deleted][:count]
        found = [(self.nodes[at][0], float(distances[at])) for at in saved]
        if self.poisoned:
            random.shuffle(found)  # S-2: wrong order, even after the document is deleted
        return found

    def _reachable(self) -> set[int]:
        """Return the nodes that a walk gets to: of more than 20 equal ones hardly any (S-4)."""
        groups = Counter(tuple(vector) for _, vector in self.nodes) if len(self.nodes) < 5000 else Counter()
        crowded = {vector for vector, count in groups.items() if count > 20}
        if not crowded:
            return set(range(len(self.nodes)))
        return {at for at, (_, vector) in enumerate(self.nodes) if tuple(vector) not in crowded}

    def _meets(self, number: int, filters: dict[str, Any]) -> bool:
        document = self.documents.get(number)
        return document is not None and bool(document["metadata"]) and passes(filters, document["metadata"])  # L84

    def _shown(self, number: int, with_vector: Any) -> dict[str, Any]:
        document = self.documents.get(number)
        if document is None:
            return {"id": 0}  # S-7, S-9: a vector without a document
        return shown_document(number, document, with_vector=bool(with_vector))

    def about(self) -> dict[str, Any]:
        fields = [{name: field_[name] for name in ("name", "type", "dim", "index")} for field_ in self.schema["fields"]]
        shown = {"Name": self.schema["name"], "Fields": fields, "Description": self.schema.get("description", "")}
        return shown | {"Metadata": self.schema.get("metadata"), "DocCount": len(self.documents)}  # L30


def shown_document(number: int, document: dict[str, Any], *, with_vector: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": number}
    if with_vector:
        if not np.isfinite(document["vector"]).all():
            raise RefusedError(200, "")  # L56, L57
        shown["vectors"] = {"embedding": document["vector"]}
    if document["metadata"]:
        shown["metadata"] = document["metadata"]
    return shown
