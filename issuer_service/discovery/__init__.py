"""What an audience is looking for → the SD-Cards of agents that show it."""
