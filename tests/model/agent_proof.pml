/* The proof of the called agent (docs/agent-proof.md), for SPIN.
 *
 * Parties: a client C, an agent A, a Service S, a Verifier V that takes nonces of the Holder's choice, and an attacker M. M owns the
 * network and one registered agent: it has a host, a key and an SD-Card that the client's Issuer signed. It reads, drops,
 * delays, repeats and makes up messages, and it runs the Service. It cannot sign with A's key, and cannot read or change what goes
 * over TLS between C and A.
 *
 * Bounds: SESSIONS challenges of the client, one nonce of the attacker over terms of its choice, SIGNINGS signatures of the agent.
 *
 * Properties, as assertions:
 *   agreement   who accepts a proof of A, at an origin, by a method, through a Service, is answered by A for exactly these terms;
 *   freshness   each challenge is accepted once, and only for its own session;
 *   secrecy     the attacker never has more than the public disclosures of A;
 *   roles       no Verifier in another role accepts what A signed as the called agent.
 *
 * Each flaw below is planted with -D, and must be found: NO_TARGET, NO_NONCE, NO_SINGLE_USE, NO_ORDER, NO_SERVICE, NO_PURPOSE,
 * PRESENTS_THROUGH_SERVICE, ANY_THROUGH_SERVICE.
 */

#ifndef SESSIONS
#define SESSIONS 2
#endif
#ifndef SIGNINGS
#define SIGNINGS 3
#endif
#define NONCES (SESSIONS + 1)
#define OWN SESSIONS              /* the attacker's nonce */

#define O_A 0                     /* origins */
#define O_M 1
#define CONTACT 0                 /* methods */
#define TASK 1
#define DIRECT 0                  /* ways */
#define BY_S 1                    /* the Service that A lists */
#define BY_X 2                    /* another one */
#define AUD_C 0                   /* audiences */
#define AUD_V 1
#define PUBLIC 0                  /* what is shown */
#define MORE 1
#define NOBODY 0                  /* whose presentation came with a request */
#define CLIENT 1

typedef Nonce { bool made; bool tagged; bit origin; bit method; byte way }
Nonce nonces[NONCES];
bool accepted[SESSIONS];
/* what A signed: nonce, audience, method and way that A saw, and what the attacker has of it */
typedef Signed { bool made; byte nonce; bit aud; bit method; byte way }
Signed proofs[SIGNINGS];
byte signings = 0;
bool attacker_has_presentation_for_A = false;
bool standing = false;            /* C takes origin O_A for proved */

inline make_terms(n) {
    nonces[n].made = true;
    select(value : 0 .. 1); nonces[n].origin = value;
    select(value : 0 .. 1); nonces[n].method = value;
    select(value : 0 .. 2); nonces[n].way = value;
    value = 0
}

active proctype Client() {
    byte session = 0, value, which, answered;
    do
    :: session < SESSIONS ->
        atomic {
            make_terms(session);
            nonces[session].tagged = true;
            /* this client calls A directly, or through S; or it calls the attacker's host, taking any agent there */
            if
            :: nonces[session].origin == O_M -> nonces[session].way = DIRECT
            :: nonces[session].origin == O_A && nonces[session].way == BY_X -> nonces[session].way = BY_S
            :: else
            fi
        }
        do  /* the attacker delivers any proof that exists, or none, any number of times */
        :: signings > 0 -> atomic {
            select(which : 0 .. signings - 1);
            answered = proofs[which].nonce;
            if
            :: (proofs[which].aud == AUD_C
#ifndef NO_NONCE
               && answered == session
#endif
#ifndef NO_SINGLE_USE
               && !accepted[session]
#endif
               ) ->
                /* agreement: A answered these terms */
                assert(nonces[session].origin == O_A);
                assert(proofs[which].method == nonces[session].method);
                assert(proofs[which].way == nonces[session].way);
                /* freshness: this challenge, and once */
                assert(answered == session);
                assert(!accepted[session]);
                accepted[session] = true;
                standing = true
            :: else
            fi;
            which = 0; answered = 0
          }
        :: atomic {  /* the attacker answers with its own key, where it holds the other end of TLS */
            nonces[session].origin == O_M || nonces[session].way != DIRECT ->
            if
#ifndef ANY_THROUGH_SERVICE
            :: nonces[session].way == DIRECT ->
#else
            :: nonces[session].way <= BY_X ->
#endif
                /* through a Service, the client names the agent that it means */
                assert(nonces[session].origin == O_M)                /* agreement */
            :: else
            fi
          }
        :: standing && nonces[session].origin == O_A ->
            /* C shows its own card to A over TLS. Through a Service it would go through the attacker's hands. */
#ifdef PRESENTS_THROUGH_SERVICE
            if
            :: nonces[session].way != DIRECT -> attacker_has_presentation_for_A = true
            :: else
            fi;
#endif
            break
        :: break
        od;
        session++
    :: else -> break
    od
}

active proctype Agent() {
    byte n, value, way, method, aud, caller, shown;
    bool to_attacker;
    do
    :: signings < SIGNINGS -> atomic {
        /* any request that anyone can make: nonce, audience, method and way are the sender's choice */
        select(n : 0 .. NONCES - 1);
        select(value : 0 .. 1); aud = value;
        select(value : 0 .. 1); method = value;
        select(value : 0 .. 2); way = value;
        /* who is at the other end of TLS, and whose presentation comes along */
        select(value : 0 .. 1); to_attacker = value;
        select(value : 0 .. 1); caller = value;
        if
        :: way != DIRECT -> to_attacker = true      /* the attacker runs the Service */
        :: else
        fi;
        if
        :: caller == CLIENT && to_attacker && !attacker_has_presentation_for_A -> caller = NOBODY
        :: caller == CLIENT && !to_attacker && !standing -> caller = NOBODY
        :: else
        fi;
        if
        :: (nonces[n].made
#ifndef NO_PURPOSE
           && nonces[n].tagged
#endif
#ifndef NO_SERVICE
           && (way == DIRECT || way == BY_S)
#endif
#ifndef NO_TARGET
           && nonces[n].origin == O_A && nonces[n].method == method && nonces[n].way == way
#endif
           ) ->
            shown = PUBLIC;
            if
#ifdef NO_ORDER
            :: shown == PUBLIC -> shown = MORE
#else
            :: caller == CLIENT && way == DIRECT -> shown = MORE
            :: else
#endif
            fi;
            assert(!(shown == MORE && to_attacker));                 /* secrecy */
            assert(way != BY_X);                                     /* only a Service that A lists */
            /* roles: V accepts any nonce but one that is tagged for called agents */
            assert(!(aud == AUD_V && !nonces[n].tagged));
            proofs[signings].made = true;
            proofs[signings].nonce = n;
            proofs[signings].aud = aud;
            proofs[signings].method = method;
            proofs[signings].way = way;
            signings++
        :: else
        fi;
        n = 0; value = 0; way = 0; method = 0; aud = 0; caller = 0; shown = 0; to_attacker = 0
      }
    :: break
    od
}

active proctype Attacker() {
    byte value;
    atomic {
        /* a nonce over any terms, with the prefix of called agents or without */
        make_terms(OWN);
        select(value : 0 .. 1); nonces[OWN].tagged = value;
        value = 0
    }
}
