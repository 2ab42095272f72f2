//! Compact JWSs whose header and payload are JSON objects (RFC 7515), and ECDSA over P-256 (RFC 7518 3.4).

use aws_lc_rs::digest::{Digest, SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, ParsedPublicKey, UnparsedPublicKey,
};

use crate::base64url;
use crate::json::{Members, Value, member, parse};

const COORDINATE: usize = 32;
const UNCOMPRESSED: u8 = 4;

/// A JWS that is read and not verified.
pub struct Jws {
    /// Holds every string of header and payload.
    pub buffer: String,
    pub header: Members,
    pub payload: Members,
    pub signature: Vec<u8>,
}

/// Signing input, header, payload and signature, encoded.
pub fn split(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (signing_input, signature) = text.rsplit_once('.')?;
    let (header, payload) = signing_input.split_once('.')?;
    Some((signing_input, header, payload, signature))
}

/// Reads a JWS. Declines a header in which `alg`, `typ` or `kid` is no string.
pub fn read(text: &str, depth: usize) -> Option<Jws> {
    let (_, header, payload, signature) = split(text)?;
    let signature = base64url::decode(signature)?;
    let mut data = Vec::with_capacity(text.len());
    let (header, payload) = (base64url::decode_to(&mut data, header)?, base64url::decode_to(&mut data, payload)?);
    let header = parse(&mut data, header, depth)?.into_members()?;
    let payload = parse(&mut data, payload, depth)?.into_members()?;
    let buffer = String::from_utf8(data).ok()?;
    are_texts(&header, &buffer).then_some(Jws { buffer, header, payload, signature })
}

/// Whether `alg`, `typ` and `kid` are strings, where present.
pub fn are_texts(header: &Members, buffer: &str) -> bool {
    let is_text = |name| member(header, name, buffer).is_none_or(|value| matches!(value, Value::Text(_)));
    ["alg", "typ", "kid"].into_iter().all(is_text)
}

/// Whether a header says ES256 and this type, and has no parameter that changes how a JWS is read.
pub fn is_es256(header: &Members, typ: Option<&str>, buffer: &str) -> bool {
    let text = |name| member(header, name, buffer).and_then(|value| value.text(buffer));
    let absent = |name| member(header, name, buffer).is_none();
    text("alg") == Some("ES256")
        && text("typ").is_some()
        && (typ.is_none() || text("typ") == typ)
        && absent("crit")
        && absent("b64")
}

/// Characters of a SHA-256 digest.
pub const DIGEST: usize = 43;

/// The SHA-256 digest of a text, as base64url.
pub fn hashed(text: &[u8]) -> [u8; DIGEST] {
    encoded(&digest(&SHA256, text))
}

/// A digest as base64url.
pub fn encoded(hash: &Digest) -> [u8; DIGEST] {
    let mut text = Vec::with_capacity(DIGEST + 1);
    base64url::encode_to(&mut text, hash.as_ref());
    text.try_into().unwrap_or([b'.'; DIGEST]) // never: 32 bytes have 43 characters
}

/// A P-256 key: its uncompressed point, which is on the curve, and its thumbprint (RFC 7638).
pub struct Key {
    pub point: Vec<u8>,
    pub thumbprint: String,
    parsed: ParsedPublicKey,
}

impl Key {
    /// Reads a key from its coordinates as base64url.
    pub fn read(x: &str, y: &str) -> Option<Self> {
        let mut point = Vec::with_capacity(2 * COORDINATE + 1);
        point.push(UNCOMPRESSED);
        for text in [x, y] {
            if base64url::decode_to(&mut point, text)?.len() != COORDINATE {
                return None;
            }
        }
        let parsed = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &point).ok()?;
        let members = [r#"{"crv":"P-256","kty":"EC","x":""#, x, r#"","y":""#, y, r#""}"#].concat();
        let thumbprint = String::from_utf8(hashed(members.as_bytes()).to_vec()).ok()?;
        Some(Self { point, thumbprint, parsed })
    }

    /// Whether a signature, r and s, is the key's over the digest of a message. A `false` is no refusal.
    pub fn verifies(&self, hash: &Digest, signature: &[u8]) -> bool {
        signature.len() == 2 * COORDINATE && self.parsed.verify_digest_sig(hash, signature).is_ok()
    }
}

/// Whether a signature, r and s, is that of the key with this point, over a message. A `false` is no refusal.
pub fn verifies(point: &[u8], message: &[u8], signature: &[u8]) -> bool {
    verifies_digest(point, &digest(&SHA256, message), signature)
}

/// The same over the digest of a message.
pub fn verifies_digest(point: &[u8], hash: &Digest, signature: &[u8]) -> bool {
    point.first() == Some(&UNCOMPRESSED)
        && signature.len() == 2 * COORDINATE
        && UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify_digest(hash, signature).is_ok()
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

    /// The same as base64url.
    pub fn sign_encoded(&self, message: &[u8]) -> Option<String> {
        Some(base64url::encode(&self.sign(message)?))
    }
}
