"""From a causal language model and a corpus to a rank store.

models: find and load a model; head: its output layer; sizes: S as the paper counts it; corpora: the texts;
protocols: which tokens are scored, in which windows; forward: hidden states, whatever the batch; store: the
folder of ranks; run: all of it together; shards: one process for each GPU; reader: a finished store, checked;
tables: a store as the measurement table.

`store`, `reader` and `tables` do without PyTorch, so that a chapter reads ranks quickly.
"""
