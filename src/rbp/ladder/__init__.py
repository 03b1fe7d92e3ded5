"""The ladder: a family of small language models, trained here from scratch, and the rank of every token.

`recipe` reads the configuration, `texts` gathers the text, `tokens` makes the tokenizer and the rows that every
rung reads, `train` trains one rung.
"""
