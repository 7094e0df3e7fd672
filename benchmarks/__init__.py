"""What the published figures come from; each is printed by one command."""
