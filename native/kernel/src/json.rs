//! Strict JSON (RFC 8259): UTF-8, no repeated member, no number that would be read as another one.
//!
//! Numbers are read when Python writes them the same way; every other spelling is declined.

use std::ops::Range;

/// Arrays and objects in one text: Python accepts no fewer.
const MOST_CONTAINERS: usize = 32_768;
/// Digits of a number with a fraction. With more, two texts can be equally near to it, and writers choose differently.
const MOST_DIGITS: usize = 15;
/// Names that are compared one by one.
const FEW: usize = 12;
/// From this length on, a string is looked through in strides.
const LONG: usize = 16;
const STRIDE: usize = 32;

/// A string: a part of the buffer that was parsed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Text {
    start: u32,
    end: u32,
}

/// A value. What an array or object contains follows it: so many nodes, and in an object each name before its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Node {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Text),
    Array(u32),
    Object(u32),
}

/// A value with everything inside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value<'n>(&'n [Node]);

/// The elements of an array.
#[derive(Clone, Copy)]
pub struct Elements<'n>(&'n [Node]);

/// The members of an object.
#[derive(Clone, Copy)]
pub struct Members<'n>(Elements<'n>);

impl Text {
    fn new(range: Range<usize>) -> Option<Self> {
        Some(Self { start: u32::try_from(range.start).ok()?, end: u32::try_from(range.end).ok()? })
    }

    /// The characters, in the buffer that was parsed.
    pub fn of(self, buffer: &str) -> &str {
        &buffer[self.start as usize..self.end as usize]
    }

    fn bytes(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.start as usize..self.end as usize]
    }
}

impl<'n> Value<'n> {
    /// The first value of some nodes.
    pub fn first(nodes: &'n [Node]) -> Option<Self> {
        Elements(nodes).next()
    }

    pub fn nodes(self) -> &'n [Node] {
        self.0
    }

    pub fn node(self) -> Node {
        self.0[0]
    }

    pub fn text(self, buffer: &str) -> Option<&str> {
        if let Node::Text(text) = self.node() { Some(text.of(buffer)) } else { None }
    }

    pub fn int(self) -> Option<i64> {
        if let Node::Int(number) = self.node() { Some(number) } else { None }
    }

    pub fn elements(self) -> Option<Elements<'n>> {
        matches!(self.node(), Node::Array(_)).then(|| Elements(&self.0[1..]))
    }

    pub fn members(self) -> Option<Members<'n>> {
        matches!(self.node(), Node::Object(_)).then(|| Members(Elements(&self.0[1..])))
    }
}

impl<'n> Iterator for Elements<'n> {
    type Item = Value<'n>;

    fn next(&mut self) -> Option<Value<'n>> {
        let length = match self.0.first()? {
            Node::Array(inside) | Node::Object(inside) => *inside as usize + 1,
            _ => 1,
        };
        let (value, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(Value(value))
    }
}

impl<'n> Iterator for Members<'n> {
    type Item = (Text, Value<'n>);

    fn next(&mut self) -> Option<(Text, Value<'n>)> {
        let Node::Text(name) = self.0.next()?.node() else { return None };
        Some((name, self.0.next()?))
    }
}

/// The member of a name.
pub fn member<'n>(mut members: Members<'n>, name: &str, buffer: &str) -> Option<Value<'n>> {
    members.find(|(one, _)| one.of(buffer) == name).map(|(_, value)| value)
}

/// Adds the value of a part of a buffer to some nodes. Arrays and objects nest no deeper than `depth`.
///
/// A string with escapes is replaced by its characters and spaces, so that it is a part of the buffer too. The part is
/// UTF-8 after that if it was before; the caller checks it.
pub fn parse(buffer: &mut [u8], part: Range<usize>, depth: usize, nodes: &mut Vec<Node>) -> Option<()> {
    let data = buffer.get_mut(..part.end)?;
    let mut reader = Reader { data, at: part.start, containers: 0, nodes, names: Vec::with_capacity(FEW) };
    reader.space();
    reader.value(depth)?;
    reader.space();
    (reader.at == part.end).then_some(())
}

/// A text as JSON. Declines one with escapes.
pub fn quoted(text: &str) -> Option<String> {
    (plain(text.as_bytes()) == text.len()).then(|| ["\"", text, "\""].concat())
}

/// The elements of a JSON array that a writer made, each as its text.
///
/// Declines a number with an exponent, which two writers spell differently.
pub fn elements(json: &[u8]) -> Option<Vec<&[u8]>> {
    let inside = json.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let (mut found, mut depth, mut start, mut at) = (Vec::new(), 0_usize, 0, 0);
    while at < inside.len() {
        match inside[at] {
            b'"' => at = end_of_string(inside, at + 1),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                found.push(&inside[start..at]);
                start = at + 1;
            }
            b'e' | b'E' if at > 0 && inside[at - 1].is_ascii_digit() => return None,
            _ => {}
        }
        at += 1;
    }
    if !inside.is_empty() {
        found.push(inside.get(start..)?);
    }
    Some(found)
}

/// The place of the quote that ends a string.
fn end_of_string(json: &[u8], mut at: usize) -> usize {
    loop {
        at += plain(json.get(at..).unwrap_or_default());
        match json.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') | None => return at,
            Some(_) => at += 1,
        }
    }
}

struct Reader<'d> {
    data: &'d mut [u8],
    at: usize,
    containers: usize,
    nodes: &'d mut Vec<Node>,
    /// Of the open objects.
    names: Vec<Text>,
}

impl Reader<'_> {
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

    fn value(&mut self, depth: usize) -> Option<()> {
        let node = match self.data.get(self.at)? {
            b'"' => Node::Text(self.string()?),
            b'{' => return self.object(depth),
            b'[' => return self.array(depth),
            b't' => self.skip(b"true").map(|()| Node::Bool(true))?,
            b'f' => self.skip(b"false").map(|()| Node::Bool(false))?,
            b'n' => self.skip(b"null").map(|()| Node::Null)?,
            _ => self.number()?,
        };
        self.nodes.push(node);
        Some(())
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        let within = self.enter(depth)?;
        let start = self.nodes.len();
        self.nodes.push(Node::Array(0));
        if self.data.get(self.at) == Some(&b']') {
            self.at += 1;
            return Some(());
        }
        loop {
            self.value(within)?;
            self.space();
            match self.next()? {
                b',' => self.space(),
                b']' => return end(self.nodes, start),
                _ => return None,
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        let within = self.enter(depth)?;
        let (start, names) = (self.nodes.len(), self.names.len());
        self.nodes.push(Node::Object(0));
        if self.data.get(self.at) == Some(&b'}') {
            self.at += 1;
            return Some(());
        }
        loop {
            let name = self.string()?;
            self.names.push(name);
            self.nodes.push(Node::Text(name));
            self.space();
            self.skip(b":")?;
            self.space();
            self.value(within)?;
            self.space();
            match self.next()? {
                b',' => self.space(),
                b'}' => {
                    let are_different = are_different(&self.names[names..], self.data);
                    self.names.truncate(names);
                    return if are_different { end(self.nodes, start) } else { None };
                }
                _ => return None,
            }
        }
    }

    fn string(&mut self) -> Option<Text> {
        self.skip(b"\"")?;
        let start = self.at;
        self.at += plain(&self.data[start..]);
        match self.next()? {
            b'"' => Text::new(start..self.at - 1),
            b'\\' => self.escaped(start),
            _ => None, // a control character
        }
    }

    /// Reads a string from its first escape on. What an escape stands for is never longer.
    fn escaped(&mut self, start: usize) -> Option<Text> {
        let mut end = self.at - 1;
        loop {
            let mut four = [0; 4];
            let escaped = self.escape()?.encode_utf8(&mut four).as_bytes();
            self.data[end..end + escaped.len()].copy_from_slice(escaped);
            end += escaped.len();
            let length = plain(&self.data[self.at..]);
            self.data.copy_within(self.at..self.at + length, end);
            self.at += length;
            end += length;
            match self.next()? {
                b'"' => {
                    self.data[end..self.at - 1].fill(b' ');
                    return Text::new(start..end);
                }
                b'\\' => {}
                _ => return None,
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

    fn number(&mut self) -> Option<Node> {
        let rest = &self.data[self.at..];
        let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'+' | b'e' | b'E');
        let end = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let literal = std::str::from_utf8(&rest[..end]).ok()?;
        self.at += end;
        if literal.contains('.') {
            let number: f64 = literal.parse().ok()?;
            let digits = literal.bytes().filter(u8::is_ascii_digit).count();
            let is_written_so = digits <= MOST_DIGITS && !literal.contains('e') && format!("{number:?}") == literal;
            return is_written_so.then_some(Node::Float(number));
        }
        let number: i64 = literal.parse().ok()?;
        let digits = literal.strip_prefix('-').unwrap_or(literal);
        let is_written_so =
            digits.starts_with(|first: char| first.is_ascii_digit()) && (!digits.starts_with('0') || literal == "0");
        is_written_so.then_some(Node::Int(number))
    }
}

/// The length of what stands before the first quote, backslash or control character.
fn plain(data: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let stops = |byte: &u8| (*byte < 0x20) | (*byte == b'"') | (*byte == b'\\');
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
        if at == LONG {
            let is_plain = |slice: &[u8]| !slice.iter().fold(false, |found, byte| found | stops(byte));
            while data.get(at..at + STRIDE).is_some_and(is_plain) {
                at += STRIDE;
            }
        }
    }
    at + data[at..].iter().position(stops).unwrap_or(data.len() - at)
}

/// Whether no two names are the same.
pub fn are_different(names: &[Text], buffer: &[u8]) -> bool {
    let name = |at: usize| names[at].bytes(buffer);
    if names.len() <= FEW {
        return (1..names.len()).all(|at| (0..at).all(|other| name(other) != name(at)));
    }
    let mut sorted: Vec<&[u8]> = names.iter().map(|name| name.bytes(buffer)).collect();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

/// Ends the array or object that starts at a node.
pub fn end(nodes: &mut [Node], start: usize) -> Option<()> {
    let inside = u32::try_from(nodes.len() - start - 1).ok()?;
    nodes[start] = if let Node::Array(_) = nodes[start] { Node::Array(inside) } else { Node::Object(inside) };
    Some(())
}
