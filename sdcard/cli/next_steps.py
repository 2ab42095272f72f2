"""Next steps on the command line for a refusal.

The rule says what is wrong. The next step says what to try.

Rules that have no entry say it themselves, or there is nothing to do: a presentation that is forged stays refused.
"""

from typing import Final

from sdcard.rules import Rule

NEXT_STEPS: Final = {
    Rule.SELECTION: "`sdcard inspect` lists the places that the SD-Card has.",
    Rule.CNF_OTHER_KEY: "Give the key that it was registered with; `sdcard agents change-keys` binds others.",
    Rule.KB_MISSING: "`sdcard present` makes a presentation; to read an SD-Card without one, give --unbound REASON.",
    Rule.KB_UNEXPECTED: "This is a presentation: give --audience and --nonce instead of --unbound.",
    Rule.EXPIRED: "`sdcard agents renew` has new SD-Cards made.",
    Rule.ISSUER_UNKNOWN: "`sdcard register` writes a trust document for its registry: trust.json.",
    Rule.ISSUER_KEY_UNKNOWN: "--refresh asks a trusted Issuer for the keys that it has now.",
    Rule.TRUST_MALFORMED: "`sdcard register` writes such a document: trust.json.",
    Rule.TOKEN_MISSING: "Give one in SDCARD_TOKEN or --token-file; `sdcard token create` makes one.",
    Rule.TOKEN_INVALID: "`sdcard token create` makes one, in the folder, or with the settings, of this registry.",
    Rule.TOKEN_SCOPE: "`sdcard token create --scope …` makes one that may.",
    Rule.TOKEN_LIMIT: "`sdcard token create` makes one with other limits.",
    Rule.AGENT_UNKNOWN: "`sdcard agents list` shows those of this token.",
    Rule.APPROVAL_DECIDED: "`sdcard approvals list` shows what waits.",
    Rule.FETCH_ADDRESS: "--network NETWORK names one that is meant, such as 127.0.0.1.",
    Rule.STORE_UNAVAILABLE: "Which database it is, SDCARD_DATABASE_URL or --database-url says.",
}
"""Rule → a sentence, of commands and options that there are."""
