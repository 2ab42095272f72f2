//! No JSON text makes the reader panic, and what it reads has one spelling.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sdcard_kernel::base64url;
use sdcard_kernel::json::{has_exponent, parse};

fuzz_target!(|data: &[u8]| {
    if parse(data, 64).is_some() {
        assert!(std::str::from_utf8(data).is_ok() && !has_exponent(data));
    }
    has_exponent(data);
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(base64url::decode(text).is_none_or(|bytes| base64url::encode(&bytes) == text));
    }
});
