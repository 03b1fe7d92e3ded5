"""Statistics of questions that chapters ask."""
