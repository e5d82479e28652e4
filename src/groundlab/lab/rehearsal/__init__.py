"""Rehearsals: every distinct row of a plan, for a few updates, with the true architectures and random weights.

    groundlab rehearse --scale paper --device cpu --dry-run      # every row, and what it needs

costs.py holds what was measured, where plans read it; rows.py makes a row small and says what it needs; stand_ins.py
makes what cannot be had (weights, labels); session.py is the process that is killed once and resumes; rehearsal.py is
the whole. A rehearsal is no result: its manifest says `rehearsal: true`, and nothing collects it.
"""
