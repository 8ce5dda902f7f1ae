"""*CompactDP*: tables 2 to 7 and figures 3, 11, 12, 13 and 16, measured again beside what is proven.

``published`` holds the paper's numbers, ``protocol`` what is run, ``features`` and ``pool`` the records and
who is a member. ``methods`` (with ``heads``) are the rows; a ``bench`` learns by one of them, makes the
``attack`` on it, and keeps what was ``measured`` for as long as the ``sources`` stay as they are. ``rows``
gathers ``results``, ``tables`` lay them out, ``classes`` go through classes, ``appendix_n`` makes the attacks
of figure 13, ``figures`` draw, ``scale`` tries a change of ruler, ``findings`` say what holds, where seeds
tell (``comparing``).
"""

from sfumato_reproductions.compactdp.parts import tables_and_figures

__all__ = ["tables_and_figures"]
