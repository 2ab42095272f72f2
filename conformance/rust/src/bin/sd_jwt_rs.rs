//! The crate `sd-jwt-rs`: `SDJWTVerifier` with audience and nonce.
use conformance::{paths, private_key, public_key, serve, text, Answer, UNSUPPORTED};
use sd_jwt_rs::{
    ClaimsForSelectiveDisclosureStrategy, SDJWTHolder, SDJWTIssuer, SDJWTSerializationFormat, SDJWTVerifier,
};
use sdcard_conformance as conformance;
use serde_json::{json, Map, Value};

fn verify(request: &Value) -> Answer {
    let key = public_key(&request["key"])?;
    let given = |name: &str| request[name].as_str().map(str::to_owned);
    let verifier = SDJWTVerifier::new(
        given("text").expect("a text"),
        Box::new(move |_, _| key.clone()),
        given("audience"),
        given("nonce"),
        SDJWTSerializationFormat::Compact,
    );
    Ok(json!({"claims": verifier.map_err(text)?.verified_claims}))
}

fn issue(request: &Value) -> Answer {
    let hidden = paths(request, "hide", |path| {
        path.iter().fold("$".to_owned(), |start, one| match one {
            Value::String(name) => format!("{start}.{name}"),
            number => format!("{start}[{number}]"),
        })
    });
    let strategy = ClaimsForSelectiveDisclosureStrategy::Custom(hidden.iter().map(String::as_str).collect());
    let issued = SDJWTIssuer::new(private_key(&request["key"]), None).issue_sd_jwt(
        request["claims"].clone(),
        strategy,
        None,
        false,
        SDJWTSerializationFormat::Compact,
    );
    Ok(json!({"text": issued.map_err(text)?}))
}

/// What to show, as a tree in the shape of the claims.
fn tree(claims: &Value, paths: &[&[Value]]) -> Value {
    let within = |name: &Value| -> Vec<&[Value]> {
        paths.iter().filter(|path| path.first() == Some(name)).map(|path| &path[1..]).collect()
    };
    match claims {
        _ if paths.iter().all(|path| path.is_empty()) => json!(!paths.is_empty()),
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| !within(&json!(name)).is_empty())
            .map(|(name, value)| (name.clone(), tree(value, &within(&json!(name)))))
            .collect(),
        Value::Array(list) => list.iter().enumerate().map(|(n, value)| tree(value, &within(&json!(n)))).collect(),
        _ => json!(true),
    }
}

fn present(request: &Value) -> Answer {
    let given = |name: &str| request[name].as_str().map(str::to_owned);
    let show: Vec<&[Value]> = request["show"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|path| path.as_array().expect("a path").as_slice())
        .collect();
    let shown: Map<String, Value> = serde_json::from_value(tree(&request["claims"], &show)).map_err(text)?;
    let mut holder =
        SDJWTHolder::new(given("text").expect("a text"), SDJWTSerializationFormat::Compact).map_err(text)?;
    let key = Some(private_key(&request["key"]));
    let presented = holder.create_presentation(shown, given("nonce"), given("audience"), key, Some("ES256".to_owned()));
    Ok(json!({"text": presented.map_err(text)?}))
}

fn main() {
    serve(|op, request| match op {
        "verify" => verify(request),
        "issue" => issue(request),
        "present" => present(request),
        _ => Err(UNSUPPORTED.to_owned()),
    });
}
