"""A stranger's attack: link agents, and guess hidden members of their cards."""
