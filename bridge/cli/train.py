"""The verb `train-embedder`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.options import parse_windows
from bridge.cli.output import print_files
from catalog.cli.common import ArchiveOption, WhereOption
from wshard.cli.common import JsonOption, named_path, print_json, reported
from wshard.core.messages import plural

if TYPE_CHECKING:
    from bridge.support.progress import Progress
    from bridge.training.train_encoder import AdaptReport, Learnt, Lesson
    from bridge.training.train_frames import FramesReport


WrittenArgument = Annotated[
    Path,
    typer.Argument(help="File to write, for --embedder; replaces an earlier one.", parser=named_path, metavar="OUT"),
]


@reported()
def train_embedder(
    out: WrittenArgument,
    archive: ArchiveOption = None,
    lanes: Annotated[
        str | None,
        typer.Option("--lanes", help="Lanes to train on, e.g. state,action/ctrl (default: all small vectors)."),
    ] = None,
    windows: Annotated[
        str, typer.Option(help="Train on whole episodes, or on windows: SIZE:STRIDE or multi.")
    ] = "whole",
    where: WhereOption = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of training steps (default: 200; with --frames 2400).")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="Maximum training time in minutes (default: 5; with --frames 20).")
    ] = None,
    adapted: Annotated[
        bool,
        typer.Option(
            "--adapted", help="Fit the embedder `adapted` instead: in seconds, without torch, for whole episodes."
        ),
    ] = False,
    frames: Annotated[
        bool, typer.Option("--frames", help="Train on camera frames instead, to find episodes by what was seen.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the batches.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Train a small temporal encoder on the episodes of the archive, without labels, on the CPU (requires torch).

    With --adapted, a linear map is fitted instead; with --frames, an encoder of camera frames is trained. `wshard
    evaluate` measures each on your labels.
    """
    from bridge.support.progress import show_progress
    from bridge.training.train_encoder import Lesson
    from catalog.location import archive_named

    refused = [("--windows", windows != "whole", adapted or frames), ("--frames", frames, adapted)]
    for option, is_given, is_alone in refused:
        if is_given and is_alone:
            raise typer.BadParameter(f"expected none with {'--adapted' if adapted else '--frames'}", param_hint=option)
    named = None if lanes is None else [name.strip() for name in lanes.split(",") if name.strip()]
    limits: dict[str, Any] = {"seed": seed}
    limits |= {} if steps is None else {"steps": steps}
    limits |= {} if minutes is None else {"seconds": 60 * minutes}
    train = _adapt if adapted else _train_frames if frames else _train
    with show_progress() as progress:
        result, about = train(
            archive_named(archive), out, Lesson(named, parse_windows(windows), where or ""), limits, progress
        )
    if as_json:
        from bridge.present.reports import present_training

        print_json(present_training(result))
        return
    print_files("failed", [(str(one.address), one.error) for one in result.left_out])
    typer.echo(f"{out}: {about}")


def _train(
    place: Path | str, out: Path, lesson: Lesson, limits: dict[str, Any], progress: Progress
) -> tuple[Learnt, str]:
    from bridge.training.train_encoder import train_embedder as train
    from embedders.neural.training import Training

    learnt = train(place, out, lesson, training=Training(**limits), progress=progress)
    trained = f"trained on {plural(learnt.windows, 'window')}, loss {learnt.loss:.3f}"
    return learnt, f"{trained}; use --embedder learned:{out}"


def _adapt(
    place: Path | str, out: Path, lesson: Lesson, limits: dict[str, Any], progress: Progress
) -> tuple[AdaptReport, str]:
    from bridge.training.train_encoder import adapt_embedder
    from embedders.trajectory.fitting import FitOptions

    fit = adapt_embedder(place, out, lesson, options=FitOptions(seed=limits["seed"]), progress=progress)
    finds = f"finds {fit.found:.1%} of disturbed copies first, blocks {fit.found_before:.1%}"
    return fit, f"fitted to {plural(fit.episodes, 'episode')}; {finds}; use --embedder adapted:{out}"


def _train_frames(
    place: Path | str, out: Path, lesson: Lesson, limits: dict[str, Any], progress: Progress
) -> tuple[FramesReport, str]:
    from bridge.training.train_frames import train_frame_embedder
    from embedders.neural.frame_training import FrameTraining
    from embedders.registry import MODEL_SUFFIX

    learnt = train_frame_embedder(place, out, lesson, training=FrameTraining(**limits), progress=progress)
    seen = f"{plural(learnt.frames, 'frame')} of {plural(learnt.episodes, 'episode')}"
    name = out if out.name.endswith(MODEL_SUFFIX) else f"learnedframes:{out}"
    one = (
        ""
        if learnt.cameras > 1
        else "\none camera: a camera that stands elsewhere sees other pictures to this embedder"
    )
    return learnt, f"trained on {seen}, loss {learnt.loss:.3f}; use --embedder {name}{one}"
