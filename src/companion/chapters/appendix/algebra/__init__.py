"""Check appendix C of the paper: its equations by computer algebra, and its terms in numbers."""
