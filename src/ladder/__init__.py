"""Trains families of small models, ranks and ships them."""

TEXTS = "ladder/"  # before the name of a domain: the corpus on which the shipped models were ranked
