"""What each array is: its role in the layout, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.guessing import names
from wshard.formats.layouts.guessing.clock import OPEN, counts_steps, is_clock, unit_of
from wshard.formats.layouts.guessing.survey import FLAGS, IMAGES, NUMBERS, OTHER, TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.formats.layouts.guessing.readings import EpisodeGuess
    from wshard.formats.layouts.guessing.survey import ArrayFacts

_PLACES: Final = (names.EPISODE, names.LENGTHS, names.STOPS, names.STARTS, names.LAST, names.MASK)
_OF_STEPS: Final[Mapping[str, tuple[str, str]]] = {
    names.REWARD: (rules.REWARD, "its name, one number per timestep"),
    names.END: (rules.END, "its name, one flag per timestep"),
    names.TRUNCATED: (rules.TRUNCATED, "its name, one flag per timestep"),
    names.SUCCESS: (rules.SUCCESS, "its name, one flag per timestep"),
}
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {names.REWARD: (NUMBERS, FLAGS)}
_TEXTS: Final[Mapping[str, str]] = {
    names.TASK: rules.TASK,
    names.ENVIRONMENT: rules.ENVIRONMENT,
    names.ID: rules.ID,
    names.EPISODE: rules.ID,
}
_SINGLE: Final = (
    rules.REWARD, rules.END, rules.TRUNCATED, rules.SUCCESS, rules.TASK, rules.ENVIRONMENT, rules.ID, rules.TIME
)  # fmt: skip
_MAX_CONSTANT: Final = 4096


@dataclass(frozen=True)
class ArrayGuess:
    """What an array is taken for.

    role: as in a description, "observation" or "final/obs". why: in words. extra: as in ArrayRule. Of times, unit is
    OPEN where nothing tells it. is_apart: a column that is not stacked with others, as stands_apart says.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    why: str
    unit: str = ""
    extra: int = 0
    is_apart: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the user has to choose."""
        return self.unit == OPEN


def guess_roles(arrays: Sequence[ArrayFacts], found: EpisodeGuess) -> list[ArrayGuess]:
    """Return what the arrays of a file, or of its first group, are."""
    guesses = [_guess(facts, _rows_of(facts, found), found) for facts in arrays]
    for role in _SINGLE:
        candidates = [one for one in guesses if one.role == role]
        if len(candidates) > 1:
            best = _best(candidates, role)
            guesses = [one if one.role != role or one is best else _demoted(one, role, best) for one in guesses]
    return guesses


def _rows_of(facts: ArrayFacts, found: EpisodeGuess) -> int | None:
    """Return how many rows more than timesteps an array has for each episode, None if it has no row per timestep."""
    rule, count = found.readings[0].rule, found.readings[0].count
    if rule.by == rules.ROW:
        if len(facts.shape) < 2 or facts.shape[rule.axis] != count:
            return None
        more = facts.shape[1 - rule.axis] - found.rows
        return more if more in (0, 1) else None
    more = facts.rows - found.rows
    if rule.by in (rules.FILE, rules.GROUP):
        return more if facts.rows and more in (0, 1) else None
    if more == 0:
        return 0
    return 1 if more == count and facts.rows else None


def _guess(facts: ArrayFacts, more: int | None, found: EpisodeGuess) -> ArrayGuess:
    role, why, unit = _role_of(facts, more, found)
    rule = found.readings[0].rule
    extra = 1 if more and rule.by not in (rules.FILE, rules.GROUP, rules.ROW) else 0
    why += f"; one row more for each episode: its final {'observation' if role == rules.OBSERVATION else 'one'}" * bool(
        more
    )
    return ArrayGuess(facts.path, facts.shape, facts.dtype, role, why, unit, extra)


def _role_of(facts: ArrayFacts, more: int | None, found: EpisodeGuess) -> tuple[str, str, str]:
    """Return (role, why, unit)."""
    if facts.kind == OTHER:
        return rules.SKIP, facts.note, ""
    if facts.path in found.evidence and facts.meaning not in (*_OF_STEPS, names.TIME):
        return rules.SKIP, found.evidence[facts.path].partition(": ")[2] or found.evidence[facts.path], ""
    if more is None:
        return *_constant(facts, found), ""
    is_column = facts.is_column or (found.readings[0].rule.by == rules.ROW and len(facts.shape) == 2)
    if is_column and not more and facts.meaning in (names.TIME, names.COUNTER) and facts.kind not in (TEXT, IMAGES):
        return _time(facts, found)
    return *_of_steps(facts, more, is_column=is_column), ""


def _of_steps(facts: ArrayFacts, more: int, *, is_column: bool) -> tuple[str, str]:
    """Return what an array with a row per timestep is."""
    if facts.kind in (TEXT, IMAGES):
        role = _TEXTS.get(facts.meaning, rules.METADATA) if facts.kind == TEXT else rules.OBSERVATION
        return rules.METADATA if role == rules.ID else role, f"{facts.kind}, one per timestep"
    if facts.meaning in (*_PLACES, names.TASK_NUMBER) and is_column:
        return rules.SKIP, "its name: it tells episodes or tasks apart, or counts rows"
    if facts.meaning in _OF_STEPS and is_column and not more and facts.kind in _KINDS.get(facts.meaning, (FLAGS,)):
        return _OF_STEPS[facts.meaning]
    if facts.meaning == names.ACTION and not more:
        return rules.ACTION, "its name"
    if facts.meaning == names.NEXT:
        return f"{rules.FINAL}/{facts.path}", "its name: the observation after each; the last one is read"
    is_named = facts.meaning == names.OBSERVATION
    return rules.OBSERVATION, "its name" if is_named else "one row per timestep, and its name says nothing else"


def _time(facts: ArrayFacts, found: EpisodeGuess) -> tuple[str, str, str]:
    reading = found.readings[0]
    axis = 1 - reading.rule.axis if reading.rule.by == rules.ROW else 0
    episodes = reading.count if reading.rule.by not in (rules.FILE, rules.GROUP, rules.ROW) else 1
    is_scattered = "mixed" in reading.why
    if counts_steps(facts):
        return rules.SKIP, "it counts the timesteps", ""
    if facts.meaning == names.TIME and (is_scattered or is_clock(facts, episodes, axis)):
        unit, why = unit_of(facts, axis)
        return rules.TIME, f"its name, {why}", unit
    return rules.OBSERVATION, "one number per timestep, which does not grow as a time", ""


def _constant(facts: ArrayFacts, found: EpisodeGuess) -> tuple[str, str]:
    """Return what is stated once, for an episode or for all."""
    rule, count = found.readings[0].rule, found.readings[0].count
    is_stated = rule.by in (rules.FILE, rules.GROUP) and facts.rows <= 1
    is_per_episode = rule.by not in (rules.FILE, rules.GROUP) and facts.rows == count
    if facts.kind == TEXT and facts.meaning in _TEXTS and (is_stated or is_per_episode or not facts.shape):
        return _TEXTS[facts.meaning], "its name, one text for each episode"
    if facts.meaning == names.SUCCESS and facts.kind == FLAGS and (is_stated or is_per_episode):
        return rules.SUCCESS, "its name, one flag for each episode"
    size = 1
    for axis in facts.shape:
        size *= axis
    if facts.meaning == names.STATISTIC or facts.meaning in _PLACES or size > _MAX_CONSTANT:
        return rules.SKIP, f"its rows are not those of the {found.rows} timesteps"
    return rules.METADATA, "one value for each episode" if is_per_episode else "no row per timestep"


def _best(candidates: Sequence[ArrayGuess], role: str) -> ArrayGuess | None:
    """Return the array whose name says most, None where two are as likely."""

    def rank(one: ArrayGuess) -> tuple[int, int]:
        words = names.tokens_of(one.path.rpartition("/")[2])
        is_done = role == rules.END and bool({"done", "dones"} & {*words})  # true at truncations, too
        return int(is_done), len([word for word in words if word not in ("is", "id", "step")])

    ranked = sorted(candidates, key=rank)
    is_clear = rank(ranked[0]) < rank(ranked[1]) or role in (rules.TIME, rules.END, rules.TRUNCATED)
    return ranked[0] if is_clear else None


def _demoted(one: ArrayGuess, role: str, best: ArrayGuess | None) -> ArrayGuess:
    """Return an array that has the role of another."""
    reason = f"the {role} is {best.path!r}" if best is not None else f"others are as likely to be the {role}"
    if role in (rules.END, rules.TRUNCATED):
        return replace(one, role=rules.SKIP, why=f"flags of ends: {reason}")
    is_lane = role in (rules.REWARD, rules.SUCCESS, rules.TIME)
    return replace(one, role=rules.OBSERVATION if is_lane else rules.METADATA, why=reason, unit="")
