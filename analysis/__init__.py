"""Where a tested model errs: by loop, by depth, by how near a tie was, by which part is sequential.

An analysis is a function from tables and graphs to a table; a figure is a function from a table and an axis.
``analysis.report.analyze`` runs all that apply to the task of a run folder.
"""
