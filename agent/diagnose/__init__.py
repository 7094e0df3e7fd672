"""Diagnose: what holds a kernel up, by rules over its profile, and the techniques that answer."""
