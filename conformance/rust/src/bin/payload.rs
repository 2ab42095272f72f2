//! The crate `sd-jwt-payload`: `SdJwt::parse`, `into_presentation`, which compares `_sd_alg`, and `into_disclosed_object`.
//! Signatures, `alg` and the whole KB-JWT are its caller's: `jsonwebtoken` checks the Issuer's.
use async_trait::async_trait;
use sd_jwt_payload::{JwsSigner, KeyBindingJwt, SdJwt, SdJwtBuilder, Sha256Hasher};
use sdcard_conformance::{checked, paths, serve, signed, text, Answer, UNSUPPORTED};
use serde_json::{json, Map, Value};

struct Key(Value);

#[async_trait]
impl JwsSigner for Key {
    type Error = String;

    async fn sign(&self, header: &Map<String, Value>, payload: &Map<String, Value>) -> Result<Vec<u8>, String> {
        Ok(signed(header, &json!(payload), &self.0).into_bytes())
    }
}

fn pointer(path: &[Value]) -> String {
    path.iter().map(|one| one.as_str().map_or(format!("/{one}"), |name| format!("/{name}"))).collect()
}

fn parsed(request: &Value) -> Result<SdJwt, String> {
    SdJwt::parse(request["text"].as_str().expect("a text")).map_err(text)
}

fn verify(request: &Value) -> Answer {
    let given = request["text"].as_str().expect("a text");
    checked(given.split('~').next().expect("a part"), &request["key"])?;
    let (sd_jwt, _) = parsed(request)?.into_presentation(&Sha256Hasher).map_err(text)?.finish();
    Ok(json!({"claims": sd_jwt.into_disclosed_object(&Sha256Hasher).map_err(text)?}))
}

fn issue(request: &Value) -> Answer {
    let mut builder = SdJwtBuilder::new(&request["claims"]).map_err(text)?;
    let mut hidden = paths(request, "hide", pointer);
    hidden.sort_by_key(|path| std::cmp::Reverse(path.len())); // what is within comes first
    for path in hidden {
        builder = builder.make_concealable(&path).map_err(text)?;
    }
    let builder = builder.headers(request["header"].as_object().expect("an object").clone());
    let issued = pollster::block_on(builder.finish(&Key(request["key"].clone()), "ES256"));
    Ok(json!({"text": issued.map_err(text)?.presentation()}))
}

fn present(request: &Value) -> Answer {
    let mut builder = parsed(request)?.into_presentation(&Sha256Hasher).map_err(text)?.conceal_all();
    for path in paths(request, "show", pointer) {
        builder = builder.disclose(&path).map_err(text)?;
    }
    let (mut sd_jwt, _) = builder.finish();
    let key = Key(request["key"].clone());
    let kb_jwt = KeyBindingJwt::builder()
        .iat(request["now"].as_i64().expect("whole seconds"))
        .aud(request["audience"].as_str().expect("an audience"))
        .nonce(request["nonce"].as_str().expect("a nonce"))
        .finish(&sd_jwt, &Sha256Hasher, "ES256", &key);
    sd_jwt.attach_key_binding_jwt(pollster::block_on(kb_jwt).map_err(text)?);
    Ok(json!({"text": sd_jwt.presentation()}))
}

fn main() {
    serve(|op, request| match op {
        "verify" => verify(request),
        "issue" => issue(request),
        "present" => present(request),
        _ => Err(UNSUPPORTED.to_owned()),
    });
}
