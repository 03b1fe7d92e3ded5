"""Size and training: does any law of S and D hold, and what becomes of the exponent in S where D moves?"""
