"""A whole study: every model on every corpus, on a laptop, on a machine with several GPUs, or on a Slurm cluster.

file: what a study is; sizes: the models' sizes, without a network; plan: what it costs; jobs: what is to be done, and
the state of it; tasks: the work of one job; slots: a GPU for each; book: the pages at the end; hub: whether downloads
are within reach; workflow: Snakemake over all of it.

None of it but `tasks` and `book` needs PyTorch, so that a plan and a state are there at once.
"""
