"""Trains families of small models, ranks and ships them."""
