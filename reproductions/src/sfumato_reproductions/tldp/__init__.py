"""*TLDP*, section 5: table 5 and figures 1, 2 and 3, measured again at equal proven unit, ε and δ.

``published`` holds the paper's formulas, ``printed_proof`` what their noise proves, ``protocol`` what is run.
Table 5: ``paper_candidates`` and ``sound_candidates`` bring every mechanism to one ``promise``,
``error_table`` draws their errors. Figures: ``settings`` says what is released, ``points`` what is set
against TLDP at the same promise, ``cases`` and ``network`` what learns from it, ``sweep`` runs all of it,
``comparison`` sets the scores beside each other. Figure 3, ``federated``, is a chapter of its own, which
``whole_page`` keeps beside the rest.
"""

from sfumato_reproductions.tldp.parts import tables_and_figures

__all__ = ["tables_and_figures"]
