"""The verb `train-embedder`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.output import print_files
from catalog.cli.common import ArchiveOption, WhereOption
from wshard.cli.common import JsonOption, print_json, reported
from wshard.messages import plural


@reported()
def train_embedder(
    out: Annotated[Path, typer.Argument(readable=False, help="File to write; use it with --embedder learned:FILE.")],
    archive: ArchiveOption = None,
    lanes: Annotated[
        str | None,
        typer.Option("--lanes", help="Lanes to train on, e.g. state,action/ctrl (default: all small vectors)."),
    ] = None,
    where: WhereOption = None,
    episodes: Annotated[int, typer.Option(min=1, help="Maximum number of episodes, chosen at random.")] = 600,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the choice and the disturbances.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn from the archive's episodes which differences matter, without labels, in seconds to minutes.

    Measure it by `wshard evaluate` before you use it.
    """
    from bridge.support.progress import watched
    from bridge.training.train_embedder import Lesson
    from bridge.training.train_embedder import train_embedder as train
    from catalog.location import archive_named
    from embedders.trajectory.training import Training

    named = None if lanes is None else [name.strip() for name in lanes.split(",") if name.strip()]
    with watched() as progress:
        training = Training(episodes=episodes, seed=seed)
        learnt = train(archive_named(archive), out, Lesson(named, where or ""), training=training, progress=progress)
    if as_json:
        from bridge.present.reports import present_training

        print_json(present_training(learnt))
        return
    print_files("failed", [(str(one.address), one.error) for one in learnt.left_out])
    about = (
        f"trained on {plural(learnt.episodes, 'episode')}; finds {learnt.found:.1%} of disturbed copies first, "
        f"blocks {learnt.found_before:.1%}"
    )
    typer.echo(f"{out}: {about}; use --embedder learned:{out}")
