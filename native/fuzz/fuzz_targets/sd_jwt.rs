//! No payload with Disclosures makes the reader panic. The first line is the payload; each further one is a Disclosure
//! whose digest the payload may name: `#1`, `#2` and so on stand for the digests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sdcard_kernel::claims::{Binding, Expected, Terms};
use sdcard_kernel::holder::{Answer, Segment};
use sdcard_kernel::sd_jwt::{Limits, SdJwt};
use sdcard_kernel::{base64url, jws};

fn hashed(text: &str) -> String {
    String::from_utf8(jws::hashed(text.as_bytes()).to_vec()).unwrap()
}

fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    let mut payload = lines.next().unwrap_or_default().to_string();
    let mut texts: Vec<String> = Vec::new();
    for (number, line) in lines.take(9).enumerate() {
        let mut disclosure = line.to_string();
        for (earlier, text) in texts.iter().enumerate() {
            disclosure = disclosure.replace(&format!("#{}", earlier + 1), &hashed(text));
        }
        texts.push(base64url::encode(disclosure.as_bytes()));
        payload = payload.replace(&format!("#{}", number + 1), &hashed(&texts[number]));
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let header = base64url::encode(br#"{"alg":"ES256","typ":"dc+sd-jwt"}"#);
    let issuer_jwt = format!("{header}.{}.AAAA", base64url::encode(payload.as_bytes()));
    let Some(read) = SdJwt::read(&issuer_jwt, &texts, Limits { depth: 16, digests: 32 }, None) else { return };
    assert_eq!(read.processed.revealed.len(), texts.len());
    assert!(read.processed.met >= texts.len() && read.size() > read.buffer.len());
    let terms = Terms { expired: 0.0, begun: 1e12, longest: None, audience: Some("a") };
    read.card(&terms);
    let shown =
        read.select(&[vec![Segment::Name("a")], vec![Segment::Name("b"), Segment::Index(0)]]).unwrap_or_default();
    let chosen: Vec<&str> = shown.iter().map(|&number| texts[number]).collect();
    let answer = Answer { issued_at: 1, audience: "a", nonce: "n", interaction: None };
    assert!(chosen.is_empty() || read.shown(&texts, &chosen).is_some());
    let input = read.bind(&chosen, &header, &answer, None).unwrap();
    let expected = Expected { audience: "a", nonce: Some("n"), interaction: None, earliest: 0.0, latest: 2.0 };
    assert!(Binding::read(&format!("{input}.AAAA"), &read.sd_hash_of(&chosen), &expected, 4).is_none());
});
