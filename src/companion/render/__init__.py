"""Pages: numbers, figures, assets, site, PDF."""
