"""The verb `wshard train-embedder`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import parse_windows
from bridge.cli.output import tell_files
from catalog.cli.common import ArchiveOption, WhereOption
from wshard.cli.common import JsonOption, print_json, reported
from wshard.messages import plural


@reported()
def train_embedder(
    out: Annotated[Path, typer.Argument(help="The file to write; then use --embedder learned:FILE.")],
    archive: ArchiveOption = None,
    lanes: Annotated[
        str | None,
        typer.Option("--lanes", help="Lanes to learn from, e.g. state,action/ctrl (default: all small vectors)."),
    ] = None,
    windows: Annotated[
        str, typer.Option(help="Learn from whole episodes, or from windows SIZE:STRIDE or multi.")
    ] = "whole",
    where: WhereOption = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of training, at most.")] = 200,
    minutes: Annotated[float, typer.Option(min=0.01, help="Minutes of training, at most.")] = 5.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same batches.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Train a small temporal encoder on the archive's own episodes, without labels, on the CPU (needs torch)."""
    from bridge.support.progress import watched
    from bridge.training.train_encoder import Lesson
    from bridge.training.train_encoder import train_embedder as train
    from catalog.location import archive_named
    from embedders.neural.training import Training

    named = None if lanes is None else [name.strip() for name in lanes.split(",") if name.strip()]
    lesson = Lesson(named, parse_windows(windows), where or "")
    training = Training(steps=steps, seconds=60 * minutes, seed=seed)
    with watched() as progress:
        learnt = train(archive_named(archive), out, lesson, training=training, progress=progress)
    if as_json:
        print_json(asdict(learnt))
        return
    tell_files("left out", [(str(one.address), one.error) for one in learnt.left_out])
    told = f"learned from {plural(learnt.windows, 'window')}, loss {learnt.loss:.3f}"
    typer.echo(f"{out}: {told}; use --embedder learned:{out}")
