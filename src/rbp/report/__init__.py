"""Pages and tables that say what was found: of a law, and of a comparison."""
