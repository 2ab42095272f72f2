//! No KB-JWT makes the reader panic, and an accepted one says what is expected. `#` stands for the `sd_hash`; the first
//! line is the header, the second the payload.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sdcard_kernel::base64url;
use sdcard_kernel::claims::{Binding, Expected};

fuzz_target!(|text: &str| {
    let (header, payload) = text.split_once('\n').unwrap_or((r#"{"alg":"ES256","typ":"kb+jwt"}"#, text));
    let sd_hash = [b's'; 43];
    let payload = payload.replace('#', std::str::from_utf8(&sd_hash).unwrap());
    let encoded = |text: &str| base64url::encode(text.as_bytes());
    let kb_jwt = format!("{}.{}.AAAA", encoded(header), encoded(&payload));
    for (nonce, interaction) in [(Some("n"), None), (None, Some("i"))] {
        let expected = Expected { audience: "a", nonce, interaction, earliest: 1.0, latest: 9.0 };
        let Some(read) = Binding::read(&kb_jwt, &sd_hash, &expected, 8) else { continue };
        assert!((1..=9).contains(&read.issued_at) && nonce.is_none_or(|nonce| nonce == read.nonce));
        assert!(interaction.is_none() || interaction == read.interaction.as_deref());
        assert!(payload.contains("iat") || payload.contains("\\u"));
    }
});
