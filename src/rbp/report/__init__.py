"""Pages that open offline: of `rbp law` and `rbp compare`."""
