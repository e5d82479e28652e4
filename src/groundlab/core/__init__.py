"""The ground floor: errors, seeds, hashes, atomic files and the folder of a run. Everything else stands on it.

Start at `run.py`: the folder that a method writes its metrics and checkpoints to.
"""
