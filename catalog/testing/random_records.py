"""Random awkward episodes, as Hypothesis strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from catalog.testing.records import AWKWARD, JSON_NUMBERS, KEYS, LENGTHS, PHRASES, REWARDS, make_record

if TYPE_CHECKING:
    from catalog.episode_record import EpisodeRecord


def records(number: int) -> st.SearchStrategy[EpisodeRecord]:
    """Draw an episode with the path of that number and awkward values everywhere else."""
    text = st.sampled_from(AWKWARD)
    return st.builds(
        make_record,
        st.just(number),
        key=text,
        episode_id=text,
        env_id=text,
        length=st.sampled_from(LENGTHS),
        total_reward=st.none() | st.sampled_from(REWARDS),
        success=st.none() | st.booleans(),
        metadata=metadata(),
        format=st.sampled_from(("wshard", "lerobot")),
        lane_map=st.sampled_from(("", "a=b")),
    )


def metadata() -> st.SearchStrategy[dict[str, Any]]:
    """Draw an episode's metadata."""
    leaves = st.none() | st.booleans() | st.sampled_from(JSON_NUMBERS) | st.sampled_from((*AWKWARD, *PHRASES))
    deep = st.dictionaries(st.sampled_from(("deep", "other")), leaves, max_size=2)
    return st.dictionaries(st.sampled_from((*KEYS, *AWKWARD)), leaves | deep | st.lists(leaves, max_size=2), max_size=4)


def record_lists(*, max_size: int = 20) -> st.SearchStrategy[list[EpisodeRecord]]:
    """Draw episodes at different places."""
    sizes = st.integers(0, max_size)
    return sizes.flatmap(lambda size: st.tuples(*(records(number) for number in range(size))).map(list))
