"""*TADP-RME*, section 6: its tables and figures, measured again and set beside the paper's.

``published`` holds the paper's numbers, ``protocol`` how they are measured again, ``settings`` what is
released, ``measures`` what is measured on it, ``sweep`` the run that tables and figures share; then one
module a table, one for each kind of figure, and ``page``.
"""

from sfumato_reproductions.tadp_rme.parts import tables_and_figures

__all__ = ["tables_and_figures"]
