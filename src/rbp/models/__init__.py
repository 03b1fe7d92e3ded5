"""Models: found and loaded, with their tokenizers, adapters, devices, head and identity."""
