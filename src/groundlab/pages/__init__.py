"""What only notebooks show: maps, galleries and worked examples, drawn from runs and models."""
