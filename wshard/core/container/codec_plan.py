"""Which codec and which frames each block of a file gets."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from wshard.core.arguments import timesteps
from wshard.core.container.codec import Codec, CompressionType
from wshard.errors import CodecError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Compression = str | CompressionType | Codec | Mapping[str, "str | CompressionType | Codec"]
FrameSteps = int | Mapping[str, int]


def frames_by_block(frame_steps: FrameSteps | None) -> dict[str, int]:
    """Return the timesteps per frame by pattern of block names; {} for None."""
    if frame_steps is None:
        return {}
    return dict(frame_steps) if isinstance(frame_steps, Mapping) else {"*": frame_steps}


@dataclass(frozen=True)
class CodecPlan:
    """Which codec and which frames each block gets: patterns in order, first match wins; exact names beat patterns."""

    rules: tuple[tuple[str, Codec], ...]
    frames: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(compression: Compression, level: int | None = None, frame_steps: FrameSteps | None = None) -> CodecPlan:
        """Parse one codec for all blocks, or a mapping {"signal/rgb": "zstd:19", "*": "none"}; frame_steps likewise.

        Raises CodecError (a ValueError) for an invalid codec or number of timesteps, and for frames requested for a
        named block that zstd does not compress.
        """
        codecs = compression if isinstance(compression, Mapping) else {"*": compression}
        plan = CodecPlan(
            tuple((pattern, Codec.parse(codec, level)) for pattern, codec in codecs.items()),
            tuple(
                (pattern, timesteps(steps, f"frame_steps: {pattern!r}", CodecError))
                for pattern, steps in frames_by_block(frame_steps).items()
            ),
        )
        for pattern, _ in plan.frames:
            if not is_pattern(pattern) and plan.codec(pattern).type is not CompressionType.ZSTD:
                raise CodecError(f"frame_steps: {pattern!r}: expected zstd for it, found {plan.codec(pattern).type}")
        return plan

    def check(self, blocks: Collection[str]) -> None:
        """Raise CodecError for a rule that names none of these blocks; a pattern may match none."""
        for option, names in (("compression", dict(self.rules)), ("frame_steps", dict(self.frames))):
            for name in names:
                if name not in blocks and not is_pattern(name):
                    raise CodecError(f"{option}: {name!r}: expected a pattern or one of {', '.join(blocks)}")

    def codec(self, block: str) -> Codec:
        """Return the codec for a block name; blocks without a rule are not compressed."""
        return first_match(self.rules, block) or Codec()

    def frame_steps(self, block: str) -> int:
        """Return the timesteps per frame of a block, 0 for a block that is stored as one frame or without zstd."""
        if self.codec(block).type is not CompressionType.ZSTD:
            return 0
        return first_match(self.frames, block) or 0

    @property
    def compresses(self) -> bool:
        """Whether any block may be compressed."""
        return any(codec.type is not CompressionType.NONE for _, codec in self.rules)

    @property
    def default(self) -> Codec:
        """The codec to state in the file header: that of the rule for everything, else none."""
        return self.codec("")


T = TypeVar("T")


def first_match(rules: Sequence[tuple[str, T]], block: str) -> T | None:
    """Return the value of the rule that is the name of a block or, if there is none, of the first that matches it."""
    exact = (value for name, value in rules if name == block)
    return next(exact, None) or next((value for name, value in rules if fnmatch.fnmatchcase(block, name)), None)


def is_pattern(name: str) -> bool:
    """Return True for what names several blocks."""
    return any(sign in name for sign in "*?[")
