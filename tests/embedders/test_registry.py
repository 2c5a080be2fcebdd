"""Embedders by name, by module path, by entry point and from stored Spaces."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from embedders import (
    DEFAULT_EMBEDDER,
    EMBEDDERS,
    ArcDct,
    Blocks,
    Embedder,
    LaneSpec,
    PooledCallable,
    Space,
    Statistics,
    Stats,
    WindowPlan,
    as_embedder,
    embedder_of,
    make_embedder,
)
from wshard.errors import EmbedderError, MissingExtraError, SpaceMismatchError, UnknownEmbedderError


def make_space(embedder):
    frozen = Statistics(10, np.zeros(3), np.ones(3)) if embedder.uses_statistics else None
    return Space(
        embedder=embedder.name,
        version=embedder.version,
        parameters=embedder.parameters(),
        lanes=(LaneSpec("signal/state", (3,)),),
        windows=WindowPlan(),
        dim=embedder.dim(3),
        metric=embedder.metric,
        statistics=frozen,
    )


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """Provide an installed foreign package whose entry points announce embedders; yields its module name."""
    module = f"foreign_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(
        "from embedders.trajectory.pooled import Stats\n"
        "class Sized(Stats):\n"
        "    name = 'sized'\n"
        "    def __init__(self, size=3): object.__setattr__(self, 'size', size)\n"
        "    def parameters(self): return {'size': self.size}\n"
        "ready = Sized(5)\n"
        "def pool(mean): return mean\n"
        "number = 3\n"
    )
    (tmp_path / f"{module}_needy.py").write_text("import a_module_that_nobody_has\n")
    info = tmp_path / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[wshard.embedders]\nsized = {module}:Sized\nneedy = {module}_needy:Any\nstats = {module}:Sized\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield module
    sys.modules.pop(module, None)


@pytest.mark.parametrize(
    "name", sorted({*EMBEDDERS} - {"adapted", "encoder", "learned", "learnedframes", "torchmodule"})
)
def test_every_name_of_the_table_makes_the_embedder_of_that_name(name):
    embedder = make_embedder(name)
    assert isinstance(embedder, Embedder)
    assert embedder.name == name
    assert embedder_of(make_space(embedder)) == embedder


def test_an_embedder_of_a_file_needs_one():
    with pytest.raises(EmbedderError, match="missing a required argument: 'model'; name its file, 'torchmodule:FILE'"):
        make_embedder("torchmodule")


@pytest.mark.parametrize("called", [False, True])
def test_an_embedder_of_ones_own_is_reported_with_what_it_lacks(called):
    has = {"name": "half", "version": 1, "dim": len, "embed": list, **({"__call__": len} if called else {})}
    with pytest.raises(EmbedderError, match="an embedder that lacks uses_statistics, metric, parameters"):
        as_embedder(type("Half", (), has)())


def test_a_name_without_its_file_is_reported_with_what_it_lacks():
    with pytest.raises(UnknownEmbedderError, match="expected 'learned:FILE', found 'learned:'"):
        make_embedder("learned:")


def test_the_default_is_in_the_table():
    assert as_embedder(DEFAULT_EMBEDDER) == Blocks()


def test_parameters_reach_the_embedder_and_come_back_from_its_space():
    embedder = make_embedder("arcdct", {"coefficients": 5, "position": None})
    assert embedder == ArcDct(coefficients=5, position=None)
    assert embedder_of(Space.from_json(make_space(embedder).to_json())) == embedder


@pytest.mark.parametrize("parameters", [{"unknown": 1}, {"length": 0}])
def test_parameters_that_do_not_fit_are_refused(parameters):
    with pytest.raises(EmbedderError, match=next(iter(parameters))):
        make_embedder("dct", parameters)


def test_an_unknown_name_lists_the_known_ones(foreign):
    with pytest.raises(UnknownEmbedderError, match=r"arcdct, blocks, dct, .*needy, sized, stats.*'arcdtc'"):
        make_embedder("arcdtc")
    with pytest.raises(KeyError):
        make_embedder("arcdtc")


def test_entry_points_are_found_by_name_and_cannot_take_over_a_name_of_the_table(foreign):
    embedder = make_embedder("sized", {"size": 9})
    assert embedder.parameters() == {"size": 9}
    assert embedder_of(make_space(embedder)).parameters() == {"size": 9}
    assert type(make_embedder("stats")) is Stats


def test_an_entry_point_that_cannot_be_imported_says_what_is_missing(foreign):
    with pytest.raises(MissingExtraError, match="a_module_that_nobody_has"):
        make_embedder("needy")


def test_a_module_of_ones_own_that_lacks_another_says_which(tmp_path, monkeypatch):
    (tmp_path / "needy_embedder.py").write_text("import a_module_that_nobody_has\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError, match="'a_module_that_nobody_has': install what is missing"):
        make_embedder("needy_embedder:x")


def test_a_module_path_gives_a_class_a_ready_embedder_or_a_function(foreign):
    assert make_embedder(f"{foreign}:Sized", {"size": 7}).parameters() == {"size": 7}
    assert make_embedder(f"{foreign}:ready").parameters() == {"size": 5}
    pooled = make_embedder(f"{foreign}:pool")
    assert isinstance(pooled, PooledCallable)
    assert pooled.name == f"{foreign}:pool"


@pytest.mark.parametrize(
    ("path", "parameters", "error", "message"),
    [
        ("{}:absent", None, UnknownEmbedderError, "'absent'"),
        ("{}:number", None, EmbedderError, "found 3"),
        ("{}:ready", {"size": 1}, EmbedderError, "expected no parameters"),
        ("{}:pool", {"size": 1}, EmbedderError, "expected no parameters"),
        ("{}:", None, UnknownEmbedderError, "package.module:attribute"),
        (".{}:Sized", None, UnknownEmbedderError, "package.module:attribute"),
        (":Sized", None, UnknownEmbedderError, "package.module:attribute"),
        (
            "no_such_module_anywhere:x",
            None,
            MissingExtraError,
            "'no_such_module_anywhere': install it, or put .*PYTHONPATH",
        ),
        ("collections:Counter", None, EmbedderError, "found Counter"),
        ("builtins:dict", None, EmbedderError, "builtins:dict"),
    ],
)
def test_module_paths_that_lead_nowhere_are_refused(foreign, path, parameters, error, message):
    with pytest.raises(error, match=message):
        make_embedder(path.format(foreign), parameters)


def test_a_stored_space_never_decides_what_is_imported(foreign):
    space = replace(make_space(Stats()), embedder=f"{foreign}:Sized")
    with pytest.raises(UnknownEmbedderError, match="name the embedder"):
        embedder_of(space)
    assert foreign not in sys.modules


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"dim": 25},
        {"metric": "euclidean"},
        {"parameters": {"length": 64}},
        {"parameters": {"length": 64, "unknown": 1}},
        {"parameters": {"length": 1}},
        {"embedder": "stats"},
    ],
)
def test_a_space_of_another_embedder_of_that_name_is_refused_with_advice(changes):
    space = make_space(ArcDct())
    with pytest.raises(SpaceMismatchError, match=r"`wshard ingest FOLDER` embeds the episodes with what is"):
        embedder_of(replace(space, **changes))


def test_a_callable_cannot_pass_for_an_embedder_of_the_table():
    for name in EMBEDDERS:
        with pytest.raises((SpaceMismatchError, UnknownEmbedderError)):
            embedder_of(make_space(PooledCallable(np.tanh, name)))


def test_anything_that_can_embed_becomes_an_embedder():
    ready = ArcDct(coefficients=2)
    assert as_embedder(ready) is ready
    assert as_embedder("stats") == Stats()
    assert isinstance(as_embedder(np.tanh), PooledCallable)
    for wrong in (ArcDct, 3, None):
        with pytest.raises(EmbedderError, match="expected a name, an embedder or a function"):
            as_embedder(wrong)


def test_the_package_loads_neither_sql_nor_http():
    code = "import sys, embedders; print(*(set(sys.modules) & {'sqlalchemy', 'httpx', 'scipy', 'torch', 'pytest'}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == ""


def test_every_public_name_exists_and_modules_keep_their_names():
    code = (
        "from embedders import *; import embedders.statistics as s, embedders.trajectory.resample as r;"
        "print(s.merge is merge, r.resample)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.startswith("True <function resample")
