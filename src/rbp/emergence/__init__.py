"""Success on N tokens in a row (section 5.1 of the paper): windows, laws of their success, and what tokens share."""
