"""Schemas of containers: the blocks that are expected, and the check that a container has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wshard.core.container.block_paths import matches
from wshard.core.container.layout import CONTENT_UNKNOWN

if TYPE_CHECKING:
    from wshard.core.container.reader import ShardReader


@dataclass(frozen=True)
class EntrySpec:
    """One expected block, or several of a pattern; content type 0 means any."""

    pattern: str
    content_type: int = CONTENT_UNKNOWN
    optional: bool = False
    description: str = ""


@dataclass(frozen=True)
class ShardSchema:
    """The blocks that files of one kind hold."""

    name: str = ""
    version: int = 1
    specs: list[EntrySpec] = field(default_factory=list)

    def add_spec(
        self,
        pattern: str,
        content_type: int = CONTENT_UNKNOWN,
        optional: bool = False,  # noqa: FBT001, FBT002  (the signature of the container's reference package)
        description: str = "",
    ) -> ShardSchema:
        """Expect a block; returns the schema itself, so that calls can follow each other."""
        self.specs.append(EntrySpec(pattern, content_type, optional, description))
        return self

    def add_optional(self, pattern: str, content_type: int = CONTENT_UNKNOWN, description: str = "") -> ShardSchema:
        """Allow a block, of this content type if it is there; returns the schema itself."""
        return self.add_spec(pattern, content_type, optional=True, description=description)


@dataclass(frozen=True)
class ValidationError:
    """One expectation that a container does not meet."""

    spec_pattern: str
    message: str


def validate_schema(reader: ShardReader, schema: ShardSchema) -> list[ValidationError]:
    """Return the unmet expectations of a schema, none if the container conforms."""
    errors = []
    for spec in schema.specs:
        matching = [entry for entry in reader.entries if matches(spec.pattern, entry.name)]
        if not matching and not spec.optional:
            errors.append(ValidationError(spec.pattern, f"expected a block that fits {spec.pattern!r}, found none"))
        errors += [
            ValidationError(
                spec.pattern,
                f"block {entry.name!r}: expected content_type {spec.content_type}, found {entry.content_type}",
            )
            for entry in matching
            if spec.content_type not in (CONTENT_UNKNOWN, entry.content_type)
        ]
    return errors
