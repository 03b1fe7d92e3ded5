"""Ranks inside other people's programs: while a model is trained, and from engines that rank by themselves."""
