//! Compact JWSs whose header and payload are JSON objects (RFC 7515), and ECDSA over P-256 (RFC 7518 3.4).

use aws_lc_rs::digest::{Context, SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, ParsedPublicKey, UnparsedPublicKey,
};

use crate::base64url;
use crate::json::{Members, member, parse};

const COORDINATE: usize = 32;
const UNCOMPRESSED: u8 = 4;

/// The decoded parts of a JWS.
pub struct Parts<'t> {
    pub header: Vec<u8>,
    pub payload: Vec<u8>,
    pub signing_input: &'t str,
    pub signature: Vec<u8>,
}

/// A JWS that is read and not verified.
pub struct Jws<'p> {
    pub header: Members<'p>,
    pub payload: Members<'p>,
}

/// Splits a JWS and decodes its parts.
pub fn split(text: &str) -> Option<Parts<'_>> {
    let (signing_input, signature) = text.rsplit_once('.')?;
    let (header, payload) = signing_input.split_once('.')?;
    Some(Parts {
        header: base64url::decode(header)?,
        payload: base64url::decode(payload)?,
        signing_input,
        signature: base64url::decode(signature)?,
    })
}

impl Parts<'_> {
    /// Reads header and payload. Declines a header in which `alg`, `typ` or `kid` is no string.
    pub fn read(&self, depth: usize) -> Option<Jws<'_>> {
        let header = parse(&self.header, depth)?.into_members()?;
        for name in ["alg", "typ", "kid"] {
            if member(&header, name).is_some_and(|value| value.text().is_none()) {
                return None;
            }
        }
        Some(Jws { header, payload: parse(&self.payload, depth)?.into_members()? })
    }
}

/// The SHA-256 digest of a text, as base64url.
pub fn hashed(text: &[u8]) -> String {
    base64url::encode(digest(&SHA256, text).as_ref())
}

/// The SHA-256 digest of texts, each with the separator behind it, as base64url.
pub fn hashed_together<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let mut context = Context::new(&SHA256);
    for text in texts {
        context.update(text.as_bytes());
        context.update(b"~");
    }
    base64url::encode(context.finish().as_ref())
}

/// A P-256 key: its uncompressed point, which is on the curve, and its thumbprint (RFC 7638).
pub fn read_point(x: &str, y: &str) -> Option<(Vec<u8>, String)> {
    let mut point = vec![UNCOMPRESSED];
    for text in [x, y] {
        point.extend(Some(base64url::decode(text)?).filter(|data| data.len() == COORDINATE)?);
    }
    ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &point).ok()?;
    let members = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
    Some((point, hashed(members.as_bytes())))
}

/// Whether a signature, r and s, is the key's over the message. A `false` is no refusal.
pub fn verifies(point: &[u8], message: &[u8], signature: &[u8]) -> bool {
    point.first() == Some(&UNCOMPRESSED)
        && signature.len() == 2 * COORDINATE
        && UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
}

/// A private key of P-256.
pub struct Signer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signer {
    /// Reads a private key with its point.
    pub fn new(private: &[u8], point: &[u8]) -> Option<Self> {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, private, point).ok()?;
        (pair.public_key().as_ref() == point).then(|| Self { pair, random: SystemRandom::new() })
    }

    /// Signs a message: r and s.
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let signature = self.pair.sign(&self.random, message).ok()?;
        Some(signature.as_ref().to_vec()).filter(|bytes| bytes.len() == 2 * COORDINATE)
    }
}
