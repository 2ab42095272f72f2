"""AgentCard cards (draft-aevum-agentcard-00), in the three dialects that its own project writes and checks."""
