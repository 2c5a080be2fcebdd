"""The tokens that encoders of words take, from the tokenizer in their folder."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.plugins import import_library
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedders.encoders.model_folder import ModelFolder

FILE: Final = "tokenizer.json"
_LENGTH: Final = 64  # tokens of SigLIP and SigLIP 2, which were trained with padded texts only
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, eq=False)
class WordInput:
    """Tokenises texts as the family of the encoder was trained: CLIP without padding, SigLIP with 64 tokens."""

    family: str
    tokenizer: Any
    where: str

    def read(self, text: str) -> dict[str, NDArray[np.int64]]:
        """Return the tokens [1, L] of a text. Raises EmbedderError if it has none."""
        if not isinstance(text, str):
            raise EmbedderError(f"words: expected a text, found {text!r}")
        written = text.encode("utf-8", "replace").decode()  # JSON may have halves of characters
        if self.family != "clip":
            written = written.lower()
        if self.family == "siglip":
            written = re.sub(r"\s+", " ", written.translate(_PUNCTUATION)).strip()
        try:
            tokens = self.tokenizer.encode(written).ids
        except Exception as error:  # its errors share no base class but Exception
            raise EmbedderError(f"{self.where}: the tokenizer failed on {text!r}: {error}") from error
        if not tokens:
            raise EmbedderError(f"words: expected a text that {self.where} has tokens for, found {text!r}")
        return {"input_ids": np.array([tokens], np.int64)}


def read_words(folder: ModelFolder, family: str, length: int) -> WordInput | None:
    """Return the tokenizer of a folder, None if there is no tokenizer.json. length: the most tokens that CLIP takes."""
    where = str(folder.path / FILE)
    if (text := folder.read_text(FILE)) is None:
        return None
    library = import_library("tokenizers", "encoders")
    try:
        tokenizer = library.Tokenizer.from_str(text)
        tokenizer.no_padding()
        tokenizer.enable_truncation(length if family == "clip" else _LENGTH)
    except Exception as error:  # as above
        raise EmbedderError(f"{where}: expected a tokenizer: {error}") from error
    if family != "clip":
        settings = folder.read_json("tokenizer_config.json")
        padding = settings.get("pad_token") or ("</s>" if family == "siglip" else "<pad>")
        name = padding.get("content") if isinstance(padding, dict) else padding
        number = tokenizer.token_to_id(name) if isinstance(name, str) else None
        if number is None:
            raise EmbedderError(f"{where}: expected the token for padding, {name!r}, found none")
        side = "left" if settings.get("padding_side") == "left" else "right"
        tokenizer.enable_padding(direction=side, pad_id=number, pad_token=name, length=_LENGTH)
    return WordInput(family, tokenizer, where)
