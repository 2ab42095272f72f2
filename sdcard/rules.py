"""Every reason to refuse: id, sentence, section of the standard, and kind.

Ids are public. They are never renamed and never reused; a rule that goes away leaves its id unused.
"""

from enum import Enum, StrEnum, auto


class Kind(Enum):
    """A family of rules. A protocol gives each kind a status."""

    REFUSED = auto()  # the input was read, and it breaks the rule
    INVALID_REQUEST = auto()  # the request cannot be read, or its DPoP proof is not for it
    UNAUTHENTICATED = auto()
    FORBIDDEN = auto()
    NOT_FOUND = auto()
    CONFLICT = auto()
    TOO_LARGE = auto()
    RATE_LIMITED = auto()
    UNAVAILABLE = auto()  # another attempt later may succeed
    UNSUPPORTED = auto()
    FAILED = auto()  # a fault of the service itself


class Rule(StrEnum):
    """A reason to refuse.

    The value is the id; ``sentence`` and ``standard`` explain it to a person.
    """

    sentence: str
    standard: str
    kind: Kind

    def __new__(cls, rule_id: str, sentence: str, standard: str, kind: Kind = Kind.REFUSED) -> "Rule":
        """A member from its row; most rules are of the kind ``REFUSED``."""
        rule = str.__new__(cls, rule_id)
        rule._value_ = rule_id
        rule.sentence = sentence
        rule.standard = standard
        rule.kind = kind
        return rule

    # fmt: off
    # -- bytes and text -----------------------------------------------------------------------------------------
    BASE64URL = "encoding.base64url", "Text is not canonical base64url without padding.", "RFC 7515 2"
    UTF8 = "encoding.utf8", "Bytes are not UTF-8.", "RFC 8259 8.1", Kind.INVALID_REQUEST
    JSON_MALFORMED = "json.malformed", "Text is not JSON.", "RFC 8259 2", Kind.INVALID_REQUEST
    JSON_DUPLICATE = ("json.duplicate-member", "An object has two members with the same name.",
                      "RFC 7515 4, RFC 7519 4", Kind.INVALID_REQUEST)
    JSON_NUMBER = ("json.number", "A number cannot be represented exactly, or is NaN or infinite.",
                   "RFC 8259 6", Kind.INVALID_REQUEST)
    JSON_SURROGATE = "json.surrogate", "A string holds a lone surrogate.", "RFC 8259 8.2", Kind.INVALID_REQUEST
    JSON_DEPTH = "json.depth", "Arrays and objects are nested too deeply.", "limits", Kind.INVALID_REQUEST
    BYTE_ORDER_MARK = ("encoding.byte-order-mark", "Text begins with a byte order mark.",
                       "RFC 8259 8.1", Kind.INVALID_REQUEST)
    YAML_MALFORMED = ("yaml.malformed", "Text is neither a JSON object nor a YAML mapping.",
                      "YAML 1.2.2 5 to 9", Kind.INVALID_REQUEST)
    YAML_FEATURE = ("yaml.feature", "Text uses a YAML feature that JSON does not have.",
                    "YAML 1.2.2 3.2, 10.2", Kind.INVALID_REQUEST)
    YAML_AMBIGUOUS = ("yaml.ambiguous", "Versions of YAML parse this text differently.",
                      "YAML 1.2.2 10.3", Kind.INVALID_REQUEST)
    LIMIT_BYTES = "limit.bytes", "The input has too many bytes.", "limits", Kind.TOO_LARGE
    LIMIT_DISCLOSURES = "limit.disclosures", "There are too many Disclosures.", "limits", Kind.TOO_LARGE
    LIMIT_DIGESTS = "limit.digests", "There are too many digests.", "limits", Kind.TOO_LARGE
    LIMIT_CONTAINERS = ("limit.containers", "JSON has too many values, or too many arrays and objects.",
                        "limits", Kind.TOO_LARGE)

    # -- keys ---------------------------------------------------------------------------------------------------
    KEY_MALFORMED = "key.malformed", "The JWK is not a well-formed public key.", "RFC 7517 4, RFC 7518 6.2"
    KEY_UNSUPPORTED = "key.unsupported", "The key's type, curve, use or algorithm is not supported.", "RFC 7517 4"
    KEY_PRIVATE = "key.private", "The JWK contains private members.", "RFC 7800 3.2"
    KEY_PUBLISHED = "key.published", "The private key of this key is published.", "SD-Card T-19"
    KEY_REPEATED = "key.repeated", "The same key was given twice.", "RFC 9901 10.1"
    KEY_BOUND_ELSEWHERE = "key.bound-elsewhere", "The key cannot be bound to this agent.", "registry", Kind.CONFLICT

    # -- JWS ----------------------------------------------------------------------------------------------------
    JWS_FORMAT = "jws.format", "Text is not a compact JWS of three non-empty parts.", "RFC 7515 7.1"
    JWS_HEADER = "jws.header", "A header parameter is missing, repeated, or of the wrong type.", "RFC 7515 4, 7.2.1"
    JWS_ALG = "jws.alg", "The header's `alg` is not the algorithm of the key.", "RFC 8725 3.1"
    JWS_CRIT = "jws.crit", "A critical header parameter is not supported.", "RFC 7515 4.1.11"
    JWS_TYP = "jws.typ", "The token has another type than expected.", "RFC 8725 3.11"
    JWS_SIGNATURE = "jws.signature", "The signature is not valid.", "RFC 7515 5.2"

    # -- RFC 9901 -----------------------------------------------------------------------------------------------
    SD_JWT_FORMAT = "sd-jwt.format", "Text is not an SD-JWT.", "RFC 9901 4, 8"
    KB_MISSING = "kb.missing", "A KB-JWT is required, but missing.", "RFC 9901 7.3"
    KB_UNEXPECTED = "kb.unexpected", "A KB-JWT is present, but not expected.", "RFC 9901 7.2, 7.3"
    SD_ALG = "sd.alg", "The digest algorithm is not supported.", "RFC 9901 4.1.1, 7.1"
    SD_RESERVED_NAME = "sd.reserved-name", "A reserved name is used as an ordinary claim name.", "RFC 9901 4.1, 4.1.1"
    SD_DIGEST_LIST = "sd.digest-list", "`_sd` is not an array of strings.", "RFC 9901 4.2.4.1"
    SD_PLACEHOLDER = ("sd.placeholder",
                      "`...` is not the only member of an array element, or its value is not a digest.",
                      "RFC 9901 4.2.4.2")
    DIGEST_REPEATED = "digest.repeated", "A digest occurs more than once.", "RFC 9901 7.1"
    DISCLOSURE_FORMAT = ("disclosure.format", "A Disclosure is not an array of a salt, an optional name, and a value.",
                         "RFC 9901 4.2.1, 4.2.2")
    DISCLOSURE_KIND = ("disclosure.kind",
                       "A Disclosure for a claim is used for an array element, or the other way round.", "RFC 9901 7.1")
    DISCLOSURE_NAME = "disclosure.name-reserved", "A Disclosure uses a reserved name.", "RFC 9901 7.1"
    DISCLOSURE_COLLISION = ("disclosure.claim-exists", "A Disclosure names a claim that already exists.",
                            "RFC 9901 7.1")
    DISCLOSURE_REPEATED = "disclosure.repeated", "The same Disclosure was given twice.", "RFC 9901 7.1"
    DISCLOSURE_UNREFERENCED = "disclosure.unreferenced", "No digest refers to this Disclosure.", "RFC 9901 7.1"
    CLAIM_MISSING = "claim.missing", "A required claim is missing.", "RFC 9901 7.1, 9.7"
    CLAIM_TYPE = "claim.type", "A claim has the wrong type.", "RFC 7519 4.1"
    CLAIM_VALUE = "claim.value", "A claim has an invalid value.", "RFC 7519 4.1, RFC 9901 4.3"
    CLAIM_NOT_IN_CLEAR = ("claim.not-in-clear", "A claim that must be in the clear is selectively disclosable.",
                          "RFC 9901 9.7, SD-JWT VC 2.2.2.2")
    EXPIRED = "time.expired", "The SD-Card has expired.", "RFC 7519 4.1.4"
    NOT_YET_VALID = "time.not-yet-valid", "The SD-Card is not valid yet.", "RFC 7519 4.1.5"
    LIFETIME = "time.lifetime", "The SD-Card has a longer lifetime than is accepted here.", "policy"
    ISSUED_IN_FUTURE = "time.issued-in-future", "The SD-Card was issued in the future.", "RFC 7519 4.1.6"
    TOKEN_AUDIENCE = "audience.mismatch", "The SD-Card is for another audience.", "RFC 7519 4.1.3"
    CNF = "cnf.malformed", "`cnf` does not hold exactly one usable key.", "RFC 7800 3.1, 3.2"
    CNF_OTHER_KEY = "cnf.other-key", "The SD-Card is bound to another key than the Holder's.", "RFC 9901 7.2"

    # -- key binding --------------------------------------------------------------------------------------------
    KB_STALE = "kb.stale", "The KB-JWT was created too long ago.", "RFC 9901 7.3"
    KB_FROM_FUTURE = "kb.from-future", "The KB-JWT was created in the future.", "RFC 9901 7.3"
    KB_NONCE = "kb.nonce-mismatch", "The KB-JWT answers another challenge.", "RFC 9901 7.3"
    KB_AUDIENCE = "kb.audience-mismatch", "The KB-JWT is for another audience.", "RFC 9901 7.3"
    KB_SD_HASH = "kb.sd-hash", "The KB-JWT was made for another SD-JWT.", "RFC 9901 4.3.1, 7.3"
    KB_INTERACTION = "kb.interaction-id", "The KB-JWT belongs to another interaction.", "SD-Card 5.2.2"
    KB_REPLAYED = "kb.replayed", "The KB-JWT was presented before.", "RFC 9901 7.3, 9.5"
    KB_RECORD = ("kb.record-unavailable", "It cannot be determined whether the KB-JWT was presented before.",
                 "RFC 9901 9.5", Kind.UNAVAILABLE)
    KB_CHALLENGE_EXPIRED = ("kb.challenge-expired", "The challenge that the KB-JWT answers has expired.",
                            "RFC 9901 7.3")
    KB_PURPOSE = "kb.purpose", "The nonce was made for another purpose.", "RFC 9901 9.5, SD-Card 5.2"
    KB_OTHER_REQUEST = "kb.other-request", "The KB-JWT answers the challenge to another request.", "RFC 9901 7.3"
    PRESENTATION_MISSING = ("presentation.missing", "A presentation of an SD-Card is required.",
                            "RFC 9110 11.6.1, 15.5.2")
    CHALLENGE_MALFORMED = "challenge.malformed", "The challenge does not have the documented shape.", "RFC 9110 11.6.1"
    CHALLENGE_AUDIENCE = ("challenge.other-audience", "The challenge has the audience of another server.",
                          "RFC 9901 7.3")
    CHALLENGE_INTERACTION = ("challenge.other-interaction",
                             "The challenge belongs to another interaction than the request.", "SD-Card 5.2.2")

    # -- the agent that is called -------------------------------------------------------------------------------
    AGENT_PROOF_MISSING = "agent-proof.missing", "The called agent did not prove itself.", "SD-Card 5.2"
    AGENT_PROOF_MALFORMED = ("agent-proof.malformed", "The response does not have exactly one proof of the agent.",
                             "SD-Card 5.2")
    AGENT_PROOF_AUDIENCE = "agent-proof.audience", "The agent does not answer this audience.", "SD-Card 5.2.2"
    AGENT_PROOF_SERVICE = "agent-proof.service", "The agent does not answer through this Service.", "SD-Card 2.1"
    AGENT_PROOF_TARGET = ("agent-proof.target", "The challenge is for another request.",
                          "SD-Card 5.2")
    AGENT_PROOF_OTHER = "agent-proof.other-agent", "Another agent answered than expected.", "SD-Card 5.2"

    # -- DPoP ---------------------------------------------------------------------------------------------------
    DPOP_MISSING = ("dpop.missing", "A DPoP proof is required, but missing.",
                    "RFC 9449 4.3, 7.2", Kind.INVALID_REQUEST)
    DPOP_REPEATED = "dpop.repeated", "There is more than one DPoP proof.", "RFC 9449 4.3", Kind.INVALID_REQUEST
    DPOP_METHOD = "dpop.method", "The DPoP proof is for another method.", "RFC 9449 4.3", Kind.INVALID_REQUEST
    DPOP_URL = "dpop.url", "The DPoP proof is for another URL.", "RFC 9449 4.3", Kind.INVALID_REQUEST
    DPOP_STALE = "dpop.stale", "The DPoP proof was created too long ago.", "RFC 9449 4.3, 11.1", Kind.INVALID_REQUEST
    DPOP_FROM_FUTURE = ("dpop.from-future", "The DPoP proof was created in the future.",
                        "RFC 9449 4.3, 11.1", Kind.INVALID_REQUEST)
    DPOP_TOKEN_HASH = ("dpop.token-hash", "The DPoP proof was made for another access token.",
                       "RFC 9449 4.3", Kind.INVALID_REQUEST)
    DPOP_OTHER_KEY = ("dpop.other-key", "The access token is bound to another key than the proof's.",
                      "RFC 9449 4.3, 6", Kind.INVALID_REQUEST)
    DPOP_UNBOUND = ("dpop.token-unbound", "The access token is not bound to exactly one key.",
                    "RFC 9449 6.1, 7.1", Kind.INVALID_REQUEST)
    DPOP_NONCE = ("dpop.nonce", "The DPoP proof has no nonce of this server that is still valid.",
                  "RFC 9449 8, 9", Kind.INVALID_REQUEST)
    DPOP_REPLAYED = "dpop.replayed", "The DPoP proof was used before.", "RFC 9449 11.1", Kind.INVALID_REQUEST
    DPOP_RECORD = ("dpop.record-unavailable", "It cannot be determined whether the DPoP proof was used before.",
                   "RFC 9449 11.1", Kind.UNAVAILABLE)

    # -- trust, profile, status ---------------------------------------------------------------------------------
    ISSUER_UNKNOWN = "issuer.unknown", "The Issuer is not trusted.", "RFC 9901 7.1, SD-Card 7.2"
    ISSUER_KEY_UNKNOWN = "issuer.key-unknown", "The trusted Issuer has no such key.", "RFC 9901 7.1"
    X5C_FORMAT = "x5c.format", "`x5c` is not a chain of 1 to 4 certificates.", "RFC 7515 4.1.6"
    X5C_CHAIN = ("x5c.chain", "The certificates do not lead to a root that is trusted for the Issuer.",
                 "RFC 5280 6, SD-JWT VC (VC-10, VC-11)")
    X5C_NAME = "x5c.name", "The certificate does not name the Issuer.", "SD-JWT VC (VC-10)"
    TRUST_MALFORMED = "trust.malformed", "The trust document is not well-formed.", "trust"
    TRUST_EXPIRED = "trust.expired", "The trust document has expired.", "trust", Kind.UNAVAILABLE
    TRUST_SIGNER = "trust.signer-unknown", "The trust list is not signed with a pinned key.", "trust"
    ISSUER_METADATA = ("issuer.metadata-unavailable", "The current keys of the trusted Issuer cannot be fetched.",
                       "SD-JWT VC, issuer metadata (VC-13, VC-14)", Kind.UNAVAILABLE)
    VCT = "profile.vct", "The profile does not accept this `vct`.", "SD-Card 3.1"
    STATUS_MALFORMED = "status.malformed", "The `status` claim is not a status list reference.", "Token Status List 6"
    STATUS_REVOKED = "status.revoked", "The SD-Card was revoked.", "Token Status List 7.1"
    STATUS_SUSPENDED = "status.suspended", "The SD-Card is suspended.", "Token Status List 7.1"
    STATUS_UNAVAILABLE = ("status.unavailable", "The status could not be checked.",
                          "Token Status List 8.3", Kind.UNAVAILABLE)
    STATUS_LIST_MALFORMED = ("status-list.malformed", "The status list is not correctly packed and compressed.",
                             "Token Status List 4")
    STATUS_LIST_OTHER = ("status-list.other", "The status list is not the one that the SD-Card refers to.",
                         "Token Status List 8.3")
    STATUS_LIST_TIME = ("status-list.time", "Past versions of a status list are not stored.",
                        "Token Status List 8.4", Kind.UNSUPPORTED)

    # -- transparency log ---------------------------------------------------------------------------------------
    LOG_PROOF_MISSING = ("log.proof-missing", "A proof that the SD-Card is in the transparency log is required.",
                         "decision 0048")
    LOG_PROOF = "log.proof-malformed", "Text is not a proof of inclusion in a transparency log.", "C2SP tlog-proof"
    LOG_CHECKPOINT = ("log.checkpoint-malformed", "Text is not a signed checkpoint of a transparency log.",
                      "C2SP signed-note, tlog-checkpoint")
    LOG_POLICY = ("log.policy-malformed", "The policy of logs and witnesses does not have the documented shape.",
                  "C2SP tlog-policy")
    LOG_UNKNOWN = "log.unknown", "The policy does not list this transparency log.", "C2SP tlog-policy"
    LOG_SIGNATURE = ("log.signature", "The log did not sign the checkpoint, or a signature is not valid.",
                     "C2SP signed-note")
    LOG_WITNESSES = "log.witnesses", "Too few witnesses cosigned the checkpoint.", "C2SP tlog-policy, tlog-cosignature"
    LOG_INCLUSION = ("log.inclusion", "The proof does not show that the checkpoint includes the leaf.",
                     "RFC 9162 2.1.3.2")
    LOG_CONSISTENCY = ("log.consistency", "The newer checkpoint does not only append to the older one.",
                       "RFC 9162 2.1.4.2")
    LOG_ROLLED_BACK = "log.rolled-back", "The log shows a smaller tree than before.", "C2SP tlog-checkpoint"
    LOG_SPLIT_VIEW = "log.split-view", "The log signed two different trees of one size.", "C2SP tlog-checkpoint"
    LOG_SILENT = "log.silent", "The log made no new checkpoint for too long.", "decision 0048", Kind.UNAVAILABLE
    LOG_CARD_MISSING = "log.card-missing", "An SD-Card of the Holder is not in the log.", "decision 0048"
    LOG_PROMISE_BROKEN = "log.promise-broken", "The registry promised a leaf that the log lacks.", "decision 0048"
    LOG_LEAF_UNKNOWN = "log.leaf-unknown", "The log has a leaf that the agent's Holder does not know.", "decision 0048"
    LOG_SUBMISSION = ("log.submission", "The request to a witness does not have the documented shape.",
                      "C2SP tlog-witness")
    LOG_CLOCK = ("log.clock", "The clock of the witness is behind its last cosignature.", "C2SP tlog-cosignature",
                 Kind.UNAVAILABLE)
    LOG_TILE = "log.tile", "A tile or bundle does not have the documented shape.", "C2SP tlog-tiles"

    FETCH_ADDRESS = "fetch.address", "The address must not be fetched.", "SD-JWT VC (VC-14), RFC 6890"
    FETCH_ABSENT = "fetch.absent", "There is no document at the address.", "RFC 9110 15.5.5"
    FETCH_FAILED = "fetch.failed", "The document at the address could not be fetched.", "SD-JWT VC (VC-14)"

    # -- cards and what they may show ---------------------------------------------------------------------------
    CARD_FORMAT = "card.format", "The document is not an agent card of a known format.", "A2A"
    CARD_MEMBER_MISSING = "card.member-missing", "A required member is missing.", "A2A AgentCard"
    CARD_MEMBER_TYPE = "card.member-type", "A member has the wrong type.", "A2A AgentCard"
    CARD_MEMBER_VALUE = "card.member-value", "A member has an invalid value.", "A2A AgentCard"
    CARD_MEMBER_UNKNOWN = "card.member-unknown", "A member is not part of the format; it is kept.", "A2A AgentCard"
    CARD_AMBIGUOUS = "card.ambiguous", "The document can be read in two ways.", "A2A AgentCard"
    CARD_RESERVED = ("card.reserved-member", "A member has the name of a claim with another meaning.",
                     "RFC 9901 4.1, SD-Card T-30")
    CARD_SIGNATURES = ("card.signatures", "Card signatures cover the whole card, so no SD-Card contains them.",
                       "A2A 8.4, SD-Card T-32")
    CARD_SECRET = "card.secret", "A value looks like a key, a token or a password.", "SD-Card 7.4.3 (SDC-25)"
    CARD_PERSONAL = "card.personal-data", "A value looks like personal data.", "SD-Card 7.4.3 (SDC-25)"
    CARD_INTERNAL_HOST = ("card.internal-host", "A host is reachable from an internal network only.",
                          "SD-Card 7.4.3 (SDC-25)")
    CARD_SIGNATURE_VERIFIED = "card.signature-verified", "A trusted key signed the card.", "A2A 1.0 8.4.3"
    CARD_SIGNATURE_UNTRUSTED = ("card.signature-untrusted", "No trusted key can verify a signature of the card.",
                                "A2A 1.0 8.4.3, RFC 8725 3.10")
    CARD_SIGNATURE_INVALID = ("card.signature-invalid",
                              "A signature of the card names a trusted key, but is not valid.",
                              "A2A 1.0 8.4.3, RFC 7515 5.2")
    CARD_UNSIGNED_MEMBER = ("card.unsigned-member", "The card's signature does not cover this member.",
                            "A2A 1.0 8.4.1")
    CARD_UNSIGNABLE = ("card.not-signable", "No standard says how a card of this version is signed.",
                       "A2A 1.0 8.4.1")
    CARD_LOST = "card.lost-in-conversion", "The conversion loses a member.", "A2A AgentCard"
    CARD_UNCONVERTIBLE = ("card.not-convertible", "The card cannot be converted to a valid card of the other format.",
                          "A2A AgentCard")
    CARD_INCOMPLETE = "card.incomplete", "Members that the card's format requires are not disclosed.", "SD-Card T-31"
    AGENTCARD_COST_FLOOR = ("agentcard.cost-floor", "A cost is not zero, but below 2.854e-21 J (the Landauer limit).",
                            "AgentCard draft-00 2.6.1 (AEV-13)")
    AGENTCARD_SELF_DECLARED = ("agentcard.self-declared",
                               "An agent cannot state its own reputation or trust level.",
                               "AgentCard draft-00 8.4 (AEV-21)")
    AGENTCARD_DIALECT = ("agentcard.dialect", "AgentCard has several dialects; this card may follow another one.",
                         "AgentCard draft-00 2 (AEV-23)")
    AGENTCARD_FETCHED = ("agentcard.fetched-otherwise",
                         "The endpoint has another scheme than the card's address.",
                         "AgentCard draft-00 8.5 (AEV-20)")
    FETCHED_UNBOUND = ("fetched.unbound", "The server is perhaps not the Holder: anyone can copy a published card.",
                       "RFC 9901 9.5")
    FETCHED_UNSIGNED = "fetched.unsigned", "The card is not signed: it is not an SD-Card.", "SD-Card 5.1"
    FETCHED_ELSEWHERE = ("fetched.elsewhere", "The endpoint of the card is at another host than the card.",
                         "SD-Card 5.1")
    DOMAIN_HOST = "domain.host", "Control of this host cannot be proved.", "SD-Card 3.3.1 step 2"
    DOMAIN_PENDING = "domain.pending", "Control of the host was not checked recently.", "SD-Card 3.3.1 step 2"
    DOMAIN_ABSENT = "domain.absent", "The host publishes no proof.", "SD-Card 3.3.1 step 2"
    DOMAIN_OTHER = ("domain.other", "The host's values are for another registry, owner, host or key.",
                    "SD-Card 3.3.1 step 2")
    DOMAIN_WILDCARD = "domain.wildcard", "The proof is in a DNS wildcard, which names no host.", "RFC 4592 2"
    DOMAIN_DNS = "domain.dns", "The DNS look-up failed.", "RFC 1035 4.1.1"
    CARD_PUBLISHED = ("card.published-otherwise", "The published card differs from the registered card.",
                      "AgentCard draft-00 4 (AEV-19)")
    CONTEXT_UNKNOWN = "context.unknown", "There is no such disclosure context.", "SD-Card 3.3.1"
    CONTEXT_REPEATED = "context.repeated", "The disclosure context was given twice.", "SD-Card 3.3.1"
    PATH_MALFORMED = "path.malformed", "Text is not a claim path.", "SD-JWT VC 4.6"
    DISCLOSE_UNKNOWN = "disclose.unknown", "There is no such claim or claim group.", "SD-Card 3.3.1"
    DISCLOSE_BEYOND_CEILING = "disclose.beyond-ceiling", "This context never shows this claim.", "policy"
    POLICY_TOML = "policy.toml", "Text is not TOML.", "TOML 1.0"
    POLICY_MALFORMED = "policy.malformed", "The policy does not have the documented shape.", "policy"
    POLICY_AMBIGUOUS = "policy.ambiguous", "Two parts of the policy contradict or repeat each other.", "policy"
    POLICY_ALWAYS = "policy.always-disclosed", "Every SD-Card shows this member in the clear.", "SD-Card 3.1"
    POLICY_CONTAINMENT = ("policy.containment", "A context does not show all claims of a context in its `contains`.",
                          "policy")
    AGREEMENT_UNEXPECTED = "agreement.unexpected", "A partner is named, but no agreement is required.", "policy"
    AGREEMENT_NONE = "agreement.none-in-force", "No agreement with this partner is in force.", "policy"
    DISCLOSE_EMPTY = "disclose.nothing-behind", "The card has no claim for this entry.", "policy"
    SELECTION_COARSE = ("selection.too-coarse", "A Disclosure that must be shown also shows a withheld claim.",
                        "RFC 9901 7.2")
    SELECTION = "selection.not-held", "The SD-Card has no such claim.", "RFC 9901 7.2"
    POLICY_FORMAT = "policy.format", "The card's format is not admitted here.", "policy"
    POLICY_CLAIM = "policy.claim-missing", "A required claim was not disclosed.", "policy"
    POLICY_SKILL = "policy.skill-missing", "A required skill was not disclosed.", "policy"
    POLICY_CHECK = ("policy.check-missing", "The Issuer does not confirm a check that is required here.",
                    "policy, decision 0045")
    POLICY_SPIFFE_ID = ("policy.spiffe-id-missing", "A required SPIFFE ID was not disclosed.",
                        "policy, decision 0051")

    # -- registry -----------------------------------------------------------------------------------------------
    REQUEST = "request.malformed", "The request does not have the documented shape.", "registry"
    REQUEST_TARGET = "request.not-found", "There is no resource at this path.", "RFC 9110 15.5.5", Kind.NOT_FOUND
    REQUEST_METHOD = "request.method", "This path does not support this method.", "RFC 9110 15.5.6"
    REQUEST_MEDIA_TYPE = "request.media-type", "The media type of the body is not supported.", "RFC 9110 15.5.16"
    REQUEST_TIMEOUT = "request.timeout", "The body did not arrive in time.", "RFC 9110 15.5.9"
    AGENT_ID = "agent-id.malformed", "The agent id is not 1 to 128 letters, digits, `.`, `_` and `-`.", "registry"
    AGENT_VERSION = ("agent.version-reused",
                     "The agent is registered with another card of this version; give the changed card a new version.",
                     "registry", Kind.CONFLICT)
    AGENT_OWNED = "agent.taken", "The agent id is not available.", "registry", Kind.CONFLICT
    AGENT_UNKNOWN = "agent.unknown", "The caller has no agent with this id.", "registry", Kind.NOT_FOUND
    AGENT_CARDS = "agent.no-such-cards", "The agent has no SD-Card of this kind.", "registry", Kind.NOT_FOUND
    AGENT_NOT_RENEWABLE = ("agent.not-renewable",
                           "The registry did not store the request of this agent; register it again.",
                           "registry", Kind.CONFLICT)
    PROOF_MISSING = "proof.missing", "Proof of possession of the Holder key is required.", "SD-Card T-26"
    PROOF_STALE = "proof.stale", "The proof of possession was created too long ago.", "SD-Card T-26"
    PROOF_FROM_FUTURE = "proof.from-future", "The proof of possession was created in the future.", "SD-Card T-26"
    PROOF_AUDIENCE = "proof.audience-mismatch", "The proof of possession is for another registry.", "SD-Card T-26"
    PROOF_AGENT = "proof.agent-mismatch", "The proof of possession is for another agent.", "SD-Card T-26"
    PROOF_NONCE = ("proof.nonce", "The proof's nonce was not issued to this caller, was used, or has expired.",
                   "SD-Card T-26")
    IDEMPOTENCY_REUSED = ("idempotency.other-request", "The Idempotency-Key was used with another request.",
                          "registry, decision 0010")
    IDEMPOTENCY_UNREADABLE = ("idempotency.unreadable",
                              "The request was executed before, but its response cannot be repeated.",
                              "registry, decision 0010", Kind.CONFLICT)
    CURSOR = "cursor.invalid", "The cursor does not belong to this query, or has expired.", "registry"
    CARD_DISAGREES = "card.disagrees", "The card and the request contradict each other.", "registry"
    TOKEN_MISSING = "token.missing", "A bearer token is required.", "RFC 6750 3.1", Kind.UNAUTHENTICATED
    TOKEN_INVALID = "token.invalid", "The bearer token is unknown or has expired.", "RFC 6750 3.1", Kind.UNAUTHENTICATED
    TOKEN_SCOPE = "token.scope", "The scope of the bearer token does not permit this.", "RFC 6750 3.1", Kind.FORBIDDEN
    TOKEN_LIMIT = "token.limit", "The limits of the bearer token do not permit this.", "registry", Kind.FORBIDDEN
    STORE_UNAVAILABLE = ("store.unavailable", "The registry cannot reach its database; try again later.",
                         "registry", Kind.UNAVAILABLE)
    STORE_SLOW = ("store.slow",
                  "This query takes too long; ask for less, or try again later.",
                  "registry, decision 0022", Kind.UNAVAILABLE)
    STORE_BEHIND = ("store.behind",
                    "The replica that answers this query is too far behind; try again later.",
                    "registry, decision 0052", Kind.UNAVAILABLE)
    AUDIT_RECORD = "audit.record-malformed", "An audit record cannot be read.", "audit"
    AUDIT_CHANGED = "audit.record-changed", "An audit record does not match its digest.", "audit"
    AUDIT_MISSING = "audit.record-missing", "An audit record is missing.", "audit"
    AUDIT_ORDER = "audit.out-of-order", "An audit record is out of order.", "audit"
    AUDIT_LINK = "audit.link-broken", "An audit record does not follow the record before it.", "audit"
    AUDIT_HEAD = "audit.head-differs", "The audit chain does not end at its head.", "audit"
    AUDIT_CHECKPOINT = "audit.checkpoint-differs", "A checkpoint has another audit record at this place.", "audit"
    AUDIT_ROLLED_BACK = "audit.rolled-back", "A checkpoint has audit records beyond the end of the chain.", "audit"
    AUDIT_STATE_CHANGED = "audit.state-changed", "A row of the database differs from the audit chain.", "audit"
    AUDIT_STATE_MISSING = "audit.state-missing", "A row that the audit chain contains is missing.", "audit"
    AUDIT_STATE_ADDED = "audit.state-added", "A row exists that the audit chain does not contain.", "audit"
    SIGNER_UNAVAILABLE = ("signer.unavailable", "The signing key is unavailable; try again later.",
                          "registry", Kind.UNAVAILABLE)
    TOKEN_KEYS = ("token.keys-unavailable",
                  "The identity provider's keys are unavailable, so its tokens cannot be verified.",
                  "RFC 9068 4", Kind.UNAVAILABLE)
    RATE_EXCEEDED = "rate.exceeded", "There were too many requests; try again later.", "RFC 6585 4", Kind.RATE_LIMITED
    CONSOLE_FORGED = ("console.forged", "The request does not come from a page of this session.",
                      "registry", Kind.FORBIDDEN)
    NOT_READY = "registry.not-ready", "A part of the registry does not work.", "registry", Kind.UNAVAILABLE
    REGISTRY_FAILED = "registry.failed", "The registry failed; this is an internal error.", "registry", Kind.FAILED
    REQUEST_NOT_ACCEPTABLE = ("request.not-acceptable",
                              "No document here has a media type that the request accepts.",
                              "RFC 9110 12.5.1, 15.5.7")

    # -- delegation ---------------------------------------------------------------------------------------------
    DELEGATION_GRANT_TYPE = "delegation.grant-type", "Only the token exchange grant is supported.", "RFC 6749 5.2"
    DELEGATION_TOKEN_TYPE = "delegation.token-type", "Tokens of this type are not exchanged.", "RFC 8693 2.1, 3"
    DELEGATION_TARGET = "delegation.target", "The target is not one agent.", "RFC 8693 2.2.2"
    DELEGATION_SUBJECT = "delegation.other-agent", "The token is for an agent that is not the caller's.", "RFC 8693 2.1"
    DELEGATION_NO_GRANT = "delegation.no-grant", "No grant permits these scopes for this target.", "registry"
    DELEGATION_SCOPE = ("delegation.scope", "The subject token or the grant lacks a scope.",
                        "RFC 8693 2.1, SD-Card 7.3")
    DELEGATION_CYCLE = "delegation.cycle", "The target is already in the chain of actors.", "SD-Card 7.3"
    DELEGATION_DEPTH = "delegation.too-deep", "The chain of actors is too long.", "SD-Card 7.3"
    DELEGATION_ACT = "delegation.act", "The `act` claim is not a valid actor chain.", "RFC 8693 4.1"
    DELEGATION_MAY_ACT = ("delegation.may-act", "`may_act` of the subject token does not permit this actor.",
                          "RFC 8693 4.4")
    DELEGATION_INTERACTION = "delegation.interaction-id", "The chain is of another interaction.", "SD-Card 5.2.2, 7.3"
    DELEGATION_REVOKED = "delegation.revoked", "A token of the chain is revoked or unknown.", "SD-Card 7.3"
    DELEGATION_GRANT_ENDED = "delegation.grant-ended", "A grant of the chain was removed, or has ended.", "SD-Card 7.3"
    DELEGATION_AGENT_ENDED = ("delegation.agent-ended", "The SD-Card of an agent in the chain is no longer valid.",
                              "SD-Card 7.3")
    APPROVAL_PENDING = "approval.pending", "A person must approve this first.", "SD-Card 7.3, 3.3.1"
    APPROVAL_OTHER = "approval.other", "The approval is for another request, or does not exist.", "SD-Card 7.3"
    APPROVAL_USED = "approval.used", "The approval was already used.", "SD-Card 7.3"
    APPROVAL_DENIED = "approval.denied", "A person denied this.", "SD-Card 7.3, 3.3.1"
    APPROVAL_EXPIRED = "approval.expired", "The time to approve and use this has passed.", "SD-Card 7.3"
    APPROVAL_DECIDED = ("approval.decided", "There is no pending approval with this id.",
                        "SD-Card 7.3, 3.3.1", Kind.NOT_FOUND)
    APPROVAL_SELF = ("approval.self", "A party of this request cannot approve it.",
                     "SD-Card 7.3, 3.3.1", Kind.FORBIDDEN)
    # fmt: on
