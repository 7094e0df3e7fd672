"""Puts the judge of `agent` behind the surfaces of `server`, which do not know each other."""
