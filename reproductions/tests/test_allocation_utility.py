import numpy as np
import pytest

from people_photos import astronaut, photographs
from sfumato.errors import BadInput
from sfumato.media.images import SensitivityMap, annotated_map
from sfumato_reproductions.multimedia_dp.allocation_utility import measured_allocation, modelled_allocation


def test_modelled_losses_are_mean_inverse_squares():
    scores = np.array([[0.0, 0.0, 0.0, 1.0]])
    found = modelled_allocation([SensitivityMap.from_array(scores)], epsilon=1.0, low=0.1)
    assert found.mean_share == pytest.approx((3 + 0.1) / 4)
    assert found.everywhere.adaptive[0] == pytest.approx((3 + 100) / 4)
    assert found.everywhere.uniform_worst_case[0] == pytest.approx(1.0)
    assert found.everywhere.uniform_total[0] == pytest.approx((4 / 3.1) ** 2)
    assert found.outside.adaptive[0] == pytest.approx(1.0)
    assert found.outside.less("worst case") == pytest.approx(0.0)
    assert found.outside.less("total") == pytest.approx(1 - (3.1 / 4) ** 2)
    assert found.outside.less("total", typical=True) == pytest.approx(1 - (3.1 / 4) ** 2)


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 40.0])
def test_at_equal_worst_case_no_map_loses_less(epsilon):
    rng = np.random.default_rng(0)
    maps = [SensitivityMap.from_array(rng.random((6, 6)) ** 2) for _ in range(5)]
    found = modelled_allocation(maps, epsilon=epsilon)
    for counted in (found.everywhere, found.outside):
        worse = np.array(counted.adaptive) >= np.array(counted.uniform_worst_case) * (1 - 1e-12)
        assert worse.all()
        assert counted.less("worst case", typical=True) <= 1e-12


def test_a_flat_map_changes_nothing():
    flat = SensitivityMap.from_array(np.zeros((4, 4)))
    found = measured_allocation([astronaut(112)], [flat], epsilon=4.0)
    assert found.mean_share == 1.0
    assert found.everywhere == found.outside
    assert abs(found.everywhere.less("total")) < 0.3


def test_measured_losses_of_half_a_picture():
    """The half without a person has less error than the whole; at equal worst case a map only adds noise."""
    made = SensitivityMap.from_boxes({"identity": [(0, 0, 112, 224)]}, (224, 224), tile=16)
    found = measured_allocation([astronaut()], [made], epsilon=8.0, unit="pixels(1)", restore="smooth")
    assert found.outside.adaptive[0] < found.everywhere.adaptive[0]
    assert found.everywhere.less("worst case") < 0.0


@pytest.mark.parametrize(("pictures", "maps"), [([], []), ([astronaut(112)], [])])
def test_there_must_be_something_to_compare(pictures, maps):
    with pytest.raises(BadInput, match=r"nothing to compare|do not go with"):
        measured_allocation(pictures, maps, epsilon=1.0)


def test_on_photographs_with_people_the_published_gain_is_not_met():
    """Mean squared error over 8 photographs, region(16), ε = 4: the published 38.7% is not reached."""
    pictures, maps = [], []
    for _, picture, boxes in photographs(8):
        pictures.append(np.ascontiguousarray(picture[:224, :224]))
        maps.append(annotated_map(boxes, picture.shape, tile=16, factors=("identity",)))
        maps[-1] = SensitivityMap.from_array(maps[-1].scores[:14, :14])
    found = measured_allocation(pictures, maps, epsilon=4.0)
    assert found.everywhere.less("worst case") < 0.0
    assert found.everywhere.less("total") < 0.387
