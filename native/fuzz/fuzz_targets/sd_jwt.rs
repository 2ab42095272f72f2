//! No payload with Disclosures makes the reader panic. The first line is the payload; each further one is a Disclosure
//! whose digest the payload may name: `#1`, `#2` and so on stand for the digests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sdcard_kernel::{base64url, json, jws, sd_jwt};

fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    let mut payload = lines.next().unwrap_or_default().to_string();
    let mut texts: Vec<String> = Vec::new();
    for (number, line) in lines.take(9).enumerate() {
        let mut disclosure = line.to_string();
        for (earlier, text) in texts.iter().enumerate() {
            disclosure = disclosure.replace(&format!("#{}", earlier + 1), &jws::hashed(text.as_bytes()));
        }
        texts.push(base64url::encode(disclosure.as_bytes()));
        payload = payload.replace(&format!("#{}", number + 1), &jws::hashed(texts[number].as_bytes()));
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let Some(decoded) = sd_jwt::decode(&texts) else { return };
    let Some(members) = json::parse(payload.as_bytes(), 16).and_then(json::Value::into_members) else { return };
    let limits = sd_jwt::Limits { depth: 16, digests: 32 };
    if let Some(processed) = sd_jwt::process(members, &texts, &decoded, limits) {
        assert_eq!(processed.revealed.len(), texts.len());
        assert!(processed.met >= texts.len());
    }
});
