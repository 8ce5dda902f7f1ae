"""What the geometry refuses, each time in one sentence."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from surfaces import Pseudosphere, Sphere

from sfumato.errors import BadInput
from sfumato.publishers.riemannian import curvature, geodesics
from sfumato.publishers.riemannian.manifold import pullback_metric

GOOD = torch.tensor([[1.0, 2.0], [1.5, 0.5]])
ROW = torch.tensor([[1.0, 2.0], [1.0, math.nan], [math.inf, 1.0]])


@pytest.mark.parametrize("function", [pullback_metric, curvature])
@pytest.mark.parametrize(
    ("z", "sentence"),
    [
        (np.zeros((2, 2)), "torch tensor of floating-point numbers, not ndarray"),
        (torch.zeros(2, 2, dtype=torch.int64), "not torch.int64 numbers"),
        (torch.zeros(2, 2, dtype=torch.complex64), "not torch.complex64 numbers"),
        (torch.zeros(3), r"shape \(n, d\) with n and d at least 1, not \(3,\)"),
        (torch.zeros(3, 0), r"not \(3, 0\)"),
        (torch.zeros(0, 2), r"not \(0, 2\)"),
        (ROW, "row 1 is not"),
    ],
)
def test_latent_points(function, z, sentence):
    with pytest.raises(BadInput, match=sentence) as caught:
        function(Sphere(), z)
    assert str(caught.value).count("\n") == 0


@pytest.mark.parametrize("function", [pullback_metric, curvature])
def test_where_the_manifold_ends_the_point_is_named(function):
    with pytest.raises(BadInput, match="not finite at latent point 1"):
        function(Pseudosphere(), GOOD)


def test_a_metric_that_is_not_smooth_is_told_from_one_that_is_not_finite():
    class Edge:
        def embed(self, z):
            return z.abs() ** 1.5, torch.zeros_like(z)

    with pytest.raises(BadInput, match="no finite derivative"):
        curvature(Edge(), torch.zeros(1, 2))


@pytest.mark.parametrize(
    ("end", "options", "sentence"),
    [
        (GOOD[:1], {}, r"starts \(2, 2\) and ends \(1, 2\)"),
        (GOOD.double(), {}, "alike in shape and type"),
        (ROW[:2], {}, "ends of geodesics must be finite: row 1"),
        (GOOD, {"knots": 0}, "0 knots do not fit"),
        (GOOD, {"knots": 19}, "at least 2 fewer than 20 samples"),
        (GOOD, {"samples": 2}, "5 knots do not fit"),
        (GOOD, {"iterations": 0}, "1 iteration or more"),
        (GOOD, {"tolerance": math.nan}, "tolerance from 0"),
    ],
)
def test_ends_and_options_of_geodesics(end, options, sentence):
    with pytest.raises(BadInput, match=sentence):
        geodesics(Sphere(), GOOD, end, **options)


def test_a_line_that_leaves_the_manifold():
    class Hole:
        def embed(self, z):
            return torch.where(z.norm(dim=1, keepdim=True) < 0.01, math.nan, z), torch.zeros_like(z)

    start = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    end = torch.tensor([[2.0, 0.0], [-1.9, -1.9]])
    hit = torch.lerp(start[1], end[1], 1.0 / 2.9)
    assert hit.norm() < 0.01
    with pytest.raises(BadInput, match="straight line of geodesic 1 leaves the manifold"):
        geodesics(Hole(), start, end, samples=30)


def test_without_torch_the_room_opens_and_the_geometry_names_its_extra():
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import sfumato.publishers\n"
        "try:\n    import sfumato.publishers.riemannian.manifold\n"
        "except ValueError as error:\n    print(type(error).__name__, error)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "BadInput the curvature publisher needs torch: pip install 'sfumato[learn]'.\n"


def test_opening_the_room_imports_no_torch():
    code = "import sys, sfumato.publishers; print('torch' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "False\n"
