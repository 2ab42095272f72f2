//! Rules for the claims of ordinary tokens: an SD-Card's Issuer-signed JWT, and its KB-JWT.
//!
//! Python has every rule; here stand those that ordinary tokens keep, and everything else is declined.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Digest, SHA256, digest};

use crate::json::{Members, Node, Text, Value, member};
use crate::jws::{self, Key, is_es256};
use crate::sd_jwt::{SdJwt, Step};

/// Claims of the SD-Card itself: none may be selective.
pub const RESERVED: [&str; 15] = [
    "iss",
    "sub",
    "iat",
    "exp",
    "cnf",
    "vct",
    "nbf",
    "aud",
    "jti",
    "status",
    "card_format",
    "vct#integrity",
    "aka_vcts",
    "_sd_alg",
    "issuer_checks",
];
/// The first second after the year 9999.
const END: i64 = 253_402_300_800;
const MOST_NONCE: usize = 256;

/// What an SD-Card's claims must agree with.
pub struct Terms<'t> {
    /// `exp` is later.
    pub expired: f64,
    /// `iat` and `nbf` are not later.
    pub begun: f64,
    /// The most seconds from `iat` to `exp`.
    pub longest: Option<f64>,
    pub audience: Option<&'t str>,
}

/// An SD-Card's own claims.
pub struct Card<'c> {
    pub issuer: &'c str,
    pub subject: &'c str,
    pub issued_at: i64,
    pub expires_at: i64,
    pub coordinates: (&'c str, &'c str),
    pub vct: &'c str,
    pub not_before: Option<i64>,
    pub audience: Option<&'c str>,
    pub token_id: Option<&'c str>,
    pub card_format: Option<&'c str>,
    pub status: Option<Value<'c>>,
    pub issuer_checks: Option<Value<'c>>,
}

/// Reads claims of one token.
struct Claims<'c>(Members<'c>, &'c str);

impl<'c> Claims<'c> {
    fn get(&self, name: &str) -> Option<Value<'c>> {
        member(self.0, name, self.1)
    }

    fn text(&self, name: &str) -> Option<&'c str> {
        self.get(name)?.text(self.1).filter(|text| !text.is_empty())
    }

    fn date(&self, name: &str) -> Option<i64> {
        self.get(name)?.int().filter(|seconds| (0..END).contains(seconds))
    }

    /// Reads a claim that may be absent; declines another type.
    fn optional<T>(&self, name: &str, read: impl Fn(&Self, &str) -> Option<T>) -> Option<Option<T>> {
        if self.get(name).is_none() { Some(None) } else { read(self, name).map(Some) }
    }
}

impl SdJwt {
    /// The claims, if an Issuer's JWT of this type that was signed with ES256 may have them.
    ///
    /// The caller decides about Issuer, key, type, `vct`, status and the Issuer's checks.
    pub fn card(&self, terms: &Terms) -> Option<Card<'_>> {
        let buffer = &self.buffer[..];
        let is_reserved = |name: &Text| RESERVED.contains(&name.of(buffer));
        let tops = self.processed.revealed.iter().filter_map(|one| one.place.first());
        let mut selective = tops.map(|step| !matches!(step, Step::Name(name) if !is_reserved(name)));
        let is_selective = selective.any(|one| one) || self.processed.partly.iter().any(is_reserved);
        let claims = Claims(self.processed.claims()?, buffer);
        if is_selective || !is_es256(self.header()?, None, buffer) {
            return None;
        }
        let card = Card {
            issuer: claims.text("iss")?,
            subject: claims.text("sub")?,
            issued_at: claims.date("iat")?,
            expires_at: claims.date("exp")?,
            coordinates: coordinates(&claims)?,
            vct: claims.text("vct")?,
            not_before: claims.optional("nbf", Claims::date)?,
            audience: claims.optional("aud", Claims::text)?,
            token_id: claims.optional("jti", Claims::text)?,
            card_format: claims.optional("card_format", Claims::text)?,
            status: claims.get("status"),
            issuer_checks: claims.get("issuer_checks"),
        };
        let lifetime = (card.expires_at - card.issued_at) as f64;
        let is_timely = (card.expires_at as f64) > terms.expired
            && card.issued_at.max(card.not_before.unwrap_or(0)) as f64 <= terms.begun
            && terms.longest.is_none_or(|longest| lifetime <= longest);
        let is_null = [card.status, card.issuer_checks].into_iter().flatten().any(|claim| claim.node() == Node::Null);
        (is_timely && !is_null && (card.audience.is_none() || card.audience == terms.audience)).then_some(card)
    }

    /// Whether a claim is a member of the card.
    pub fn is_of_card(&self, name: Text) -> bool {
        !RESERVED.contains(&name.of(&self.buffer))
    }
}

/// The P-256 key in `cnf`: a known key, if it is that one.
pub fn confirmed_key(claims: Members, buffer: &str, known: Option<&Arc<Key>>) -> Option<Arc<Key>> {
    let (x, y) = coordinates(&Claims(claims, buffer))?;
    let point = jws::point(x, y)?;
    known.filter(|key| key.point == point).cloned().or_else(|| Key::read(x, y).map(Arc::new))
}

/// The coordinates in a `cnf` that has a P-256 key and nothing else.
fn coordinates<'c>(claims: &Claims<'c>) -> Option<(&'c str, &'c str)> {
    let confirmed = Claims(claims.get("cnf")?.members()?, claims.1);
    let key = Claims(confirmed.get("jwk")?.members()?, claims.1);
    let is_alone = confirmed.0.count() == 1 && key.0.count() == 4;
    (is_alone && key.text("kty")? == "EC" && key.text("crv")? == "P-256").then_some((key.text("x")?, key.text("y")?))
}

/// What a KB-JWT must agree with.
pub struct Expected<'e> {
    pub audience: &'e str,
    /// None if the Holder chose it.
    pub nonce: Option<&'e str>,
    pub interaction: Option<&'e str>,
    /// Inclusive bounds of `iat`.
    pub earliest: f64,
    pub latest: f64,
}

/// A KB-JWT whose claims agree, and whose signature was not verified.
pub struct Binding {
    pub issued_at: i64,
    pub nonce: String,
    pub interaction: Option<String>,
    pub signed: Digest,
    pub signature: Vec<u8>,
}

impl Binding {
    /// Reads a KB-JWT. Declines `exp` and `nbf`.
    pub fn read(text: &str, sd_hash: &[u8], expected: &Expected, depth: usize) -> Option<Self> {
        let jws = jws::read(text, depth)?;
        let (signing_input, ..) = jws::split(text)?;
        let claims = Claims(jws.payload()?, &jws.buffer);
        let same = |one: &str, other: &[u8]| verify_slices_are_equal(one.as_bytes(), other).is_ok();
        let (nonce, issued_at) = (claims.text("nonce")?, claims.date("iat")?);
        let interaction = claims.optional("interaction_id", Claims::text)?;
        let is_expected = is_es256(jws.header()?, Some("kb+jwt"), &jws.buffer)
            && (expected.earliest..=expected.latest).contains(&(issued_at as f64))
            && nonce.chars().count() <= MOST_NONCE
            && expected.nonce.is_none_or(|one| same(nonce, one.as_bytes()))
            && same(claims.text("aud")?, expected.audience.as_bytes())
            && same(claims.text("sd_hash")?, sd_hash)
            && (expected.interaction.is_none() || interaction == expected.interaction)
            && claims.get("exp").or(claims.get("nbf")).is_none();
        is_expected.then(|| Self {
            issued_at,
            nonce: nonce.to_string(),
            interaction: interaction.map(str::to_string),
            signed: digest(&SHA256, signing_input.as_bytes()),
            signature: jws.signature.clone(),
        })
    }
}
