"""Each sentence of the sources that demands something, one line a sentence.

The sentences are in our own words.

``id | what it demands | rows``: rows of ``pages.answers``, whose answers, places and tests apply to the sentence too.
``id | what it demands | answer | where in the code | test | note`` for a sentence that no row covers. The middle of an
id is the section. The same tests as for ``pages.answers`` check them.
"""

DRAFT = """
SD-1-1 | An SD-Card reveals what fits the context, and no more. | SDC-7 SDC-14
SD-1-2 | It proves cryptographically which agent it is of. | SDC-22
SD-1-3 | Presentations in several contexts cannot be linked. | T-24
SD-1-4 | Existing A2A implementations stay usable. | T-13
SD-1.1-1 | An SD-Card is an Agent Card that is encoded as an SD-JWT. | SDC-31
SD-1.1-2 | A registry issues and manages SD-Cards. | SDC-10 SDC-28
SD-1.1-3 | A named context decides which claims an SD-Card discloses. | SDC-14
SD-1.1-4 | Key binding proves that the presenter has the key in `cnf`. | SDC-5 SDC-22
SD-1.1-5 | The media type tells an SD-JWT from other JSON. | SDC-32
SD-1.2-1 | Binary data is base64url, and tokens are JWS. | SDC-31
SD-1.2-2 | Digests are SHA-256. | SDC-9 SDC-30
SD-1.2-3 | Parts are separated by tildes. | SDC-31 T-34
SD-2.1-1 | An agent registers its capabilities, its skills and a public key. | SDC-10 T-9
SD-2.1-2 | The registry issues an SD-Card with selectively disclosable claims and the agent's key. | SDC-5 SDC-7
SD-2.1-3 | The registry may publish what is not sensitive, so that clients find agents. | met | issuer_service/discovery/endpoints.py:catalogue | tests/issuer_service/discovery/test_endpoints_catalogue.py | Off by default: [public catalogue](discovery.md#public-catalogue).
SD-2.1-4 | The agent presents only what is relevant. | SDC-24
SD-2.1-5 | Clients ask the registry for agents with certain capabilities. | met | issuer_service/discovery/endpoints.py:discover | tests/issuer_service/discovery/test_endpoints.py |
SD-2.1-6 | Clients may ask a Service instead. | no | | | A Service that relays is another registry or agent: [limitations](not-supported.md#publishing-and-presenting).
SD-2.1-7 | A response contains only the claims that fit the context. | met | issuer_service/discovery/repository.py:find_agents | tests/issuer_service/discovery/test_endpoints_oracle.py | Hidden values find nothing, in each context and by each criterion.
SD-2.1-8 | The called agent proves its key to the client. | SDC-22
SD-3.1-1 | `iss` names the Issuer and is a resolvable URL. | SDC-1
SD-3.1-2 | `sub` is unique for the agent in the Issuer's namespace. | SDC-2
SD-3.1-3 | `sub` stays the same over all versions of the card. | SDC-2
SD-3.1-4 | `iat` and `exp` are Unix times. | SDC-3
SD-3.1-5 | `vct` has the value that the draft names. | SDC-4 T-1
SD-3.1-6 | `name`, `description` and `version` are always disclosed. | SDC-6 T-7
SD-3.1-7 | `cnf` has the agent's public key as a JWK. | SDC-5
SD-3.2-1 | Skills are selectively disclosable. | SDC-7 T-11
SD-3.2-2 | A Disclosure is an array of a random salt, a name and a value. | SDC-9 T-6
SD-3.2-3 | The array is JSON in base64url. | SDC-9
SD-3.2-4 | Its SHA-256 digest is in `_sd`. | SDC-9 T-2
SD-3.2-5 | A Verifier recomputes the digest and finds it in `_sd`. | T-2 SDC-22
SD-3.2-6 | Further interfaces are selectively disclosable. | SDC-7
SD-3.2-7 | Capabilities are selectively disclosable. | SDC-7
SD-3.2-8 | Security schemes are selectively disclosable. | SDC-7 T-8
SD-3.2-9 | The provider is selectively disclosable. | SDC-7
SD-3.2-10 | Input and output modes are selectively disclosable. | SDC-7
SD-3.2-11 | Icon, documentation and the extended card are listed as selective. | SDC-8
SD-3.3.1-1 | The agent sends its metadata and its key to the registry. | T-9 T-26
SD-3.3.1-2 | The registry verifies identity and entitlement. | SDC-10
SD-3.3.1-3 | The registry creates an SD-Card with Disclosures. | SDC-9
SD-3.3.1-4 | The registry issues several SD-Cards with different disclosures. | SDC-11
SD-3.3.1-5 | A registration names contexts, and what each discloses. | T-9 T-10
SD-4.1-1 | A client asks for the media type at the well-known path. | SDC-32 T-13
SD-4.1-2 | The response has the SD-Card in `agent_card`. | SDC-32
SD-4.1-3 | The disclosures fit the context of the caller. | SDC-12
SD-4.1-4 | An agent may demand a bearer token first. | SDC-12
SD-4.2-1 | A registry finds agents for a context. | SDC-14
SD-4.2-2 | A query names skills. | met | issuer_service/discovery/endpoints.py:Query | tests/issuer_service/discovery/test_endpoints.py |
SD-4.2-3 | A query names the availability. | otherwise | issuer_service/discovery/endpoints.py:_IGNORED | tests/issuer_service/discovery/test_endpoints.py | No card says it: it is listed as ignored (T-10): [limitations](not-supported.md#the-drafts).
SD-4.2-4 | The caller limits the number of results. | met | issuer_service/discovery/endpoints.py:DiscoveryRequest | tests/issuer_service/discovery/test_endpoints.py |
SD-4.2-5 | The caller has an access token of the registry. | met | issuer_service/request_context.py:authorize | tests/issuer_service/discovery/test_endpoints.py |
SD-4.3-1 | *public* has basic skills and public endpoints. | otherwise | sdcard/policy/context.py:PUBLIC | tests/sdcard/policy/test_document.py | Table 1 has no endpoints there, and the default follows it. [One line](policies.md#endpoints-in-public) follows 4.3: [limitations](not-supported.md#the-drafts).
SD-4.3-2 | *internal* has operational details for the organization. | SDC-14
SD-4.3-3 | *diagnostic* has details for troubleshooting. | SDC-14
SD-4.3-4 | *federation* needs a trust relationship between organizations. | met | sdcard/policy/context.py:Agreement | tests/issuer_service/discovery/test_renewal.py | Within one registry.
SD-4.3-5 | One agent may present different cards, unlinkably. | T-24 SDC-11
SD-4.4-1 | The security context does not carry over to tool calls. | met | sdcard/web/mcp.py:InteractionClient | tests/sdcard/cli/test_mcp.py | An interaction id goes with a call, and no permission.
SD-4.4-2 | Tools may need their own authorization. | others | | | A server of tools decides.
SD-4.4-3 | Audit logs correlate interaction ids with MCP sessions. | SDC-13
SD-4.4-4 | The interaction id of the KB-JWT goes into MCP requests. | SDC-13
SD-5.2-1 | The called agent presents its card to the client. | SDC-22
SD-5.2-2 | The KB-JWT has `iat`, `aud`, `sd_hash` and an interaction id. | SDC-21
SD-5.2-3 | `nonce` is an optional further protection. | SDC-21 T-5
SD-5.2-4 | The Verifier checks the Issuer's signature. | SDC-16 SDC-22
SD-5.2-5 | It checks that Disclosures match their digests. | SDC-22
SD-5.2-6 | It checks the KB-JWT with the agent's key. | SDC-22
SD-5.2-7 | It checks expiry and freshness. | SDC-3 SDC-18
SD-5.2-8 | It checks the audience. | SDC-19
SD-5.3.1-1 | Verifiers query by required capabilities. | met | issuer_service/discovery/endpoints.py:Query | tests/issuer_service/discovery/test_endpoints.py |
SD-5.3.1-2 | A requester claims an organization and roles. | T-25
SD-5.3.2-1 | A registry may disclose by role. | SDC-14
SD-5.3.2-2 | *public*: name, description, names of skills. | SDC-14 T-11
SD-5.3.2-3 | *internal*: also endpoints, capabilities, provider. | SDC-14
SD-5.3.2-4 | *diagnostic*: also security schemes and version details. | SDC-14 T-10
SD-5.3.2-5 | *federation*: as agreed. | met | sdcard/policy/context.py:Agreement | tests/sdcard/policy/test_context.py |
SD-5.3.3-1 | A client may exchange tokens (RFC 8693) to delegate. | SDC-15
SD-5.3.3-2 | The server validates the subject token. | SDC-15 TX-1
SD-5.3.3-3 | It applies restrictions of scopes. | SDC-15 SDC-23
SD-5.3.3-4 | The new token is bound to the target agent. | SDC-15
SD-6-1 | The media type is registered. | SDC-32 T-12
SD-6-2 | The type of the credential is registered. | SDC-4 T-1
SD-6-3 | There are no new claims. | T-27
SD-7.1-1 | Tokens are bound, so that a stolen one is of no use. | SDC-17
SD-7.1-2 | DPoP is supported where an SD-Card is presented without a KB-JWT. | SDC-17 DPOP-1
SD-7.1-3 | A KB-JWT with an `iat` more than five minutes ago is refused. | SDC-18 T-4
SD-7.1-4 | A KB-JWT without the right `aud` is refused. | SDC-19 T-29
SD-7.1-5 | A KB-JWT with another `sd_hash` is refused. | SDC-20 T-18
SD-7.2-1 | `cnf` proves that the presenter has the key. | SDC-5 SDC-22
SD-7.2-2 | Verifiers trust Issuers that they knew before. | SDC-16
SD-7.2-3 | Digests show that claims did not change. | SDC-22
SD-7.2-4 | The architecture follows WIMSE for workloads. | partly | sdcard/jose/certificates.py sdcard/spiffe.py issuer_service/access.py:check_limits | tests/sdcard/jose/test_certificates.py tests/sdcard/test_spiffe.py tests/issuer_service/agents/test_registration.py | Certificate chains of Issuers; SPIFFE IDs that the operator permits. No workload identity tokens: [limitations](not-supported.md#workload-identity).
SD-7.3-1 | Sub-agents get constrained tokens by exchange. | SDC-15 SDC-23
SD-7.3-2 | Each delegation has an interaction id. | SDC-23
SD-7.3-3 | Sub-agents get no broader permissions. | SDC-23
SD-7.3-4 | People approve sensitive operations. | SDC-23
SD-7.4.1-1 | Each Disclosure has its own salt. | T-6
SD-7.4.1-2 | Verifiers cannot correlate presentations across contexts. | T-24
SD-7.4.1-3 | Several unlinkable SD-Cards can be issued for one agent. | SDC-11 T-24
SD-7.4.2-1 | Agents disclose only what the interaction needs. | SDC-24
SD-7.4.2-2 | Verifiers request only what they need to decide. | SDC-24
SD-7.4.3-1 | No personal data in selective claims. | SDC-25
SD-7.4.3-2 | Capabilities are described, and not how they are implemented. | others | | | Authors write their cards.
SD-7.4.3-3 | SD-Cards are rotated. | met | sdcard/io/agent.py:Agent issuer_service/agents/lifecycle.py | tests/sdcard/io/test_agent.py | The agent's process renews at half of the lifetime, or a timer does.
SD-7.4.3-4 | Each domain of trust gets other SD-Cards. | SDC-25
SD-7.5-1 | Exchanges use TLS 1.3 or later. | SDC-26
SD-7.5-2 | Key binding protects even without transport security. | SDC-19 SDC-20
SD-7.5-3 | Presentations may be bound to the TLS session. | no | | | Proxies end TLS, and HTTP clients do not show its exporter: [limitations](not-supported.md#publishing-and-presenting).
SD-7.6-1 | The Issuer's keys are in an HSM or as well protected. | SDC-27
SD-7.6-2 | SD-Cards can be revoked. | SDC-28
SD-7.6-3 | SD-Cards live shortly. | SDC-28
SD-7.6-4 | Status lists may show revocations. | SDC-28 TSL-1
SD-7.6-5 | Revocations may be pushed. | no | | | Status lists are read; nothing is pushed: [limitations](not-supported.md#trust-status-lists-and-fetching).
SD-7.6-6 | Each issuance is audited: agent, claims, time. | SDC-29 T-33
SD-7.7-1 | ES256 and SHA-256 are supported. | SDC-30
SD-7.7-2 | Further algorithms can be added. | SDC-30
SD-7.7-3 | A path leads to post-quantum algorithms. | met | sdcard/jose/algorithms.py:SignatureAlgorithm | tests/test_post_quantum.py | ML-DSA: [migration](post-quantum.md).
"""

AGENTCARD = """
AC-1.1-1 | A card of one framework is readable by another. | AEV-1 AEV-16
AC-1.1-2 | Ids are unique without a central authority. | AEV-2
AC-1.1-3 | Readers ignore unknown fields. | AEV-16
AC-2-1 | Five members are required. | AEV-1
AC-2.1-1 | `agent_id` has 26 characters of Crockford's alphabet. | AEV-2
AC-2.1-2 | Its random part comes from a secure generator. | met | sdcard/cards/agentcard/shared.py:new_agent_id | tests/sdcard/cards/agentcard/test_shared.py | For ids that we make.
AC-2.2-1 | `name` has 1 to 128 code points. | AEV-4
AC-2.2-2 | It says what the agent mainly does. | others | | | Authors name their agents.
AC-2.3-1 | `version` follows Semantic Versioning. | AEV-5
AC-2.3-2 | The version grows with each change of the card. | partly | issuer_service/agents/repository.py:record_registration | tests/issuer_service/agents/test_registration.py | A registry refuses other content under the same version. Which part grows, authors decide: [limitations](not-supported.md#cards).
AC-2.4-1 | There is at least one capability. | AEV-6
AC-2.4-2 | Capabilities are ordered by prominence. | met | sdcard/policy/plan.py | tests/sdcard/policy/test_plan.py | The order of an array is kept.
AC-2.4-3 | Ids of capabilities have the given form. | AEV-7
AC-2.4-4 | Ids use the conventional namespaces or a reversed domain. | AEV-7
AC-2.4-5 | Capabilities have a description. | AEV-8
AC-2.4-6 | Schemas of input and output are JSON Schemas. | AEV-9
AC-2.5-1 | `endpoint` has a protocol and a URL. | AEV-10 AEV-11
AC-2.5-2 | The protocol is one of five. | AEV-10
AC-2.5-3 | The URL fits the protocol. | AEV-11
AC-2.5-4 | The scheme of authentication is one of five. | AEV-12
AC-2.6-1 | A cost in joules is zero or at least Landauer's limit. | AEV-13
AC-2.6-2 | Costs are realistic estimates. | others | | | No program can tell.
AC-2.6-3 | The cost of a token is not negative. | AEV-14
AC-2.7-1 | No card is refused for unknown metadata. | AEV-16
AC-2.7-2 | The tier of trust is one of five. | AEV-15
AC-2.7-3 | Without a tier, an agent is untrusted. | AEV-21
AC-2.8-1 | A goal subscription has an id, and may have a description and a priority from 0 to 1. | AEV-17
AC-2.8-2 | An orchestrator finds all agents that subscribed to a goal. | met | sdcard/cards/agentcard/shared.py:_FOUND_BY issuer_service/discovery/endpoints.py:Query | tests/issuer_service/discovery/test_endpoints_oracle.py | Where the context shows the subscription.
AC-3-1 | A card is a JSON object in UTF-8. | AEV-18
AC-3-2 | The recommended media type and `application/json` are accepted. | AEV-19
AC-3-3 | A card in a JSON string is accepted too. | AEV-18
AC-4-1 | The card is at `/.well-known/agentcard`. | AEV-19
AC-4-2 | The response says how long it may be cached. | AEV-19
AC-4-3 | Validators and registries fetch again when the cache expires. | AEV-19
AC-4-4 | Agents with the protocol mcp give their card by the tools of AgentCard. | partly | sdcard/cli/mcp_tools.py | tests/sdcard/cli/test_mcp.py | `sdcard mcp --card` gives the agent's own card by the tool `get_agent_card`. The other tools of agentcard-mcp and their names are not copied: [limitations](not-supported.md#mcp).
AC-5-1 | A validator enforces ten rules, and refuses what breaks one. | AEV-2 AEV-5 AEV-6 AEV-7 AEV-10 AEV-11 AEV-13 AEV-14 AEV-15 AEV-16
AC-6.3-1 | Implementers may refer to a DID, and sign with it. | no | | | The Issuer's signature and `cnf` bind a card: [limitations](not-supported.md#cards).
AC-8.1-1 | Nobody is trusted for declared capabilities alone. | met | sdcard/verifier.py:verify_presentation | tests/sdcard/test_verifier.py | A Verifier gets what a trusted Issuer signed.
AC-8.2-1 | Ids come from a secure generator. | met | sdcard/cards/agentcard/shared.py:new_agent_id | tests/sdcard/cards/agentcard/test_shared.py | For ids that we make.
AC-8.3-1 | Claims about energy are verified independently. | others | | | No program here settles costs.
AC-8.4-1 | Self-declared tiers are hints, and are validated against a record. | AEV-21
AC-8.4-2 | No Issuer signs what an agent must not claim about itself. | met | sdcard/policy/plan.py:_signable sdcard/cards/agentcard/dialects.py:_self_declared | tests/sdcard/policy/test_plan.py tests/sdcard/cards/agentcard/test_dialects.py |
AC-8.5-1 | Cards are served over TLS only. | SDC-26
AC-8.5-2 | A card is refused whose endpoint has another scheme than its source. | AEV-20
AC-8.6-1 | No personal data in names, descriptions and metadata. | AEV-22
"""

README = """
RM-1 | The first example is valid. | AEV-23
RM-2 | `name`, `version`, `capabilities` and `endpoint` are required beside `agent_id`. | AEV-1
RM-3 | A description has at most 512 characters. | AEV-8 AEV-23
RM-4 | Seven protocols are known. | AEV-23
RM-5 | `null` is allowed for prices, authentication and schemas. | AEV-23
RM-6 | Prices are at least Landauer's limit. | AEV-13
RM-7 | Members `pacr:` come from the ledger; agents do not forge them. | AEV-21
RM-8 | A card is at the well-known path. | AEV-19 T-13
"""

KNO = """
KN-1 | Seven members are required. | KNO-1
KN-2 | `id` is a ULID. | KNO-2
KN-3 | `$schema` names a version. | KNO-3
KN-4 | `version` is a string. | KNO-4
KN-5 | URLs are strings. | KNO-5
KN-6 | A provider has an organization. | KNO-6
KN-7 | Capabilities are booleans, by default false. | KNO-7
KN-8 | `credentials` has no secret. | KNO-8
KN-9 | Modes are by default text/plain. | KNO-9
KN-10 | There is at least one skill. | KNO-10
KN-11 | A skill has an id, unique in the card, and a name. | KNO-11
KN-12 | An owner is the platform or a tenant. | KNO-12
KN-13 | A tenant has a slug. | KNO-13 KNO-14
KN-14 | Each perception domain exists in the platform. | KNO-15
KN-15 | `refresh` is one of four. | KNO-16
KN-16 | The agents of a domain can be found. | met | sdcard/cards/kno/card.py:V0_2 issuer_service/discovery/endpoints.py:Query | tests/issuer_service/discovery/test_endpoints_oracle.py | Where a registration shows `perception`.
KN-17 | A goal has an id and a description. | KNO-17
KN-18 | A goal has one target at most. | KNO-18
KN-19 | Goals can be measured. | KNO-24
KN-20 | Boundaries begin with MUST NOT or SHOULD NOT. | KNO-19
KN-21 | Budgets are within bounds. | KNO-20
KN-22 | A budget overrides the template, member by member. | KNO-21
KN-23 | A card of an earlier version has no member that a later version added. | KNO-22
KN-24 | Visibility is by default public. | KNO-23
KN-25 | Unknown members are kept. | KNO-25
KN-26 | The persona is not in the A2A projection. | met | sdcard/cards/kno/conversion.py | tests/sdcard/cards/kno/test_conversion.py |
KN-27 | The card at the well-known path is a projection to A2A. | partly | sdcard/cards/kno/conversion.py | tests/sdcard/cards/kno/test_conversion.py | `sdcard card convert --to a2a/1.0` makes the projection, and its author publishes that: [limitations](not-supported.md#card-signatures-and-conversions).
KN-28 | A card's members are converted by the A2A names. | KNO-9
"""

SOURCES = {
    "The SD-Card draft, sentence by sentence": DRAFT,
    "The AgentCard draft, sentence by sentence": AGENTCARD,
    "The README of AgentCard": README,
    "The KNO schema, sentence by sentence": KNO,
}
"""Title → its sentences."""
