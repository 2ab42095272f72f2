//! The crate `affinidi-sd-jwt`: `verify_with_kb_freshness`. Signatures and `alg` are its caller's: `jsonwebtoken` checks them.
use affinidi_sd_jwt::holder::{present, select_disclosures};
use affinidi_sd_jwt::issuer::issue;
use affinidi_sd_jwt::verifier::{verify_with_kb_freshness, KbFreshness};
use affinidi_sd_jwt::*;
use sdcard_conformance::{checked, disclosure_frame, paths, serve, signed, text, Answer, UNSUPPORTED};
use serde_json::{json, Map, Value};

struct Key<'a>(&'a Value, Map<String, Value>);

impl JwtVerifier for Key<'_> {
    fn verify_jwt(&self, jws: &str) -> Result<Value, SdJwtError> {
        checked(jws, self.0).map_err(SdJwtError::Verification)
    }
}

impl JwtSigner for Key<'_> {
    fn algorithm(&self) -> &str {
        "ES256"
    }

    fn sign_jwt(&self, header: &Value, payload: &Value) -> Result<String, SdJwtError> {
        let mut header = header.as_object().expect("an object").clone();
        header.extend(self.1.clone());
        Ok(signed(&header, payload, self.0))
    }
}

fn parsed(request: &Value) -> Result<(SdJwt, &'static dyn SdHasher), String> {
    let given = request["text"].as_str().expect("a text");
    let first = SdJwt::parse(given, &Sha256Hasher).map_err(text)?;
    let hasher: &dyn SdHasher = match first.payload().map_err(text)?["_sd_alg"].as_str() {
        Some("sha-384") => &Sha384Hasher,
        Some("sha-512") => &Sha512Hasher,
        _ => &Sha256Hasher,
    };
    Ok((SdJwt::parse(given, hasher).map_err(text)?, hasher))
}

fn verified(request: &Value) -> Answer {
    let (sd_jwt, hasher) = parsed(request)?;
    let number = |name: &str| request[name].as_f64().expect("a number") as i64;
    let (nonce, audience) = (request["nonce"].as_str(), request["audience"].as_str());
    let options =
        VerificationOptions { verify_kb: nonce.is_some(), expected_audience: audience, expected_nonce: nonce };
    let holder_key = sd_jwt.payload().map_err(text)?["cnf"]["jwk"].clone();
    let (issuer, holder) = (Key(&request["key"], Map::new()), Key(&holder_key, Map::new()));
    let window =
        KbFreshness { max_future_skew_secs: number("future"), ..KbFreshness::new(number("now"), number("past")) };
    let result = verify_with_kb_freshness(&sd_jwt, &issuer, hasher, &options, Some(&holder), &window).map_err(text)?;
    if nonce.is_some() && result.kb_verified != Some(true) {
        return Err("the caller: no KB-JWT".to_owned()); // `kb_verified` tells the caller
    }
    Ok(json!({"claims": result.claims}))
}

fn issued(request: &Value) -> Answer {
    let key = Key(&request["key"], request["header"].as_object().expect("an object").clone());
    Ok(
        json!({"text": issue(&request["claims"], &disclosure_frame(request), &key, &Sha256Hasher, None).map_err(text)?.serialize()}),
    )
}

fn presented(request: &Value) -> Answer {
    let (sd_jwt, hasher) = parsed(request)?;
    let names = paths(request, "show", |path| path.last().and_then(Value::as_str).unwrap_or_default().to_owned());
    if names.contains(&String::new()) {
        return Err(format!("{UNSUPPORTED}it selects by name, and elements have none"));
    }
    let shown = select_disclosures(&sd_jwt, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let signer = Key(&request["key"], Map::new());
    let (audience, nonce) = (request["audience"].as_str().expect("text"), request["nonce"].as_str().expect("text"));
    let kb = KbJwtInput { audience, nonce, signer: &signer, iat: request["now"].as_u64().expect("whole seconds") };
    Ok(json!({"text": present(&sd_jwt, &shown, Some(&kb), hasher).map_err(text)?.serialize()}))
}

fn main() {
    serve(|op, request| match op {
        "verify" => verified(request),
        "issue" => issued(request),
        "present" => presented(request),
        _ => Err(UNSUPPORTED.to_owned()),
    });
}
