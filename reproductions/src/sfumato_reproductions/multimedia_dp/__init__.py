"""*Adaptive multimedia DP*: tables 1, 2, 4 and 5, figure 2, and its headline figures, measured again.

``published`` holds what the paper prints, ``protocol`` what is run, ``sources`` the pictures, clips and
speech. Table 1: ``category_table``; table 2: ``calibration_table`` (theorems) and ``calibration_loss``
(measured); table 4: ``threshold_table`` on the records of ``threshold_records``; table 5:
``selection_table``. Beyond the tables: ``allocation``, ``closeness`` (DP-Pix), ``steadiness`` (video),
``voices`` (speech). ``points`` says what holds and what does not; ``page`` writes all of it down.
"""

from sfumato_reproductions.multimedia_dp.composition import (
    COUNTS,
    DELTA,
    EPSILON,
    TOTAL_DELTA,
    composition_figure,
    composition_table,
)
from sfumato_reproductions.multimedia_dp.parts import tables_and_figures

__all__ = [
    "COUNTS",
    "DELTA",
    "EPSILON",
    "TOTAL_DELTA",
    "composition_figure",
    "composition_table",
    "tables_and_figures",
]
