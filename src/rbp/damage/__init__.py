"""One model made worse, step by step."""
