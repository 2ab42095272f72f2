//! Base64url without padding (RFC 7515 2): each byte string has exactly one text.

use std::ops::Range;

use base64_simd::URL_SAFE_NO_PAD;

/// Appends the bytes of a text that is not empty. Declines a foreign character, padding and bits left over.
pub fn decode_to(data: &mut Vec<u8>, text: &str) -> Option<Range<usize>> {
    let start = data.len();
    URL_SAFE_NO_PAD.decode_append(text, data).ok()?;
    (data.len() > start).then_some(start..data.len())
}

/// The bytes of a text, as `decode_to` has them.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    decode_to(&mut data, text)?;
    Some(data)
}

/// Appends the text of some bytes.
pub fn encode_to(text: &mut Vec<u8>, data: &[u8]) {
    URL_SAFE_NO_PAD.encode_append(data, text);
}

/// The text of some bytes.
pub fn encode(data: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode_to_string(data)
}
