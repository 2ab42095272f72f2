"""The runbook's table of settings has a sentence for each. ``test_made_pages`` proves the table current."""

from issuer_service.settings import Settings
from pages.operations import described


def test_every_setting_is_described_once() -> None:
    assert list(described()) == list(Settings.model_fields)
