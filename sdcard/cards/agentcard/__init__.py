"""AgentCard cards (draft-aevum-agentcard-00) in three dialects of one project."""
