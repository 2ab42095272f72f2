"""KNO agent cards (agent-card-schema 0.1.0 to 0.2.1), the source of A2A cards."""
