"""*CompactDP*: tables 2 to 7 and figures 3, 11, 12, 13 and 16, measured again beside what is proven.

``published`` holds the paper's numbers, ``protocol`` what is run, ``features`` and ``pool`` the records and
who is a member. ``methods`` (with ``heads`` and ``second_stage``) are the rows; a ``bench`` learns by one of
them, makes the ``attack`` on it, and keeps what was ``measured``. ``rows`` gathers ``results``, ``tables``
lay them out, ``figures`` draw, ``scale`` tries a change of ruler, ``findings`` say what holds.
"""

from sfumato.papers.compactdp.parts import tables_and_figures

__all__ = ["tables_and_figures"]
