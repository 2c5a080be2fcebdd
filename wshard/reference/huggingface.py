"""Episodes on the Hugging Face hub: import path of the reference package."""

from __future__ import annotations

from wshard.formats.huggingface import HF_AVAILABLE, HuggingFaceAdapter, download_from_hub, upload_to_hub

__all__ = ["HF_AVAILABLE", "HuggingFaceAdapter", "download_from_hub", "upload_to_hub"]
