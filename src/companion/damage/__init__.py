"""One model made worse, step by step, and compared at equal cross-entropy."""
