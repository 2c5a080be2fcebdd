"""What the name of an array says about it."""

from __future__ import annotations

import re
from typing import Final

from wshard.formats.layouts import layout

ACTION, OBSERVATION, NEXT, REWARD, END, LAST, TRUNCATED = (
    "action",
    "observation",
    "next",
    "reward",
    "end",
    "last",
    "cut",
)
SUCCESS, TASK, ENVIRONMENT, ID, TIME, COUNTER, MASK = "success", "task", "environment", "id", "time", "counter", "mask"
EPISODE, LENGTHS, STOPS, STARTS, STATISTIC, UNKNOWN = "episode", "lengths", "stops", "starts", "statistic", ""
TASK_NUMBER = "task number"

TELLING: Final = frozenset((END, LAST, TRUNCATED, TIME, COUNTER, EPISODE, LENGTHS, STOPS, STARTS))
"""Meanings of columns that tell episodes apart."""

_TOKEN: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EPISODES: Final = _words(
    "episode episodes ep eps traj trajs trajectory trajectories run runs demo demos trial trials rollout "
    "rollouts seq sequence sequences segment take"
)
_INDEXES: Final = _words("id ids idx index indices number num no nr nb count")
_ACTIONS: Final = frozenset(layout.CALLED[layout.ACTION])
_OBSERVATIONS: Final = _words(
    "state states qpos qvel joint joints pos position positions vel velocity "
    "velocities pose poses ee eef gripper proprio image images rgb depth camera cam sensor sensors imu "
    "force forces torque torques wrench features"
) | {*layout.CALLED[layout.OBSERVATION]}
_REWARDS: Final = frozenset(layout.CALLED[layout.REWARD])
_ENDS: Final = frozenset(layout.CALLED[layout.END])
_CUTS: Final = frozenset(layout.CALLED[layout.TRUNCATED])
_SUCCESSES: Final = _words("success successes successful succeeded solved")
_TASKS: Final = _words("task tasks instruction instructions language lang prompt")
_ENVIRONMENTS: Final = _words("env environment")
_ACTORS: Final = _words("worker agent robot actor rank thread")
_TIMES: Final = _words("t time times timestamp timestamps stamp stamps ts clock sec secs second seconds")
_UNITS: Final = _words("s ms us ns sec secs nsec usec msec seconds")
_COUNTERS: Final = _words("step steps timestep timesteps frame tick ticks row i n k")
_LENGTHS: Final = _words("length lengths len lens")
_STOPS: Final = _words(
    "end ends stop stops offset offsets split splits boundary boundaries ptr indptr cumsum indices index idx"
)
_STARTS: Final = _words("start starts begin begins first reset resets new")
_EARLIER: Final = _words("prev previous last")
_STATISTICS: Final = _words("mean std min max scale stats statistics low high var variance space dim dims")
_DERIVED: Final = _words(
    "log logp logprob logprobs prob probs mask entropy noise return returns cum cumulative sum total rate"
)
_OF_PLACES: Final = _words("is flag flags step row rows cu data")
_KINDS_OF_TIME: Final = _words("sim ros elapsed abs rel unix epoch wall")
_VALID: Final = _words("mask masks valid")

_SINGLE: Final = {"u": ACTION, "a": ACTION, "r": REWARD, "t": TIME, "d": END}
"""Names of one letter, alone or before a number."""


def tokens_of(name: str) -> list[str]:
    """Return the words of a name in lower case: of "isFirst", "ep_len" and "u0"."""
    return [token.lower() for token in _TOKEN.findall(name)]


def meaning_of(path: str) -> str:
    """Return what a path says about an array; groups such as "obs/" and "actions/" count before the name in them."""
    *groups, leaf = path.split("/")
    meaning = _of_name(tokens_of(leaf))
    for group in groups:
        outer = _of_name(tokens_of(group))
        if outer in (ACTION, OBSERVATION, NEXT) and meaning not in (TIME, COUNTER, STATISTIC):
            return outer
    return meaning


def stem_of(name: str) -> str:
    """Return a name without the numbers at its end: "u" of "u0", "act_" of "act_12"."""
    return name.rstrip("0123456789")


def _of_name(tokens: list[str]) -> str:
    words = {token for token in tokens if not token.isdigit()}
    if len(words) == 1 and (single := _SINGLE.get(next(iter(words)))):
        return single
    if not words:
        return UNKNOWN
    if words & _STATISTICS:
        return STATISTIC
    if "next" in words and words & (_OBSERVATIONS | {"s"}):
        return NEXT
    if words & {"type", "types"} and "step" in words:
        return COUNTER  # FIRST, MID, LAST as 0, 1, 2
    return _of_steps(tokens, words) or _of_episodes(tokens, words) or (OBSERVATION if words & _OBSERVATIONS else "")


def _of_steps(tokens: list[str], words: set[str]) -> str:
    """Return what is said of a row per timestep."""
    is_plain = not words & (_DERIVED | _EARLIER)
    cases = {
        END: words & _ENDS,
        TRUNCATED: words & _CUTS or {"time", "out"} <= words or {"time", "limit"} <= words,
        LAST: "last" in words and words <= {"is", "last", "step"},
        REWARD: words & _REWARDS and is_plain,
        SUCCESS: words & _SUCCESSES and is_plain,
        UNKNOWN: words & _EPISODES or words & _INDEXES,  # of episodes
        ACTION: (words & _ACTIONS or tokens[0] == "u") and is_plain,
        LENGTHS: words & (_COUNTERS - {"n"}) and words & {"num", "n", "nb"},  # not of force_N
        COUNTER: words & _COUNTERS and words <= _COUNTERS | {"time", "global", "sim", "env"},
        TIME: words & (_TIMES | _UNITS - {"s"}) and words <= _TIMES | _UNITS | _KINDS_OF_TIME,
        MASK: words & _VALID,
    }
    return next((meaning for meaning, fits in cases.items() if fits), UNKNOWN)


def _of_episodes(tokens: list[str], words: set[str]) -> str:
    """Return what is said of episodes, or of their places."""
    cases = {
        LENGTHS: words & _LENGTHS and words <= _LENGTHS | _EPISODES | {"n", "num", "size", "valid"},
        EPISODE: words & _EPISODES and words <= _EPISODES | _INDEXES - {"indices"},
        STARTS: words & _STARTS and words <= _STARTS | _EPISODES | _INDEXES | _OF_PLACES,
        COUNTER: words <= _INDEXES - {"indices"} | _COUNTERS | {"global"},
        STOPS: words & _STOPS and words <= _STOPS | _EPISODES | _INDEXES | _OF_PLACES,
        TASK: words & _TASKS and not words & _INDEXES,
        TASK_NUMBER: words & _TASKS and words <= _TASKS | _INDEXES,
        ENVIRONMENT: words & _ENVIRONMENTS or (words & _ACTORS and words <= _ACTORS | _INDEXES),
        ID: tokens in (["uuid"], ["name"]),
    }
    return next((meaning for meaning, fits in cases.items() if fits), UNKNOWN)
