//! Compact JWSs whose header and payload are JSON objects (RFC 7515), and ECDSA over P-256 (RFC 7518 3.4).

use aws_lc_rs::digest::{Digest, SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, ParsedPublicKey,
};

use crate::base64url;
use crate::json::{Members, Node, Value, member, parse};

const COORDINATE: usize = 32;
/// Parts of a usual SD-JWT.
const FEW: usize = 16;
const UNCOMPRESSED: u8 = 4;

/// A JWS that is read and not verified.
pub struct Jws {
    /// Holds every string of header and payload.
    pub buffer: String,
    header: Vec<Node>,
    payload: Vec<Node>,
    pub signature: Vec<u8>,
}

impl Jws {
    pub fn header(&self) -> Option<Members<'_>> {
        Value::first(&self.header)?.members()
    }

    pub fn payload(&self) -> Option<Members<'_>> {
        Value::first(&self.payload)?.members()
    }
}

/// Issuer-signed JWT and at most so many Disclosures of a compact SD-JWT, and what follows them.
pub fn parts(text: &str, most: usize) -> Option<(Vec<&str>, &str)> {
    let (mut found, mut start) = (Vec::with_capacity(FEW), 0);
    for end in memchr::memchr_iter(b'~', text.as_bytes()) {
        if found.len() > most {
            return None;
        }
        found.push(&text[start..end]);
        start = end + 1;
    }
    (!found.is_empty()).then(|| (found, &text[start..]))
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
    let (mut nodes, mut of_payload) = (Vec::new(), Vec::new());
    parse(&mut data, header, depth, &mut nodes)?;
    parse(&mut data, payload, depth, &mut of_payload)?;
    let read = Jws { buffer: String::from_utf8(data).ok()?, header: nodes, payload: of_payload, signature };
    (are_texts(read.header()?, &read.buffer) && read.payload().is_some()).then_some(read)
}

/// Whether `alg`, `typ` and `kid` are strings, where present.
pub fn are_texts(header: Members, buffer: &str) -> bool {
    let is_text = |name| member(header, name, buffer).is_none_or(|value| value.text(buffer).is_some());
    ["alg", "typ", "kid"].into_iter().all(is_text)
}

/// Whether a header says ES256 and this type, and has no parameter that changes how a JWS is read.
pub fn is_es256(header: Members, typ: Option<&str>, buffer: &str) -> bool {
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

/// The uncompressed point of coordinates as base64url, which may not be on the curve.
pub fn point(x: &str, y: &str) -> Option<Vec<u8>> {
    let mut point = Vec::with_capacity(2 * COORDINATE + 1);
    point.push(UNCOMPRESSED);
    let sizes = [base64url::decode_to(&mut point, x)?.len(), base64url::decode_to(&mut point, y)?.len()];
    (sizes == [COORDINATE; 2]).then_some(point)
}

impl Key {
    /// Reads a key from its coordinates as base64url.
    pub fn read(x: &str, y: &str) -> Option<Self> {
        let point = point(x, y)?;
        let parsed = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &point).ok()?;
        let members = [r#"{"crv":"P-256","kty":"EC","x":""#, x, r#"","y":""#, y, r#""}"#].concat();
        let thumbprint = String::from_utf8(hashed(members.as_bytes()).to_vec()).ok()?;
        Some(Self { point, thumbprint, parsed })
    }

    /// Whether a signature, r and s, is the key's over a message. A `false` is no refusal.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.verifies_digest(&digest(&SHA256, message), signature)
    }

    /// The same over the digest of a message.
    pub fn verifies_digest(&self, hash: &Digest, signature: &[u8]) -> bool {
        signature.len() == 2 * COORDINATE && self.parsed.verify_digest_sig(hash, signature).is_ok()
    }
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

    /// Appends its signature to a signing input.
    pub fn sign_to(&self, text: &mut Vec<u8>) -> Option<()> {
        let signature = self.sign(text)?;
        text.push(b'.');
        base64url::encode_to(text, &signature);
        Some(())
    }
}
