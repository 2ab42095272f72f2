//! No JSON text makes the reader panic, and what it reads has one spelling.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sdcard_kernel::base64url;
use sdcard_kernel::json::{elements, parse};

fuzz_target!(|data: &[u8]| {
    let mut buffer = data.to_vec();
    if parse(&mut buffer, 0..data.len(), 64, &mut Vec::new()).is_some() {
        assert_eq!(std::str::from_utf8(data).is_ok(), std::str::from_utf8(&buffer).is_ok());
        assert!(!data.starts_with(b"[") || elements(data.trim_ascii()).is_some() || std::str::from_utf8(data).is_err());
    }
    elements(data);
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(base64url::decode(text).is_none_or(|bytes| base64url::encode(&bytes) == text));
    }
});
