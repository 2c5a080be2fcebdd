"""The verb `train-embedder`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import parse_windows
from bridge.cli.output import print_files
from catalog.cli.common import ArchiveOption, WhereOption
from wshard.cli.common import JsonOption, print_json, reported
from wshard.core.messages import plural


@reported()
def train_embedder(
    out: Annotated[
        Path,
        typer.Argument(readable=False, help="File to write, for --embedder learned:FILE; replaces an earlier one."),
    ],
    archive: ArchiveOption = None,
    lanes: Annotated[
        str | None,
        typer.Option("--lanes", help="Lanes to train on, e.g. state,action/ctrl (default: all small vectors)."),
    ] = None,
    windows: Annotated[
        str, typer.Option(help="Train on whole episodes, or on windows: SIZE:STRIDE or multi.")
    ] = "whole",
    where: WhereOption = None,
    steps: Annotated[int, typer.Option(min=1, help="Maximum number of training steps.")] = 200,
    minutes: Annotated[float, typer.Option(min=0.01, help="Maximum training time in minutes.")] = 5.0,
    adapted: Annotated[
        bool,
        typer.Option(
            "--adapted", help="Fit the embedder `adapted` instead: in seconds, without torch, for whole episodes."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the batches.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Train a small temporal encoder on the episodes of the archive, without labels, on the CPU (requires torch).

    With --adapted, a linear map is fitted instead. `wshard evaluate` measures either on your labels.
    """
    from bridge.support.progress import show_progress
    from bridge.training.train_encoder import AdaptReport, Learnt, Lesson, adapt_embedder
    from bridge.training.train_encoder import train_embedder as train
    from catalog.location import archive_named
    from embedders.neural.training import Training
    from embedders.trajectory.fitting import FitOptions

    if adapted and windows != "whole":
        raise typer.BadParameter("expected whole episodes with --adapted", param_hint="--windows")
    named = None if lanes is None else [name.strip() for name in lanes.split(",") if name.strip()]
    lesson = Lesson(named, parse_windows(windows), where or "")
    place = archive_named(archive)
    with show_progress() as progress:
        result: Learnt | AdaptReport
        if adapted:
            result = fit = adapt_embedder(place, out, lesson, options=FitOptions(seed=seed), progress=progress)
            finds = f"finds {fit.found:.1%} of disturbed copies first, blocks {fit.found_before:.1%}"
            about = f"fitted to {plural(fit.episodes, 'episode')}; {finds}"
        else:
            training = Training(steps=steps, seconds=60 * minutes, seed=seed)
            result = learnt = train(place, out, lesson, training=training, progress=progress)
            about = f"trained on {plural(learnt.windows, 'window')}, loss {learnt.loss:.3f}"
    if as_json:
        from bridge.present.reports import present_training

        print_json(present_training(result))
        return
    print_files("failed", [(str(one.address), one.error) for one in result.left_out])
    typer.echo(f"{out}: {about}; use --embedder {'adapted' if adapted else 'learned'}:{out}")
