"""The ladder: a family of small language models, trained here from scratch, and the rank of every token.

Making it: `recipe` reads the configuration, `homes` downloads the corpora, `texts` gathers the text, `tokens` makes
the tokenizer and the rows that every rung reads, `data` writes these, `architectures` has the models, `train` trains
one, `jobs` works in several processes, `runs` trains all that is asked for, `ranks` ranks, `ship` copies it into the
project. `place` says where the files are.

Families over sizes and training tokens (ladders.toml): `grid` trains them, `aggregates` ranks with them.

Reading it: `evaluation` rebuilds the texts that were ranked.
"""
