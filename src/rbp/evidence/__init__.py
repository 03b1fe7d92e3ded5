"""One door to every source of numbers: the published ones, the ladder's, a file's, a rank store's."""
