"""Published and others' measurements, and a real model's, as sources."""
