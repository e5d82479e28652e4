"""Text in, numbers or text out: models, prompts, scoring, generation, pretraining, and `chat/` for advice."""
