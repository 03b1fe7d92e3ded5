"""Token ranks of causal language models, their scaling with size, and the book that reruns the evidence."""

__version__ = "0.1.0"
