"""*Curvature-guided publication*: tables 1 and 2 and figures 3 to 8, measured again beside what is proven.

``published`` holds the paper's numbers, ``protocol`` what is run, ``imbalance`` the data. ``methods`` are the
rows of table 1; a ``bench`` publishes by one of them, learns from it (``downstream``), attacks it
(``candidates``, ``membership``) and keeps what was ``measured``. ``table_1`` and ``table_2``
lay ``results`` out, ``samples_figure`` and ``figures`` draw, ``findings`` say what holds, ``page`` writes all
of it down.
"""

from sfumato_reproductions.curvature_publication.parts import tables_and_figures

__all__ = ["tables_and_figures"]
