"""KNO agent cards (agent-card-schema 0.1.0 to 0.2.1): YAML files that A2A cards are derived from."""
