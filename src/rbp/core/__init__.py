"""How files, errors, paths and processes behave: what every other room builds on."""

__version__ = "0.1.0"  # the package's
