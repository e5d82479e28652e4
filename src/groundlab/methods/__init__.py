"""The agents, one readable file each. `registry.py` knows them by name; `mediator/` holds the first paper's."""
