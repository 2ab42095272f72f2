"""What the answer to a discovery request is put together from."""

import json
import re

from sdcard.issuer import AGENT_ID


def test_what_an_answer_is_put_together_from_is_written_in_json_as_it_is() -> None:
    signed = [one for one in map(chr, range(0x10000)) if re.fullmatch(AGENT_ID, "a" + one)]
    assert json.dumps("".join([*signed, "~."])) == f'"{"".join(signed)}~."'
