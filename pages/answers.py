"""Answers to each row of the standards' lists, one line a row.

``row | answer | where in the code | test | note``.

R, VC and HAIP rows are not here: docstrings cite them, and ``docs/rules.md`` follows from that. A place is a file, or a
function, class or constant of it. Tests check that places and tests exist, and that no row is missing or added.
"""

ANSWERS = {
    "met": "as it is written",
    "stricter": "more is demanded, or less is accepted",
    "otherwise": "in another way, which the note says",
    "partly": "some of it; the note says what not",
    "no": "not done; the note says why",
    "others": "for others to do: an operator, a caller, a host",
}
"""Answer → what it means."""

SD_CARD = """
SDC-1 | met | sdcard/io/published_keys.py:IssuerKeys issuer_service/wellknown.py:issuer_metadata | tests/sdcard/io/test_published_keys.py tests/issuer_service/test_wellknown.py | Resolving refreshes the keys of a listed Issuer, and never makes one trusted.
SDC-2 | met | sdcard/issuer.py:prepare_sd_card issuer_service/agents/registration.py:issue | tests/issuer_service/agents/test_lifecycle.py | `sub` is `agent:` and the agent's id, unless the operator chose [pairwise subjects](linkability.md#pairwise-subjects).
SDC-3 | met | sdcard/issuer.py:Validity sdcard/instants.py:parse_numeric_date sdcard/acceptance.py:check_terms | tests/sdcard/sdjwt/test_verification.py | Whole seconds are written. A fraction is read; a bool or a string is not.
SDC-4 | met | sdcard/acceptance.py:check_issued sdcard/profile.py:SD_CARD | tests/sdcard/test_acceptance.py |
SDC-5 | met | sdcard/jose/claims.py:parse_confirmed_key sdcard/jose/keys.py:parse_public_jwk | tests/sdcard/sdjwt/test_verification.py tests/sdcard/jose/test_keys.py |
SDC-6 | met | sdcard/profile.py:NEVER_SELECTIVE sdcard/cards/a2a/shared.py | tests/sdcard/cards/a2a/test_shared.py tests/sdcard/test_profile.py | For A2A cards. AgentCard and KNO show an id always, and `description` selectively; `url` is selective but in the profile `agent-sd-jwt-02`.
SDC-7 | met | sdcard/policy/context.py sdcard/cards/a2a/shared.py | tests/sdcard/cards/a2a/test_shared.py tests/sdcard/policy/test_plan.py | By element and member too, not only whole claims.
SDC-8 | met | sdcard/policy/context.py:INTERNAL sdcard/cards/a2a/shared.py | tests/sdcard/cards/a2a/test_shared.py tests/sdcard/policy/test_plan.py | Operational information: from *internal* on, and in *public* where a registration asks for it.
SDC-9 | met | sdcard/sdjwt/model.py:make_disclosure sdcard/sdjwt/issuance.py:embed | tests/sdcard/sdjwt/test_model.py tests/sdcard/sdjwt/test_issuance.py |
SDC-10 | met | issuer_service/access.py:check_limits sdcard/possession.py:verify_possession issuer_service/agents/checks.py:find_unproved issuer_service/reviews/records.py:needs_approval | tests/issuer_service/test_access.py tests/issuer_service/agents/test_nonces.py tests/issuer_service/agents/test_checks.py tests/issuer_service/reviews/test_service.py | A token limits what its owner may register. Settings demand proof of possession, control of the hosts, and approval by a person; all three are off by default.
SDC-11 | met | sdcard/issuer.py:prepare_batch | tests/sdcard/test_issuer.py |
SDC-12 | met | sdcard/web/publish.py:CardApp | tests/sdcard/web/test_publish.py |
SDC-13 | partly | sdcard/web/mcp.py:InteractionClient issuer_service/audit/records.py:AuditRow | tests/sdcard/cli/test_mcp.py | Interaction ids, where a caller names one. MCP sessions are not correlated: the present protocol has none: [limitations](not-supported.md#mcp).
SDC-14 | met | sdcard/policy/context.py sdcard/policy/model.py issuer_service/access.py:check_context | tests/sdcard/policy/test_plan.py tests/sdcard/policy/test_model.py | The role is the limit `contexts` of a token.
SDC-15 | met | issuer_service/delegation/service.py:exchange | tests/issuer_service/delegation/test_endpoints.py tests/issuer_service/delegation/test_service.py | A scope is what an operator granted; the id of a skill is none.
SDC-16 | met | sdcard/trust.py:TrustedIssuers.key_for | tests/sdcard/test_trust.py |
SDC-17 | met | sdcard/key_binding.py:verify_key_binding sdcard/verifier.py:verify_proved_async sdcard/bound_tokens.py:DpopServer | tests/issuer_service/test_tokens.py tests/sdcard/web/test_publish_bound.py tests/sdcard/web/test_authenticate_dpop.py | At every route of the registry that takes a token, at published cards, and for an SD-Card without a KB-JWT at guarded routes. Not at `GetExtendedAgentCard`, whose SDK passes on neither method nor URL.
SDC-18 | met | sdcard/jose/claims.py:check_freshness | tests/sdcard/test_key_binding.py | At most 60 seconds ahead too.
SDC-19 | met | sdcard/key_binding.py:verify_key_binding sdcard/jose/claims.py:check_equal | tests/sdcard/test_key_binding.py | Both ways: a server is the audience of its caller, a client the audience of [the agent that it calls](agent-proof.md).
SDC-20 | met | sdcard/key_binding.py:verify_key_binding | tests/sdcard/test_key_binding.py |
SDC-21 | stricter | sdcard/key_binding.py:verify_key_binding | tests/sdcard/test_key_binding.py | `nonce` is always demanded, as RFC 9901 does; `interaction_id` where one is expected.
SDC-22 | met | sdcard/agent_proof.py:verify_agent_proof sdcard/verifier.py:verify_presentation | tests/sdcard/test_agent_proof.py tests/sdcard/test_verifier.py | The Issuer's signature first. In the draft's direction the called agent presents to its client; a server can also demand a card of its caller.
SDC-23 | partly | sdcard/delegation_chain.py:check_scopes issuer_service/delegation/endpoints.py:approve | tests/sdcard/test_delegation_chain.py tests/issuer_service/delegation/test_service_approvals.py | Never more permissions, and a person approves sensitive scopes. An interaction id holds for the whole chain where a client names one; it need not: [limitations](not-supported.md#access-tokens-and-delegation).
SDC-24 | met | sdcard/claim_request.py:ClaimRequest sdcard/holder.py:select_requested | tests/sdcard/test_requesting.py | The Holder's own ceiling holds whatever is asked.
SDC-25 | partly | sdcard/cards/lint.py:suspicious sdcard/linkability/comparison.py:report_linkability | tests/sdcard/cards/test_lint.py | A program can only guess what is personal: warnings. Rotating cards, and one for each domain, are the owner's to ask for: [limitations](not-supported.md#cards).
SDC-26 | partly | issuer_service/server.py:tls_context sdcard/io/http.py:fetch | tests/issuer_service/test_server.py | TLS 1.3 where the registry serves or anything is fetched. A proxy, an agent's own server, and the HTTP client that presents are set up by others. No channel binding: [limitations](not-supported.md#publishing-and-presenting).
SDC-27 | partly | sdcard/io/pkcs11.py:Pkcs11Signer issuer_service/keys/ring.py:Vault | tests/issuer_service/keys/test_service.py | In a PKCS#11 token, where the operator has one; by default sealed in the database, which is no HSM: [limitations](not-supported.md#registry-keys).
SDC-28 | met | issuer_service/status/service.py:change_statuses sdcard/status_list.py:check_status_value | tests/issuer_service/status/test_endpoints.py | Short life and status lists; nothing is pushed.
SDC-29 | met | issuer_service/audit/records.py:AuditRow | tests/issuer_service/agents/test_endpoints.py tests/issuer_service/audit/test_service.py | The claims that an SD-Card can show, by name.
SDC-30 | met | sdcard/jose/algorithms.py:SignatureAlgorithm | tests/sdcard/test_agility.py tests/sdcard/jose/test_jws.py |
SDC-31 | met | sdcard/sdjwt/model.py | tests/sdcard/sdjwt/test_model.py |
SDC-32 | met | sdcard/publishing.py:SD_MEDIA_TYPE sdcard/publishing.py:represent | tests/sdcard/web/test_publish.py |
T-1 | met | sdcard/profile.py:AGENT_SD_JWT_02 | tests/sdcard/test_profile.py | The first is written; the second is read under the profile `agent-sd-jwt-02` alone.
T-2 | met | sdcard/sdjwt/model.py:Disclosure | tests/sdcard/sdjwt/test_model.py | Over the received base64url text.
T-3 | otherwise | vectors/generate.py | tests/test_vectors.py | The printed digests are no vectors; ours are computed, and checked by other implementations: [limitations](not-supported.md#the-drafts).
T-4 | stricter | sdcard/instants.py:FreshnessWindow | tests/sdcard/test_key_binding.py | A bound on both sides.
T-5 | stricter | sdcard/jose/claims.py:read_nonce | tests/sdcard/test_key_binding.py | Always demanded.
T-6 | met | sdcard/salts.py sdcard/io/system.py:SystemSalts | tests/sdcard/test_salts.py tests/sdcard/sdjwt/test_issuance.py | 128 bits, one for each Disclosure of each SD-Card.
T-7 | otherwise | sdcard/cards/a2a/shared.py:_ALWAYS_DISCLOSED sdcard/profile.py:Profile | tests/sdcard/cards/a2a/test_shared.py tests/sdcard/test_profile.py tests/sdcard/policy/test_plan.py | `protocolVersion` is in the clear where an A2A card has it; `url` is an endpoint, so it is selective but in the profile `agent-sd-jwt-02`: [limitations](not-supported.md#the-drafts).
T-8 | otherwise | sdcard/cards/a2a/shared.py | tests/sdcard/cards/a2a/test_shared.py tests/sdcard/policy/test_plan.py tests/sdcard/cards/test_partial.py | `security` and the schemes are one group: a context has both or neither. A Holder can show one alone, and then the card is incomplete: [limitations](not-supported.md#the-drafts).
T-9 | met | sdcard/cards/model.py:CardFormat sdcard/policy/context.py | tests/sdcard/cards/a2a/test_shared.py tests/issuer_service/agents/test_endpoints.py | The names are claim groups, each with a meaning in every card format; one with nothing behind it is noted.
T-10 | otherwise | sdcard/policy/context.py sdcard/policy/validate.py | tests/sdcard/policy/test_plan_properties.py tests/issuer_service/discovery/test_endpoints.py | As Table 1: each context contains the one before it, which is checked; a registration may ask for less, or in *public* for endpoints too. `availability` is said to be ignored: [limitations](not-supported.md#the-drafts).
T-11 | met | sdcard/sdjwt/issuance.py:embed sdcard/cards/partial.py:PartialCard | tests/sdcard/policy/test_plan.py tests/sdcard/cards/test_partial.py | Recursive Disclosures; a skill shows id and name together, and the card says what it lacks.
T-12 | met | sdcard/publishing.py:SD_MEDIA_TYPE sdcard/sdjwt/model.py:to_flattened | tests/sdcard/web/test_publish.py tests/sdcard/sdjwt/test_model.py | The draft's type for its body; RFC 9901's JSON forms are something else, and read too.
T-13 | met | sdcard/publishing.py:PATHS | tests/sdcard/web/test_publish.py | Both paths; a plain card or 406 for who asks for JSON.
T-14 | otherwise | sdcard/profile.py:SD_CARD | tests/sdcard/test_profile.py | `dc+sd-jwt`; `JWT` in the profile of the draft: [limitations](not-supported.md#the-drafts).
T-15 | met | sdcard/sdjwt/verification.py:process_payload | tests/sdcard/sdjwt/test_verification.py | Refused, `disclosure.claim-exists`.
T-16 | met | sdcard/sdjwt/verification.py:process_payload | tests/sdcard/sdjwt/test_verification.py | Refused, `disclosure.unreferenced`.
T-17 | met | sdcard/salts.py | tests/sdcard/test_issuer.py | Fresh salts, so no digest is that of another card.
T-18 | met | sdcard/key_binding.py:bind | tests/sdcard/test_key_binding.py |
T-19 | met | sdcard/jose/keys.py:check_not_published | tests/sdcard/test_acceptance.py tests/sdcard/sdjwt/test_verification.py tests/issuer_service/agents/test_reading.py | Refused, `key.published`, as an Issuer's key and as a Holder's.
T-20 | met | sdcard/issuer.py:rounded_validity issuer_service/settings.py:Settings | tests/sdcard/test_issuer.py | Seven days or more by default, ninety at most.
T-21 | others | | | Differences within the draft's text; nothing of ours depends on it.
T-22 | met | sdcard/cards/a2a/shared.py | tests/sdcard/cards/a2a/test_v0.py | An extension without `uri` is a finding.
T-23 | met | sdcard/encoding.py sdcard/cards/a2a/v1_0.py | tests/sdcard/test_encoding.py tests/sdcard/cards/a2a/test_v1_0.py | Comments are no JSON, and refused; where members and `protocolVersion` disagree, `card.ambiguous` says so.
T-24 | met | sdcard/linkability/comparison.py:report_linkability | tests/sdcard/test_linkability.py | Confidentiality is promised, not anonymity; what links is told.
T-25 | met | issuer_service/discovery/endpoints.py:RequesterClaims issuer_service/access.py:check_context | tests/issuer_service/discovery/test_endpoints.py | What the asker says of itself gives it nothing.
T-26 | partly | sdcard/possession.py:verify_possession issuer_service/settings.py:ProofPolicy | tests/issuer_service/agents/test_nonces.py | Demanded with `SDCARD_PROOF_OF_POSSESSION=demanded`. By default the draft's request, which has no proof, is accepted, and the audit record says so; a proof that is given is always checked: [limitations](not-supported.md#agents).
T-27 | otherwise | sdcard/profile.py:RESERVED_AT_TOP | tests/sdcard/test_issuer.py | Card members, `interaction_id` and our `card_format` are claims that nobody registered. A member that would be read as another claim is refused: [limitations](not-supported.md#the-drafts).
T-28 | met | sdcard/sdjwt/issuance.py:embed sdcard/policy/model.py:DisclosurePolicy.padded_size | tests/sdcard/sdjwt/test_issuance.py | Sorted, and filled with decoys to the steps of a ladder.
T-29 | met | sdcard/key_binding.py:verify_key_binding sdcard/jose/claims.py:check_equal | tests/sdcard/test_key_binding.py | Compared as a whole.
T-30 | met | sdcard/cards/model.py:reserved_members | tests/sdcard/cards/test_model.py | Refused, `card.reserved-member`.
T-31 | met | sdcard/cards/partial.py:PartialCard | tests/sdcard/cards/test_partial.py | Nothing is filled in; `missing` names what the format demands and nobody showed.
T-32 | met | sdcard/cards/a2a/signatures.py:check_signatures | tests/sdcard/cards/a2a/test_signatures.py tests/issuer_service/agents/test_endpoints.py | Verified when the card is registered, then dropped, with a finding.
T-33 | met | issuer_service/audit/records.py:AuditRow | tests/issuer_service/agents/test_endpoints.py | Recorded is what an SD-Card can show, which is not what its Holder shows.
T-34 | met | sdcard/sdjwt/model.py | tests/sdcard/sdjwt/test_model.py | Refused, `sd-jwt.format`.
"""

STATUS_LIST = """
TSL-1 | met | sdcard/status_list.py:parse_status_list | tests/sdcard/test_status_list.py |
TSL-2 | met | sdcard/status_list.py:StatusList.status | tests/external/test_status_list_vectors.py |
TSL-3 | met | sdcard/status_list.py:_inflate | tests/sdcard/test_status_list.py |
TSL-4 | partly | sdcard/status_list.py:pack_statuses | tests/sdcard/test_status_list.py | No `aggregation_uri`: who has a card needs its one list: [limitations](not-supported.md#trust-status-lists-and-fetching).
TSL-5 | met | sdcard/status_list.py:verify_status_list_token | tests/sdcard/test_status_list.py |
TSL-6 | met | sdcard/status_list.py:issue_status_list_token | tests/sdcard/test_status_list.py |
TSL-7 | met | sdcard/status_list.py:verify_status_list_token | tests/sdcard/test_status_list.py |
TSL-8 | met | sdcard/status_list.py:verify_status_list_token sdcard/trust.py:TrustedIssuers.status_key_for | tests/sdcard/test_status_list.py tests/sdcard/io/test_status_lists.py | Signatures only, by keys listed for it.
TSL-9 | met | sdcard/status_list.py:parse_status | tests/sdcard/test_status_list.py | The client that fetches `uri` checks that it is a URI.
TSL-10 | met | sdcard/verifier.py:verify_presentation | tests/sdcard/test_status_list.py |
TSL-11 | met | sdcard/io/status_lists.py:FetchedStatusLists | tests/sdcard/io/test_status_lists.py | At most twelve hours.
TSL-12 | met | sdcard/status_list.py:StatusList.status sdcard/io/status_lists.py:FetchedStatusLists | tests/sdcard/io/test_status_lists.py |
TSL-13 | stricter | sdcard/status_list.py:check_status_value sdcard/io/status_lists.py:FetchedStatusLists | tests/sdcard/io/test_status_lists.py | Always refused, `status.unavailable`, unless the Verifier decided not to look, and said why.
TSL-14 | met | sdcard/status_list.py:check_status_value | tests/sdcard/test_status_list.py |
TSL-15 | met | sdcard/status_list.py:pack_statuses sdcard/status_list.py:StatusList.status | tests/sdcard/test_status_list.py |
TSL-16 | met | issuer_service/status/endpoints.py:status_list sdcard/io/http.py:fetch | tests/issuer_service/status/test_endpoints.py tests/sdcard/io/test_status_lists.py | CORS for everybody; gzip in both directions; three redirects at most, and no loop.
TSL-17 | met | issuer_service/status/endpoints.py:status_list | tests/issuer_service/status/test_endpoints.py | 501; our Verifier never asks for the past.
TSL-18 | no | | | A Verifier needs the list of the card that it has: [limitations](not-supported.md#trust-status-lists-and-fetching).
TSL-19 | met | issuer_service/status/repository.py:claim_statuses | tests/issuer_service/status/test_repository.py | Random indices. No decoy entries, but at most half of a list is ever used.
TSL-20 | met | sdcard/issuer.py:prepare_batch issuer_service/status/repository.py:claim_statuses | tests/sdcard/test_issuer.py tests/issuer_service/status/test_repository.py |
TSL-21 | met | issuer_service/status/repository.py:LIST_SIZE | tests/issuer_service/status/test_endpoints.py |
TSL-22 | met | sdcard/status_list.py:pack_statuses | tests/sdcard/test_status_list.py |
TSL-23 | partly | sdcard/io/status_lists.py:FetchedStatusLists | tests/sdcard/io/test_status_lists.py | A list that is fetched anew takes the old one's place, and at most 64 are kept; what a caller keeps of a card is its own affair: [limitations](not-supported.md#trust-status-lists-and-fetching).
"""

DPOP = """
DPOP-1 | met | sdcard/dpop.py:parse_field | tests/sdcard/test_dpop.py |
DPOP-2 | met | sdcard/dpop.py:verify_dpop_proof | tests/sdcard/test_dpop.py |
DPOP-3 | met | sdcard/jose/jws.py:check_type | tests/sdcard/test_dpop.py |
DPOP-4 | met | sdcard/jose/jws.py:verify_jws | tests/sdcard/test_dpop.py |
DPOP-5 | met | sdcard/dpop.py:parse_proof_key | tests/sdcard/test_dpop.py |
DPOP-6 | met | sdcard/dpop.py:parse_proof_key | tests/sdcard/test_dpop.py |
DPOP-7 | met | sdcard/dpop.py:check_method | tests/sdcard/test_dpop.py |
DPOP-8 | met | sdcard/dpop.py:check_url sdcard/urls.py:parse_target | tests/sdcard/test_dpop.py tests/sdcard/test_urls.py | The caller says its public URL.
DPOP-9 | met | sdcard/bound_tokens.py:DpopServer.check_nonce issuer_service/tokens.py:RegistryNonces | tests/sdcard/test_bound_tokens.py tests/issuer_service/test_tokens.py | The registry demands a nonce in every proof, with nonces of their own for the authorization server; a server of yours where it has a `DpopServer`.
DPOP-10 | met | sdcard/jose/claims.py:check_freshness | tests/sdcard/test_dpop.py |
DPOP-11 | met | sdcard/jose/claims.py:read_nonce sdcard/io/sql_replay_cache.py:SqlReplayRecord | tests/sdcard/test_dpop.py tests/sdcard/io/test_sql_replay_cache.py | Single use is not optional.
DPOP-12 | met | sdcard/dpop.py:verify_dpop_proof | tests/sdcard/test_dpop.py |
DPOP-13 | met | sdcard/dpop.py:check_token_key | tests/sdcard/test_dpop.py |
DPOP-14 | met | sdcard/bound_tokens.py:check_scheme sdcard/bound_tokens.py:parse_authorization | tests/sdcard/test_bound_tokens.py tests/issuer_service/test_tokens.py tests/sdcard/web/test_publish_bound.py |
DPOP-15 | met | issuer_service/delegation/schemas.py:TokenIssued | tests/issuer_service/delegation/test_endpoints.py |
DPOP-16 | no | | | There are no refresh tokens: [limitations](not-supported.md#access-tokens-and-delegation).
DPOP-17 | met | issuer_service/delegation/schemas.py:oauth_error sdcard/bound_tokens.py:token_challenge | tests/issuer_service/delegation/test_endpoints.py tests/issuer_service/test_tokens.py |
DPOP-18 | met | issuer_service/delegation/service.py:introspect | tests/issuer_service/delegation/test_endpoints.py |
DPOP-19 | no | | | There are no authorization codes: [limitations](not-supported.md#access-tokens-and-delegation).
DPOP-20 | partly | issuer_service/delegation/schemas.py:ServerMetadata | tests/issuer_service/delegation/test_endpoints.py | The server's metadata. Clients have none here, so no `dpop_bound_access_tokens`: a token is bound when its request has a proof: [limitations](not-supported.md#access-tokens-and-delegation).
"""

TOKEN_EXCHANGE = """
TX-1 | met | issuer_service/delegation/schemas.py:parse_form issuer_service/delegation/schemas.py:read_exchange | tests/issuer_service/delegation/test_service.py |
TX-2 | met | issuer_service/delegation/schemas.py:read_exchange | tests/issuer_service/delegation/test_service.py |
TX-3 | stricter | issuer_service/delegation/schemas.py:read_exchange issuer_service/delegation/subjects.py:read_presented | tests/issuer_service/delegation/test_service.py | An actor token is an SD-Card, and stands beside an access token alone: the other subject tokens say who acts.
TX-4 | stricter | issuer_service/delegation/schemas.py:_target | tests/issuer_service/delegation/test_service.py | One target for a token; `scope` is required.
TX-5 | partly | issuer_service/delegation/schemas.py:read_exchange | tests/issuer_service/delegation/test_service.py | `access_token`, and the SD-Card's own type; no `jwt`, refresh, ID or SAML tokens: [limitations](not-supported.md#access-tokens-and-delegation).
TX-6 | met | issuer_service/delegation/subjects.py:read_presented | tests/issuer_service/delegation/test_service.py tests/issuer_service/delegation/test_endpoints.py | That an identity provider revoked its own JWT is not known here; it holds until its `exp`.
TX-7 | met | issuer_service/delegation/schemas.py:TokenIssued | tests/issuer_service/delegation/test_endpoints.py |
TX-8 | met | issuer_service/delegation/schemas.py:oauth_error | tests/issuer_service/delegation/test_service.py tests/issuer_service/delegation/test_endpoints.py | Approvals have the codes of RFC 8628, which is for another grant.
TX-9 | stricter | sdcard/delegation_chain.py:parse_chain | tests/sdcard/test_delegation_chain.py | An actor has `sub` and `act`, nothing else. Earlier actors permit nothing; they only refuse: nobody is in a chain twice, and it ends with the first of them that does.
TX-10 | no | issuer_service/delegation/service.py:exchange | | The operator's grants say who may act; `may_act` in a subject token is not looked at: [limitations](not-supported.md#access-tokens-and-delegation).
TX-11 | met | sdcard/delegation_chain.py:extend_chain | tests/sdcard/test_delegation_chain.py | Delegation only; nobody is impersonated.
TX-12 | met | sdcard/delegation_chain.py:check_scopes sdcard/delegation_chain.py:claims_of | tests/sdcard/test_delegation_chain.py tests/issuer_service/delegation/test_service.py | An SD-Card as a subject token has no scopes: the grant alone bounds what is issued.
"""

KEYS = """
JWK-1 | met | sdcard/jose/keys.py:parse_public_jwk | tests/sdcard/jose/test_keys.py |
JWK-2 | met | sdcard/jose/keys.py:parse_public_jwk | tests/sdcard/jose/test_keys.py |
JWK-3 | met | sdcard/jose/keys.py:check_purpose | tests/sdcard/jose/test_keys.py |
JWK-4 | met | sdcard/trust.py:TrustedIssuers.key_for sdcard/jose/key_sets.py:read_key_set | tests/sdcard/test_trust.py tests/sdcard/jose/test_key_sets.py |
JWK-5 | met | sdcard/jose/key_sets.py:read_key_set | tests/sdcard/jose/test_key_sets.py |
JWK-6 | met | sdcard/jose/keys.py:PRIVATE_MEMBERS | tests/sdcard/jose/test_keys.py |
JWK-7 | met | sdcard/jose/keys.py:PublicKey | tests/sdcard/jose/test_keys.py |
JWK-8 | met | sdcard/jose/keys.py:PublicKey.verifies | tests/sdcard/jose/test_keys.py tests/external/test_wycheproof.py |
JWK-9 | met | sdcard/jose/jws.py:verify_jws | tests/sdcard/jose/test_jws.py |
JWK-10 | met | sdcard/encoding.py | tests/sdcard/test_encoding.py |
JWK-11 | stricter | sdcard/encoding.py | tests/sdcard/test_encoding.py | Repeated names are refused in all JSON.
JWK-12 | met | sdcard/instants.py:parse_numeric_date sdcard/jose/claims.py:check_not_expired | tests/sdcard/sdjwt/test_verification.py |
JWK-13 | met | sdcard/trust.py:TrustedIssuers.key_for | tests/sdcard/sdjwt/test_verification.py |
JWK-14 | met | sdcard/jose/jws.py:check_type | tests/sdcard/jose/test_jws.py tests/sdcard/test_key_binding.py | In the profile `agent-sd-jwt-02` an SD-Card may have `typ` `JWT`, as the draft prints it; `vct` and the required claims still tell it from others.
"""

SERVERS = """
AS-1 | met | issuer_service/delegation/service.py:introspect | tests/issuer_service/delegation/test_endpoints.py |
AS-2 | met | sdcard/delegation_chain.py:verify_bound_token | tests/sdcard/test_delegation_chain.py | It is a library's function: a resource server has to call it.
AS-3 | met | issuer_service/delegation/endpoints.py:server_metadata | tests/external/test_oauth_client.py | The registry's identifier has no path.
AS-4 | met | issuer_service/delegation/schemas.py:ServerMetadata | tests/issuer_service/delegation/test_endpoints.py tests/external/test_oauth_client.py |
AS-5 | met | sdcard/http_auth.py:problem_document | tests/issuer_service/test_app.py |
AS-6 | met | issuer_service/delegation/schemas.py:oauth_error | tests/issuer_service/delegation/test_endpoints.py |
AS-7 | no | | | There is no authorization endpoint: [limitations](not-supported.md#access-tokens-and-delegation).
AS-8 | partly | issuer_service/delegation/subjects.py:verify_holder issuer_service/access.py:create_token | tests/issuer_service/delegation/test_endpoints.py tests/issuer_service/test_tokens.py | Bound with DPoP where the client sends a proof, or where the operator binds the token; others are bearer tokens. Each delegated token is for one audience: [limitations](not-supported.md#access-tokens-and-delegation).
AS-9 | no | | | There is no authorization endpoint: [limitations](not-supported.md#access-tokens-and-delegation).
AS-10 | partly | issuer_service/tokens.py:parse_client_credentials | tests/issuer_service/test_access.py tests/issuer_service/delegation/test_service.py | Clients are bearer tokens of the registry, so a shared secret; none is read from a query: [limitations](not-supported.md#access-tokens-and-delegation).
"""

ISSUANCE = """
VCI-1 | no | | | The registry has a request of its own, from the draft. What this list says of batches is met, as follows: [limitations](not-supported.md#sd-jwt-and-algorithms).
VCI-2 | otherwise | issuer_service/agents/schemas.py:Proofs issuer_service/settings.py:ProofPolicy | tests/issuer_service/agents/test_nonces.py | `proofs` is an array, one for each key: [limitations](not-supported.md#sd-jwt-and-algorithms).
VCI-3 | otherwise | issuer_service/agents/reading.py:read_registration | tests/issuer_service/agents/test_reading.py | As many as the contexts and keys of the request, within limits: [limitations](not-supported.md#sd-jwt-and-algorithms).
VCI-4 | partly | sdcard/issuer.py:prepare_batch | tests/sdcard/test_issuer.py tests/sdcard/test_linkability.py | Within one context, and between contexts with `keys` of their own. Other contexts share the keys of the request, which `linkable_by` tells, and SD-Cards for discovery have the agent's keys: [limitations](not-supported.md#agents).
VCI-5 | otherwise | sdcard/possession.py:prove_possession | tests/sdcard/test_possession.py | A type of our own, as the request is: [limitations](not-supported.md#sd-jwt-and-algorithms).
VCI-6 | otherwise | sdcard/possession.py:verify_possession | tests/sdcard/test_possession.py tests/issuer_service/agents/test_nonces.py | Verified with the key that is registered, whatever the proof's header says; every proof is checked, and one bad refuses all: [limitations](not-supported.md#sd-jwt-and-algorithms).
VCI-7 | stricter | issuer_service/agents/endpoints.py issuer_service/agents/nonces.py:issue_nonce | tests/issuer_service/agents/test_nonces.py | Nonces are for callers with a token, and for their subject.
VCI-8 | met | issuer_service/agents/reading.py:read_registration | tests/issuer_service/agents/test_reading.py tests/sdcard/test_issuer.py | Refused, `key.repeated`.
VCI-9 | met | sdcard/issuer.py:rounded_validity | tests/sdcard/test_issuer.py |
VCI-10 | partly | sdcard/issuer.py:prepare_batch sdcard/issuer.py:linkable_by issuer_service/status/repository.py:claim_statuses | tests/sdcard/test_linkability.py | All but `cnf`, as in VCI-4: [limitations](not-supported.md#agents).
VCI-11 | partly | issuer_service/agents/records.py issuer_service/discovery/records.py:DiscoveryCardRow | tests/issuer_service/agents/test_endpoints.py tests/issuer_service/test_secrecy.py | What an agent gets is not kept, but by its digest; the answers for repeats are sealed and go after a day. The SD-Cards that discovery hands out are kept, to be handed out again, and so are Holder keys, to be nobody else's: [limitations](not-supported.md#discovery).
VCI-12 | no | | | Refusals are problem documents with our rules: [limitations](not-supported.md#sd-jwt-and-algorithms).
"""

AGENTCARD = """
AEV-1 | met | sdcard/cards/agentcard/shared.py:card | tests/sdcard/cards/agentcard/test_dialects.py |
AEV-2 | met | sdcard/cards/agentcard/shared.py:AGENT_ID | tests/sdcard/cards/agentcard/test_dialects.py |
AEV-3 | partly | sdcard/cards/agentcard/shared.py:AGENT_ID | tests/sdcard/cards/agentcard/test_dialects.py | An id beyond 128 bits, so beyond the year 10889, is warned of. No time is compared with a clock: [limitations](not-supported.md#cards).
AEV-4 | met | sdcard/cards/agentcard/shared.py:card | tests/sdcard/cards/agentcard/test_dialects.py |
AEV-5 | met | sdcard/cards/agentcard/shared.py:card sdcard/cards/agentcard/values.py:Spelling | tests/sdcard/cards/agentcard/test_dialects.py |
AEV-6 | met | sdcard/cards/agentcard/shared.py:card | tests/sdcard/cards/agentcard/test_dialects.py |
AEV-7 | met | sdcard/cards/agentcard/dialects.py:check | tests/sdcard/cards/agentcard/test_dialects.py |
AEV-8 | met | sdcard/cards/agentcard/dialects.py | tests/sdcard/cards/agentcard/test_dialects.py | Of a capability; the README's dialect demands it.
AEV-9 | partly | sdcard/cards/agentcard/values.py:faulty_schemas sdcard/cards/agentcard/dialects.py | tests/sdcard/cards/agentcard/test_values.py | Up to a bound of work for one card; what is beyond it is warned of, and not checked: [limitations](not-supported.md#cards).
AEV-10 | met | sdcard/cards/agentcard/values.py:Endpoint sdcard/cards/agentcard/dialects.py | tests/sdcard/cards/agentcard/test_values.py tests/sdcard/cards/agentcard/test_dialects.py |
AEV-11 | stricter | sdcard/cards/agentcard/values.py:Endpoint | tests/sdcard/cards/agentcard/test_values.py | `javascript:`, `data:`, and `file:` but for a local program, are refused under every protocol.
AEV-12 | met | sdcard/cards/agentcard/dialects.py sdcard/cards/agentcard/shared.py | tests/sdcard/cards/agentcard/test_dialects.py | `null`, which the README has, is warned of.
AEV-13 | met | sdcard/cards/agentcard/values.py:Amount sdcard/cards/agentcard/shared.py:COST | tests/sdcard/cards/agentcard/test_values.py | A literal that binary cannot keep is refused as it is read.
AEV-14 | met | sdcard/cards/agentcard/values.py:Amount | tests/sdcard/cards/agentcard/test_dialects.py |
AEV-15 | met | sdcard/cards/agentcard/dialects.py sdcard/cards/agentcard/shared.py | tests/sdcard/cards/agentcard/test_dialects.py |
AEV-16 | met | sdcard/cards/schema.py | tests/sdcard/cards/agentcard/test_dialects.py | Kept; and noted, but in `metadata`, which is open.
AEV-17 | met | sdcard/cards/agentcard/shared.py | tests/sdcard/cards/agentcard/test_dialects.py |
AEV-18 | met | sdcard/cards/agentcard/dialects.py:parse_embedded | tests/sdcard/cards/agentcard/test_dialects.py tests/issuer_service/agents/test_endpoints.py | In files, bytes and registrations.
AEV-19 | met | sdcard/publishing.py:ALL_PATHS sdcard/cards/agentcard/shared.py:MAX_AGE issuer_service/agents/checks.py:compare_card | tests/sdcard/web/test_publish.py tests/issuer_service/agents/test_checks.py | Published cards expire from caches after an hour. With `SDCARD_CARD_CHECKS` the registry fetches them again every `SDCARD_CHECK_SECONDS`, by default an hour, or at a later expiry within a day. It is off by default.
AEV-20 | met | sdcard/cards/agentcard/shared.py:compare_with_source | tests/sdcard/cards/agentcard/test_shared.py | A warning; the client decides.
AEV-21 | partly | sdcard/cards/agentcard/dialects.py:_self_declared | tests/sdcard/cards/agentcard/test_dialects.py | A note, and never a reason to trust; no SD-Card contains it. Stopping at `banned` is the reader's: [limitations](not-supported.md#cards).
AEV-22 | met | sdcard/cards/lint.py:suspicious | tests/sdcard/cards/test_lint.py | Warnings, for what has a form: mail addresses, telephone and payment card numbers. A person's name has none.
AEV-23 | met | sdcard/cards/agentcard/dialects.py:DIALECTS | tests/sdcard/cards/agentcard/test_dialects.py |
"""

KNO = """
KNO-1 | met | sdcard/cards/kno/card.py | tests/sdcard/cards/kno/test_card.py |
KNO-2 | met | sdcard/cards/kno/card.py:_check_identity | tests/sdcard/cards/kno/test_card.py |
KNO-3 | met | sdcard/cards/kno/card.py:_check_schema sdcard/cards/kno/card.py:is_0_2 | tests/sdcard/cards/kno/test_card.py |
KNO-4 | met | sdcard/cards/kno/card.py:_Quoted sdcard/cards/kno/card.py:_check_identity | tests/sdcard/cards/kno/test_card.py |
KNO-5 | stricter | sdcard/cards/kno/card.py | tests/sdcard/cards/kno/test_card.py | A scheme that runs or reads something on the reader's machine is an error, not a warning; so is an empty `url`.
KNO-6 | met | sdcard/cards/kno/card.py | tests/sdcard/cards/kno/test_card.py |
KNO-7 | met | sdcard/cards/kno/card.py | tests/sdcard/cards/kno/test_card.py |
KNO-8 | met | sdcard/cards/kno/card.py:_check_credentials | tests/sdcard/cards/kno/test_card.py | What looks like a secret; a password that stands alone looks like any word.
KNO-9 | met | sdcard/cards/kno/card.py sdcard/cards/kno/conversion.py | tests/sdcard/cards/kno/test_card.py tests/sdcard/cards/kno/test_conversion.py | The default is written out where a card becomes an A2A card.
KNO-10 | met | sdcard/cards/kno/card.py | tests/sdcard/cards/kno/test_card.py |
KNO-11 | met | sdcard/cards/kno/card.py sdcard/cards/a2a/shared.py:repeated_skill_ids | tests/sdcard/cards/kno/test_card.py |
KNO-12 | met | sdcard/cards/kno/card.py | tests/sdcard/cards/kno/test_card.py |
KNO-13 | met | sdcard/cards/kno/card.py:_check_ownership | tests/sdcard/cards/kno/test_card.py |
KNO-14 | met | sdcard/cards/kno/card.py:_check_ownership | tests/sdcard/cards/kno/test_card.py |
KNO-15 | met | sdcard/cards/kno/card.py:unresolved_domains sdcard/cli/card.py:card_check | tests/sdcard/cards/kno/test_card.py tests/sdcard/cli/test_card.py | `sdcard card check --domains` reads the platform's catalogue; a registration has none.
KNO-16 | met | sdcard/cards/kno/card.py | tests/sdcard/cards/kno/test_card.py |
KNO-17 | met | sdcard/cards/kno/card.py:_check_goals | tests/sdcard/cards/kno/test_card.py |
KNO-18 | met | sdcard/cards/kno/card.py:_check_goal sdcard/cards/kno/card.py:_Quoted | tests/sdcard/cards/kno/test_card.py | A goal with neither is noted, for KNO-24.
KNO-19 | met | sdcard/cards/kno/card.py:_check_boundaries | tests/sdcard/cards/kno/test_card.py |
KNO-20 | met | sdcard/cards/kno/card.py:_Number | tests/sdcard/cards/kno/test_card.py |
KNO-21 | met | sdcard/cards/kno/card.py:merge_budget | tests/sdcard/cards/kno/test_card.py | The process's template is an argument.
KNO-22 | met | sdcard/cards/kno/card.py:_check_age | tests/sdcard/cards/kno/test_card.py |
KNO-23 | met | sdcard/cards/kno/card.py:_check_identity | tests/sdcard/cards/kno/test_card.py | Anything but `public` is noted: who sees what, the registry's policy says.
KNO-24 | partly | sdcard/cards/kno/card.py:_check_goal | tests/sdcard/cards/kno/test_card.py | A goal without a metric or a target is noted; whether a metric can be observed, no program can tell: [limitations](not-supported.md#cards).
KNO-25 | met | sdcard/cards/kno/card.py sdcard/cards/schema.py | tests/sdcard/cards/kno/test_card.py | Kept, and noted, at every level.
"""

STANDARDS = {
    "The SD-Card draft (draft-nandakumar-agent-sd-jwt-02)": SD_CARD,
    "Token Status List (draft-ietf-oauth-status-list)": STATUS_LIST,
    "DPoP (RFC 9449)": DPOP,
    "Token exchange (RFC 8693)": TOKEN_EXCHANGE,
    "Keys and signatures (RFC 7515, 7517, 7518, 7519, 7638, 8725)": KEYS,
    "Authorization servers (RFC 7662, 8414, 9457, 9700)": SERVERS,
    "Issuance in batches (OpenID4VCI 1.0)": ISSUANCE,
    "AgentCard (draft-aevum-agentcard-00)": AGENTCARD,
    "KNO agent cards (0.2.1)": KNO,
}
"""Title → its rows."""
