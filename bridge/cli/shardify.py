"""The verb `shardify`: episodes as windowed WebDataset shards for training."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from bridge.cli.convert import chosen_spans, remembered_in
from bridge.cli.options import (
    ChosenCollectionOption,
    ChosenWhereOption,
    SourceFormatOption,
    make_parameter,
    with_parameters,
)
from bridge.cli.output import print_files
from catalog.cli.common import ArchiveOption
from wshard.cli.common import (
    EXIT_FAILED,
    JsonOption,
    LayoutOption,
    local_place,
    option_read,
    print_items,
    printable,
    reading_options,
    reported,
)
from wshard.cli.convert import format_named
from wshard.core.messages import plural
from wshard.training.webdataset.options import MaskStyle, ShardifyOptions, parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wshard.training.conversion.jobs import ConversionJob
    from wshard.training.webdataset.export import ShardifyReport

ShardsOption = Annotated[
    str | None,
    typer.Option(
        "--to", help="Folder of the shards (default: see --output-dir).", parser=local_place, metavar="FOLDER"
    ),
]
DataOption = Annotated[
    str, typer.Option(help="Folder with Raiden's `processed`, for --task.", parser=local_place, metavar="FOLDER")
]
TasksOption = Annotated[list[str] | None, typer.Option("--task", help="Task of --data-dir, or 'all'; may be repeated.")]
InteractiveOption = Annotated[
    bool, typer.Option("--interactive", "-i", help="Choose tasks of --data-dir (the default on a terminal).")
]
OutputOption = Annotated[
    str, typer.Option(help="Without --to, shards go to OUTPUT_DIR/TASK/shards.", parser=local_place, metavar="FOLDER")
]

ALL = "*** ALL TASKS ***"
_HELP: Final = {
    "past_lowdim_steps": "Timesteps of a window before its anchor.",
    "future_lowdim_steps": "Timesteps of a window after its anchor.",
    "stride": "Frames between the timesteps of a window.",
    "max_padding_left": "Maximum number of padded timesteps at the beginning.",
    "max_padding_right": "Maximum number of padded timesteps at the end.",
    "samples_per_shard": "Samples per tar file.",
    "jpeg_quality": "JPEG quality of encoded images.",
    "use_depth": "Write depth maps.",
    "resize_depth": "Resize depth maps like the images.",
    "scale_intrinsics": "Scale intrinsics like the images.",
    "filter_still_samples": "Skip windows in which no arm moves.",
    "still_threshold": "Distance above which an arm counts as moving.",
    "fail_on_nan": "Fail on NaN instead of skipping the window.",
    "keep_incomplete": "Write samples that lack an image.",
    "masks": "Meaning of past_mask and future_mask.",
    "window_timesteps": "Store the frame numbers of a window in its metadata.",
    "stats_stride": "Compute statistics on every n-th sample.",
    "num_workers": "Threads.",
    "seed": "Seed for shuffling.",
}
"""What the fields of ShardifyOptions that are options as they are mean."""


def _with_windows(verb: Callable[..., None]) -> Callable[..., None]:
    """Give the verb the options of windows, in place of its `**windows`."""
    defaults = [(name, getattr(ShardifyOptions(), name)) for name in _HELP]
    kinds = {name: type(default) for name, default in defaults} | {"masks": MaskStyle}
    return with_parameters(verb, [make_parameter(name, kinds[name], one, help=_HELP[name]) for name, one in defaults])


@reported("shards that were not complete are removed")
@_with_windows
def shardify(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="IN...", help="Locations, PATH#KEY or PATH#KEY@START:STOP.")
    ] = None,
    to: ShardsOption = None,
    collection: ChosenCollectionOption = None,
    where: ChosenWhereOption = None,
    archive: ArchiveOption = None,
    data_dir: DataOption = "data",
    tasks: TasksOption = None,
    interactive: InteractiveOption = False,
    output_dir: OutputOption = "data/shards",
    task_name: Annotated[str | None, typer.Option(help="TASK in the path of the output.")] = None,
    source_format: SourceFormatOption = None,
    layout: LayoutOption = None,
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=LANE[A:B]", help="Array or camera to write, instead of the default fields; may be repeated."
        ),
    ] = None,
    image_indices: Annotated[str, typer.Option(help="Images of a sample, in frames from its anchor.")] = "-1,0",
    camera: Annotated[list[str] | None, typer.Option(help="Camera to write (default: all); may be repeated.")] = None,
    resize_images: Annotated[str, typer.Option(metavar="HxW", help="Size to resize images to, or None.")] = "384x384",
    max_episodes: Annotated[int, typer.Option(help="Maximum number of episodes; -1 for all.")] = -1,
    mode: Annotated[
        Literal["error", "overwrite"], typer.Option(help="Fail if the folder is not empty, or replace its shards.")
    ] = "error",
    as_json: JsonOption = False,
    **windows: Any,
) -> None:
    """Write episodes as windowed WebDataset shards, in the layout that vla_foundry trains on."""
    from wshard.training.conversion.jobs import list_jobs

    is_bare = not (paths or tasks or collection is not None or where is not None)
    interactive = interactive or (is_bare and _has_terminal())
    if sum((bool(paths), bool(tasks), collection is not None or where is not None, interactive)) != 1:
        raise typer.BadParameter(
            "expected one of IN..., --task, --collection or --where, and --interactive, the default on a terminal"
        )
    with option_read():
        options = ShardifyOptions(
            image_indices=_whole_numbers(image_indices),
            camera_names=tuple(camera or ()) or None,
            resize_images_size=parse_size(resize_images),
            max_episodes_to_process=max_episodes,
            **windows,
        )
    how = reading_options(format_named(source_format), layout)
    if collection is not None or where is not None:
        chosen: dict[str, Sequence[Any]] = {collection or "archive": chosen_spans(archive, collection, where)}
    else:
        named = _ask_for_tasks(data_dir) if interactive else tasks or []
        chosen = _name_places(paths, data_dir, named)
    folders = {name: Path(to) if to else Path(output_dir, task_name or name, "shards") for name in chosen}
    unread, known = dict[str, str](), remembered_in(archive)
    jobs = {name: list_jobs(places, how, remembered=known, unread=unread) for name, places in chosen.items()}
    reports = [_export(jobs[name], folders[name], options, field or [], mode) for name in chosen]
    _print_reports(reports, unread if as_json else None)


def _name_places(paths: Sequence[str] | None, data_dir: str, tasks: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Return the places by the name of their output: that of the first path, or of each task."""
    if paths:
        return {Path(os.path.realpath(paths[0])).name.partition("#")[0]: paths}
    return {path.name: [path] for path in _find_tasks(data_dir, tasks)}


def _ask_for_tasks(data_dir: str) -> list[str]:
    """Return the tasks that a person chooses; raises BadParameter where nobody can answer."""
    from rich.prompt import Prompt

    from wshard.core.files.local import LocalPlace
    from wshard.formats.raiden.source import list_tasks

    if not _has_terminal():
        raise typer.BadParameter("--interactive: expected a terminal; use --task NAME")
    tasks = list_tasks(LocalPlace(f"{data_dir}/processed"))
    return choose_tasks(tasks, Prompt.ask, lambda line: typer.echo(line, err=True)) if tasks else ["all"]


def _has_terminal() -> bool:
    return sys.stdin.isatty()


def _find_tasks(data_dir: str, names: Sequence[str]) -> list[Path]:
    """Return the folders of tasks; raises SourceNotFoundError, which lists those that there are."""
    from wshard.core.files.local import LocalPlace
    from wshard.errors import SourceNotFoundError
    from wshard.formats.raiden.source import list_tasks

    tasks = list_tasks(LocalPlace(f"{data_dir}/processed"))
    unknown = [name for name in names if name not in tasks and name != "all"]
    place = Path(data_dir, "processed")
    if not tasks:
        raise SourceNotFoundError(f"{place}: expected tasks with episodes, found none: name --data-dir, or IN...")
    if unknown:
        listed = ", ".join(f"{name} ({count})" for name, count in tasks.items())
        raise SourceNotFoundError(f"{place}: expected tasks, found {listed}; no {', '.join(unknown)}")
    return [Path(data_dir, "processed", name) for name in (tasks if "all" in names else names)]


def _export(
    jobs: Sequence[Any],
    folder: Path,
    options: ShardifyOptions,
    field: Sequence[str],
    mode: Literal["error", "overwrite"],
) -> ShardifyReport:
    from bridge.support.progress import show_progress
    from wshard.training.webdataset.export import shardify as export

    shown = ""
    with show_progress() as progress:

        def show(stage: str, _: int, total: int) -> None:
            nonlocal shown
            if stage != shown:
                progress.stage(stage, total)
                shown = stage
            progress.advance(1)

        folder.parent.mkdir(parents=True, exist_ok=True)
        return export(jobs, folder, options, fields=field, mode=mode, progress=show)


def _print_reports(reports: Sequence[ShardifyReport], unread: dict[str, str] | None) -> None:
    """Print what was written; unread: for JSON, why files are not read, by path."""
    for report in reports:
        print_files("error", [_name_failure(job, error) for job, error in report.failed], rest="")
    if unread is not None:
        rows = [
            {"path": str(one.folder), "episodes": one.episodes, "samples": one.samples, "shards": len(one.shards)}
            | {"left_out": one.left_out, "failed": [str(job.span.address) for job, _ in one.failed]}
            for one in reports
        ]
        print_items(rows, unread=unread)
    else:
        for one in reports:
            counts = [plural(one.samples, "sample"), plural(len(one.shards), "shard"), plural(one.episodes, "episode")]
            left = [f"{count} {reason}" for reason, count in one.left_out.items() if count]
            failed = [f"{len(one.failed)} failed"] if one.failed else []
            typer.echo(f"sharded   {printable(str(one.folder))}  ({', '.join(counts + failed)})")
            if left:
                typer.echo(f"left out  {', '.join(left)}")
    if any(report.failed for report in reports):
        raise typer.Exit(EXIT_FAILED)


def _name_failure(job: ConversionJob, error: Exception) -> tuple[str, str]:
    """Return where a failed episode is, and why, without the same name before it."""
    address = job.span.address
    return str(address), str(error).removeprefix(f"{address}: ").removeprefix(f"{address.uri}: ")


def _whole_numbers(text: str) -> tuple[int, ...]:
    from wshard.errors import DatasetError

    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise DatasetError(f"image-indices: expected whole numbers as -1,0; found {text!r}") from None


def choose_tasks(tasks: Mapping[str, int], ask: Callable[[str], str], show: Callable[[str], None]) -> list[str]:
    """Show tasks with their numbers of episodes, and return those chosen by number.

    ask: returns the answer to a prompt; called again until the answer is numbers and ranges such as "1 3-5"; 0 is all.
    show: prints a line.
    """
    names = list(tasks)
    labels = [ALL, *(f"{printable(name)} ({plural(count, 'episode')})" for name, count in tasks.items())]
    for number, label in enumerate(labels):
        show(f"{number:>4}  {label}")
    while True:
        chosen = parse_numbers(ask("tasks (numbers and ranges, as 1 3-5)"), len(names))
        if chosen:
            return names if 0 in chosen else [names[number - 1] for number in chosen]
        show(f"expected numbers from 0 to {len(names)}")


def parse_numbers(text: str, max_number: int) -> list[int]:
    """Return the distinct numbers in a text such as "1 3-5"; [] if it is invalid or a number exceeds max_number."""
    numbers: dict[int, None] = {}
    for part in re.split(r"[\s,]+", text.strip()):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last <= max_number:
            return []
        numbers |= dict.fromkeys(range(first, last + 1))
    return list(numbers)
