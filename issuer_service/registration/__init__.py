"""A registration request → a registered agent and a Batch of SD-Cards."""
