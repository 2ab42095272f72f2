//! Base64url without padding (RFC 7515 2): each byte string has exactly one text.

const FOREIGN: u8 = 0xff;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const SIX_BITS: [u8; 256] = six_bits();
const PAIRS: [[u8; 2]; 4096] = pairs();

const fn six_bits() -> [u8; 256] {
    let mut table = [FOREIGN; 256];
    let mut at = 0;
    while at < 64 {
        table[ALPHABET[at] as usize] = at as u8;
        at += 1;
    }
    table
}

const fn pairs() -> [[u8; 2]; 4096] {
    let mut table = [[0; 2]; 4096];
    let mut at = 0;
    while at < 4096 {
        table[at] = [ALPHABET[at >> 6], ALPHABET[at & 63]];
        at += 1;
    }
    table
}

/// Decodes a text that is not empty. Declines a foreign character, padding and bits left over.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    let groups = text.chunks_exact(4);
    let rest = groups.remainder();
    if text.is_empty() || rest.len() == 1 {
        return None;
    }
    let mut data = vec![0; text.len() / 4 * 3];
    let mut foreign = 0;
    for (group, three) in groups.zip(data.chunks_exact_mut(3)) {
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| SIX_BITS[group[at] as usize]);
        foreign |= a | b | c | d;
        three.copy_from_slice(&[a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]);
    }
    if let [a, b, ..] = rest {
        let [a, b] = [a, b].map(|&one| SIX_BITS[one as usize]);
        let c = rest.get(2).map_or(0, |&one| SIX_BITS[one as usize]);
        foreign |= a | b | c;
        data.push(a << 2 | b >> 4);
        let left_over = if rest.len() == 3 {
            data.push(b << 4 | c >> 2);
            c & 3
        } else {
            b & 15
        };
        if left_over != 0 {
            return None;
        }
    }
    (foreign & 0xc0 == 0).then_some(data)
}

/// Appends the text of some bytes.
pub fn encode_to(text: &mut Vec<u8>, data: &[u8]) {
    let start = text.len();
    text.resize(start + data.len() / 3 * 4, 0);
    let groups = data.chunks_exact(3);
    let rest = groups.remainder();
    for (group, four) in groups.zip(text[start..].chunks_exact_mut(4)) {
        let bits = (group[0] as usize) << 16 | (group[1] as usize) << 8 | group[2] as usize;
        four[..2].copy_from_slice(&PAIRS[bits >> 12]);
        four[2..].copy_from_slice(&PAIRS[bits & 4095]);
    }
    if let [one] = rest {
        text.extend_from_slice(&PAIRS[(*one as usize) << 4]);
    } else if let [one, other] = rest {
        let bits = (*one as usize) << 10 | (*other as usize) << 2;
        text.extend_from_slice(&PAIRS[bits >> 6]);
        text.push(ALPHABET[bits & 63]);
    }
}

/// The text of some bytes.
pub fn encode(data: &[u8]) -> String {
    let mut text = Vec::new();
    encode_to(&mut text, data);
    String::from_utf8(text).unwrap_or_default()
}
