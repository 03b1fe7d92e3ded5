"""Elsewhere: text, images and tries by one question, one theory of k, and the law in k."""
