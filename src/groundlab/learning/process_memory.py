"""What a process holds beside the model that it tunes: the estimates of both papers' agents add it on a CPU."""

ADAM_STATES = 2
"""Numbers that Adam keeps for each weight."""
PROGRAM = 510_000_000
"""Bytes that Python holds with torch and transformers imported, before a model is built; measured."""
_FLOAT = 4  # bytes of float32


def of_process(trained: int) -> dict[str, int]:
    """Bytes of the program, and of a checkpoint while it is put into model and optimizer; trained: weights tuned."""
    return {"the program": PROGRAM, "checkpoint, when it resumes": (1 + ADAM_STATES) * trained * _FLOAT}
