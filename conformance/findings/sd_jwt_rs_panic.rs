//! The crate `sd-jwt-rs` 0.7.1: a Disclosure with two elements, whose digest is in `_sd`, panics the Verifier (RFC 9901 7.1 step
//! 3.c.ii.1 has it refused). The Holder chooses the Disclosures, but the Issuer must have signed the digest. Exit status 0: it still does.
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine;
use jsonwebtoken::{encode, Algorithm, DecodingKey, EncodingKey, Header};
use sd_jwt_rs::utils::base64_hash;
use sd_jwt_rs::{SDJWTSerializationFormat, SDJWTVerifier};
use serde_json::json;

fn main() {
    let disclosure = URL_SAFE_NO_PAD.encode(json!(["salt-salt-salt-salt", "element"]).to_string());
    let payload = json!({"iss": "x", "exp": 4102444800u64, "_sd": [base64_hash(disclosure.as_bytes())]});
    let jwt = encode(&Header::new(Algorithm::HS256), &payload, &EncodingKey::from_secret(b"key")).expect("a JWT");
    let verified = std::panic::catch_unwind(|| {
        let key = Box::new(|_: &str, _: &Header| DecodingKey::from_secret(b"key"));
        SDJWTVerifier::new(format!("{jwt}~{disclosure}~"), key, None, None, SDJWTSerializationFormat::Compact).is_ok()
    });
    println!("{}", if verified.is_err() { "panicked, where it must refuse" } else { "refused" });
    std::process::exit(i32::from(verified.is_ok()));
}
