"""Attention with any elementwise function of its scores, in one kernel that never stores them."""
