"""MobileNetV2 of width 1 (Sandler et al. 2018), with the parameter names of its public ImageNet weights."""

from __future__ import annotations

from torch import Tensor, nn

__all__ = ["MobileNetV2"]

# Expansion, channels, repeats and stride of the first of them: table 2 of the paper.
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _convolution(given: int, made: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(given, made, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(made),
        nn.ReLU6(),
    )


class _Bottleneck(nn.Module):
    """Widening, one filter a channel, narrowing without a bend; added to its input where shapes allow."""

    def __init__(self, given: int, made: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = given * expansion
        widened = [_convolution(given, wide, 1)] if expansion > 1 else []
        self.conv = nn.Sequential(
            *widened,
            _convolution(wide, wide, 3, stride, groups=wide),
            nn.Conv2d(wide, made, 1, bias=False),
            nn.BatchNorm2d(made),
        )
        self._added = stride == 1 and given == made

    def forward(self, values: Tensor) -> Tensor:
        found: Tensor = self.conv(values)
        return values + found if self._added else found


class MobileNetV2(nn.Module):
    """Class scores (n, 1000) of pictures (n, 3, h, w); :meth:`pooled` gives the 1280 features before them."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_convolution(3, 32, 3, 2)]
        given = 32
        for expansion, made, repeats, stride in _STAGES:
            for repeat in range(repeats):
                layers.append(_Bottleneck(given, made, stride if repeat == 0 else 1, expansion))
                given = made
        self.features = nn.Sequential(*layers, _convolution(given, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def pooled(self, pictures: Tensor) -> Tensor:
        """The mean over places (n, 1280) of the last layer's channels."""
        found: Tensor = self.features(pictures)
        return found.mean(dim=(2, 3))

    def forward(self, pictures: Tensor) -> Tensor:
        """Scores (n, 1000) of the classes of ImageNet."""
        scores: Tensor = self.classifier(self.pooled(pictures))
        return scores
