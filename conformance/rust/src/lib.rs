//! What the Rust adapters share: the protocol, a clock that the driver sets, and keys.
use std::fmt::Display;
use std::io::{BufRead, Write};
use std::panic;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{crypto, decode, Algorithm, DecodingKey, EncodingKey, Validation};
use serde_json::{json, Map, Value};

pub type Answer = Result<Value, String>;
pub const UNSUPPORTED: &str = "unsupported: ";

static NOW: AtomicI64 = AtomicI64::new(0);

/// Stands before the C library's function of this name: the libraries take no clock.
///
/// # Safety
/// As the C library's: `time` points to a `timespec`.
#[no_mangle]
pub unsafe extern "C" fn clock_gettime(_clock: i32, time: *mut [i64; 2]) -> i32 {
    *time = [NOW.load(Ordering::Relaxed), 0];
    0
}

/// Answers one request a line until the input ends.
pub fn serve(answer: impl Fn(&str, &Value) -> Answer + panic::RefUnwindSafe) {
    panic::set_hook(Box::new(|_| ()));
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.expect("a line")).expect("a request");
        NOW.store(request["now"].as_f64().expect("`now`") as i64, Ordering::Relaxed);
        let op = request["op"].as_str().expect("`op`");
        let reply = match panic::catch_unwind(panic::AssertUnwindSafe(|| answer(op, &request))) {
            Ok(Ok(mut value)) => {
                value["outcome"] = json!("accepted");
                value
            }
            Ok(Err(error)) if error.starts_with(UNSUPPORTED) => {
                json!({"outcome": "unsupported", "error": error})
            }
            Ok(Err(error)) => json!({"outcome": "refused", "error": error}),
            Err(_) => json!({"outcome": "refused", "error": "panic: "}),
        };
        println!("{reply}");
        std::io::stdout().flush().expect("a reader");
    }
}

pub fn text(error: impl Display) -> String {
    error.to_string()
}

pub fn public_key(jwk: &Value) -> Result<DecodingKey, String> {
    let jwk: Jwk = serde_json::from_value(jwk.clone()).map_err(text)?;
    DecodingKey::from_jwk(&jwk).map_err(text)
}

/// A P-256 key, as the PKCS #8 document that `jsonwebtoken` reads.
pub fn private_key(jwk: &Value) -> EncodingKey {
    let part = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().expect("a string")).expect("base64url");
    let mut der = URL_SAFE_NO_PAD.decode("MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg").expect("base64url");
    der.extend(part("d"));
    der.extend([0xa1, 0x44, 0x03, 0x42, 0x00, 0x04]);
    der.extend(part("x").into_iter().chain(part("y")));
    EncodingKey::from_ec_der(&der)
}

/// The signature and `alg` of a JWT, for libraries that leave both to their callers. The key decides the algorithm.
pub fn checked(jwt: &str, jwk: &Value) -> Answer {
    let algorithm = match jwk["crv"].as_str() {
        Some("P-256") => Algorithm::ES256,
        Some("P-384") => Algorithm::ES384,
        _ => Algorithm::EdDSA,
    };
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_aud) = (false, false);
    Ok(decode::<Value>(jwt, &public_key(jwk)?, &validation).map_err(text)?.claims)
}

pub fn signed(header: &Map<String, Value>, payload: &Value, jwk: &Value) -> String {
    let header = json!(header).to_string();
    let input = [header, payload.to_string()].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
    let signature = crypto::sign(input.as_bytes(), &private_key(jwk), Algorithm::ES256).expect("a signature");
    format!("{input}.{signature}")
}

/// The paths of a request, each joined by a function.
pub fn paths(request: &Value, name: &str, join: impl Fn(&[Value]) -> String) -> Vec<String> {
    request[name].as_array().into_iter().flatten().map(|path| join(path.as_array().expect("a path"))).collect()
}

/// `{"_sd": [names], "name": {…}}` for the hidden places.
pub fn disclosure_frame(request: &Value) -> Value {
    let mut frame = json!({});
    for path in request["hide"].as_array().into_iter().flatten() {
        let (last, before) = path.as_array().and_then(|path| path.split_last()).expect("a path");
        let last = json!(last.as_str().map_or(last.to_string(), str::to_owned)); // indices are texts too
        let place = before.iter().fold(&mut frame, |place, name| &mut place[name.as_str().expect("a name")]);
        match place["_sd"].as_array_mut() {
            Some(names) => names.push(last.clone()),
            None => place["_sd"] = json!([last]),
        }
    }
    frame
}
