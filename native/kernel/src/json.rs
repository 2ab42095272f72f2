//! Strict JSON (RFC 8259): UTF-8, no repeated member, no number that would be read as another one.
//!
//! Numbers are read when Python writes them the same way; every other spelling is declined.

use std::borrow::Cow;
use std::collections::HashSet;

use memchr::memchr;

/// Arrays and objects in one text: Python accepts no fewer.
const MOST_CONTAINERS: usize = 32_768;
/// Members of an object that are compared one by one.
const FEW: usize = 12;

pub type Text<'a> = Cow<'a, str>;
pub type Members<'a> = Vec<(Text<'a>, Value<'a>)>;

#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Text<'a>),
    Array(Vec<Value<'a>>),
    Object(Members<'a>),
}

impl<'a> Value<'a> {
    pub fn text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    pub fn into_members(self) -> Option<Members<'a>> {
        if let Value::Object(members) = self { Some(members) } else { None }
    }
}

/// The member of a name.
pub fn member<'v, 'a>(members: &'v Members<'a>, name: &str) -> Option<&'v Value<'a>> {
    members.iter().find(|(one, _)| one == name).map(|(_, value)| value)
}

/// Reads a text in which arrays and objects nest no deeper than `depth`.
pub fn parse(data: &[u8], depth: usize) -> Option<Value<'_>> {
    let text = std::str::from_utf8(data).ok()?;
    let mut reader = Reader { text, data, at: 0, containers: 0 };
    reader.space();
    let value = reader.value(depth)?;
    reader.space();
    (reader.at == data.len()).then_some(value)
}

/// A text as JSON. Declines one with escapes.
pub fn quoted(text: &str) -> Option<Vec<u8>> {
    (plain(text.as_bytes()) == text.len()).then(|| [b"\"", text.as_bytes(), b"\""].concat())
}

/// Whether a number of JSON has an exponent, which two writers spell differently.
pub fn has_exponent(json: &[u8]) -> bool {
    let mut rest = json;
    while !rest.is_empty() {
        let quote = memchr(b'"', rest).unwrap_or(rest.len());
        if rest[..quote].windows(2).any(|pair| pair[0].is_ascii_digit() && matches!(pair[1], b'e' | b'E')) {
            return true;
        }
        rest = rest.get(quote + 1..).unwrap_or_default();
        let mut end = plain(rest);
        while rest.get(end).is_some_and(|byte| *byte != b'"') {
            end = (end + if rest[end] == b'\\' { 2 } else { 1 }).min(rest.len());
            end += plain(&rest[end..]);
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    false
}

struct Reader<'a> {
    text: &'a str,
    data: &'a [u8],
    at: usize,
    containers: usize,
}

impl<'a> Reader<'a> {
    fn space(&mut self) {
        while matches!(self.data.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = *self.data.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, literal: &[u8]) -> Option<()> {
        let found = self.data.get(self.at..)?.starts_with(literal);
        self.at += literal.len();
        found.then_some(())
    }

    /// Counts an array or object, and says how deeply others may nest in it.
    fn enter(&mut self, depth: usize) -> Option<usize> {
        self.at += 1;
        self.containers += 1;
        self.space();
        if self.containers > MOST_CONTAINERS { None } else { depth.checked_sub(1) }
    }

    fn value(&mut self, depth: usize) -> Option<Value<'a>> {
        match self.data.get(self.at)? {
            b'"' => self.string().map(Value::Text),
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b't' => self.skip(b"true").map(|()| Value::Bool(true)),
            b'f' => self.skip(b"false").map(|()| Value::Bool(false)),
            b'n' => self.skip(b"null").map(|()| Value::Null),
            _ => self.number(),
        }
    }

    fn array(&mut self, depth: usize) -> Option<Value<'a>> {
        let within = self.enter(depth)?;
        let mut elements = Vec::new();
        if self.data.get(self.at) == Some(&b']') {
            self.at += 1;
            return Some(Value::Array(elements));
        }
        loop {
            elements.push(self.value(within)?);
            self.space();
            match self.next()? {
                b',' => self.space(),
                b']' => return Some(Value::Array(elements)),
                _ => return None,
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value<'a>> {
        let within = self.enter(depth)?;
        let mut members = Members::new();
        if self.data.get(self.at) == Some(&b'}') {
            self.at += 1;
            return Some(Value::Object(members));
        }
        loop {
            let name = self.string()?;
            self.space();
            self.skip(b":")?;
            self.space();
            members.push((name, self.value(within)?));
            self.space();
            match self.next()? {
                b',' => self.space(),
                b'}' => return are_different(&members).then_some(Value::Object(members)),
                _ => return None,
            }
        }
    }

    /// Reads a string, which is a part of the text unless it has escapes.
    fn string(&mut self) -> Option<Text<'a>> {
        self.skip(b"\"")?;
        let mut start = self.at;
        let mut joined = String::new();
        loop {
            self.at += plain(&self.data[self.at..]);
            match self.next()? {
                b'"' => {
                    let part = self.text.get(start..self.at - 1)?;
                    if joined.is_empty() {
                        return Some(Cow::Borrowed(part));
                    }
                    joined.push_str(part);
                    return Some(Cow::Owned(joined));
                }
                b'\\' => {
                    joined.push_str(self.text.get(start..self.at - 1)?);
                    joined.push(self.escape()?);
                    start = self.at;
                }
                _ => return None, // a control character
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        Some(match self.next()? {
            byte @ (b'"' | b'\\' | b'/') => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.four_digits()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first);
                }
                self.skip(b"\\u")?;
                let second = self.four_digits()?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
                char::from_u32(0x10000 + ((first - 0xd800) << 10) + second)?
            }
            _ => return None,
        })
    }

    fn four_digits(&mut self) -> Option<u32> {
        let mut code = 0;
        for _ in 0..4 {
            code = code << 4 | char::from(self.next()?).to_digit(16)?;
        }
        Some(code)
    }

    fn number(&mut self) -> Option<Value<'a>> {
        let rest = self.text.get(self.at..)?;
        let is_part = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'+' | b'e' | b'E');
        let end = rest.bytes().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let literal = rest.get(..end)?;
        self.at += end;
        if literal.contains('.') {
            let number: f64 = literal.parse().ok()?;
            return (format!("{number:?}") == literal && !literal.contains('e')).then_some(Value::Float(number));
        }
        let number: i64 = literal.parse().ok()?;
        let digits = literal.strip_prefix('-').unwrap_or(literal);
        let is_written_so =
            digits.starts_with(|first: char| first.is_ascii_digit()) && (!digits.starts_with('0') || literal == "0");
        is_written_so.then_some(Value::Int(number))
    }
}

/// The length of what stands before the first quote, backslash or control character.
fn plain(data: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_in = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let mut at = 0;
    while let Some(eight) = data.get(at..at + 8).and_then(|slice| slice.try_into().ok()) {
        let word = u64::from_le_bytes(eight);
        let below_space = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let found = below_space | zero_in(word ^ (ONES * u64::from(b'"'))) | zero_in(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8; // the first one found is never a false one
        }
        at += 8;
    }
    let stops = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    at + data[at..].iter().position(stops).unwrap_or(data.len() - at)
}

/// Whether no two members have the same name.
pub fn are_different(members: &Members) -> bool {
    if members.len() <= FEW {
        return members.iter().enumerate().all(|(at, (name, _))| members[..at].iter().all(|(other, _)| other != name));
    }
    let mut names = HashSet::with_capacity(members.len());
    members.iter().all(|(name, _)| names.insert(name.as_ref()))
}
