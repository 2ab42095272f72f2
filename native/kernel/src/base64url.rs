//! Base64url without padding (RFC 7515 2): each byte string has exactly one text.

const FOREIGN: u32 = 0xff00_0000;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// What a character adds to the three bytes of its group, by its position in the group.
const SHIFTED: [[u32; 256]; 4] = [six_bits(18), six_bits(12), six_bits(6), six_bits(0)];
const PAIRS: [[u8; 2]; 4096] = pairs();

const fn six_bits(shift: u32) -> [u32; 256] {
    let mut table = [FOREIGN; 256];
    let mut at = 0;
    while at < 64 {
        table[ALPHABET[at] as usize] = (at as u32) << shift;
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
    let mut seen = 0;
    let bits = |position: usize, byte: u8| SHIFTED[position][byte as usize];
    for (group, three) in groups.zip(data.chunks_exact_mut(3)) {
        let word = bits(0, group[0]) | bits(1, group[1]) | bits(2, group[2]) | bits(3, group[3]);
        seen |= word;
        three.copy_from_slice(&word.to_be_bytes()[1..]);
    }
    if !rest.is_empty() {
        let word = rest.iter().enumerate().fold(0, |word, (position, byte)| word | bits(position, *byte));
        let bytes = word.to_be_bytes();
        let (kept, left_over) = bytes[1..].split_at(rest.len() - 1);
        if left_over.iter().any(|byte| *byte != 0) {
            return None;
        }
        seen |= word;
        data.extend_from_slice(kept);
    }
    (seen & FOREIGN == 0).then_some(data)
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
