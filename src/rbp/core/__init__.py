"""How files, errors, paths and processes behave: what every other room builds on."""
