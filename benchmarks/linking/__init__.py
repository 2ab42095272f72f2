"""An attacker who sees what strangers see, and tries to link agents and to guess what their cards hide."""
