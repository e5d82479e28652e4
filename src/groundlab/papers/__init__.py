"""The papers, a room each: agents, settings, tables and figures. `training.py` has the one run loop for all."""
