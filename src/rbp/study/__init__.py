"""Models × corpora, in one file: what it would cost, and how it is run, on one machine or a Slurm cluster."""
