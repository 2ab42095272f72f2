"""AgentCard cards (draft-aevum-agentcard-00), in three dialects.

Its own project writes and checks all three.
"""
