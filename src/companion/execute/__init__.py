"""A notebook runs: parameters, kernel, steps, results, prose, reruns."""
