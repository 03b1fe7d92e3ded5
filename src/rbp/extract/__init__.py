"""From a causal language model and a text to a rank store."""
