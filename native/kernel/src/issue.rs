//! Issuing: a plan's digests, Disclosures and decoys (RFC 9901 4.2.4 to 4.2.6), with salts that are an argument.

use std::borrow::Cow;

use aws_lc_rs::rand::{SecureRandom, SystemRandom};

use crate::base64url;
use crate::json::quoted;
use crate::jws::{DIGEST, Signer, hashed};

const SALT: usize = 16;
/// Salts that are drawn at once after the first time, as Python does.
const FEW: usize = 16;
/// Bytes of JSON before a Disclosure's ending: `["`, a salt of 22 characters, `",` and one more.
const HEAD: usize = 27;

/// A value: JSON that every SD-Card of the plan has, or a part with digests in it.
pub enum Part {
    Json(Vec<u8>),
    Node(Node),
}

/// A member or element that is shown, with a Disclosure of its own if it is selective.
pub struct Item {
    pub selective: bool,
    /// The name as JSON; empty for an element of an array.
    pub name: Vec<u8>,
    pub part: Part,
    ending: String,
}

/// An object or array whose parts are treated apart.
pub struct Node {
    pub is_array: bool,
    /// How many digests it has, decoys included.
    pub digests: usize,
    pub items: Vec<Item>,
}

/// A plan.
pub struct Template {
    root: Node,
    draws: Vec<Draw>,
}

enum Draw {
    Salts(usize),
    Spread,
}

impl Draw {
    fn count(&self) -> usize {
        if let Draw::Salts(count) = self { *count } else { 1 }
    }
}

/// What is written: the Issuer-signed JWT, without its signature if there was no signer; Disclosures; and the characters
/// of both without the signature.
pub type Written = (String, Vec<String>, usize);

impl Item {
    /// Declines a name that JSON escapes.
    pub fn new(selective: bool, name: Option<&str>, part: Part) -> Option<Self> {
        let name = name.map_or(Some(String::new()), quoted)?.into_bytes();
        let mut made = Self { selective, name, part, ending: String::new() };
        if let (Part::Json(json), true) = (&mut made.part, selective) {
            made.ending = ending(&made.name, json);
            json.truncate(1); // of the rest, only the ending is written
        }
        Some(made)
    }
}

/// What stands behind the salt of a Disclosure: JSON.
fn behind_salt(name: &[u8], value: &[u8]) -> Vec<u8> {
    let comma: &[u8] = if name.is_empty() { b"" } else { b"," };
    [name, comma, value, b"]"].concat()
}

/// The same as base64url, without its first character.
fn ending(name: &[u8], value: &[u8]) -> String {
    base64url::encode(&behind_salt(name, value)[1..])
}

impl Node {
    /// How many items are selective. Declines fewer digests.
    fn real(&self) -> Option<usize> {
        let real = self.items.iter().filter(|item| item.selective).count();
        (self.digests >= real).then_some(real)
    }

    /// Adds what Python draws for this part, children first.
    fn plan(&self, draws: &mut Vec<Draw>, waiting: &mut usize) -> Option<()> {
        for item in &self.items {
            if let Part::Node(node) = &item.part {
                node.plan(draws, waiting)?;
            }
        }
        let lacking = self.digests.saturating_sub(*waiting);
        if lacking > 0 {
            let is_first = !draws.iter().any(|draw| matches!(draw, Draw::Salts(_)));
            let count = if is_first { lacking } else { lacking.max(FEW) };
            draws.push(Draw::Salts(count));
            *waiting += count;
        }
        *waiting -= self.digests;
        if self.is_array && self.digests > self.real()? {
            draws.push(Draw::Spread);
        }
        self.real().map(drop)
    }
}

impl Template {
    /// Declines a root that is an array, and a part with fewer digests than Disclosures.
    pub fn new(root: Node) -> Option<Self> {
        let (mut draws, mut waiting) = (Vec::new(), 0);
        root.plan(&mut draws, &mut waiting)?;
        (!root.is_array).then_some(Self { root, draws })
    }

    /// How many salts are drawn, call by call.
    pub fn draws(&self) -> Vec<usize> {
        self.draws.iter().map(Draw::count).collect()
    }
}

/// An SD-JWT to write.
pub struct Job<'j> {
    pub template: &'j Template,
    /// What was drawn; nothing if the kernel draws.
    pub salts: Option<&'j [u8]>,
    /// Encoded.
    pub header: &'j str,
    /// Members in the clear that get another value: name and value as JSON.
    pub names: Vec<(&'j [u8], &'j [u8])>,
    /// JSON of an object's further members, with the closing brace.
    pub tail: &'j [u8],
}

impl Job<'_> {
    /// Writes it, and signs it if there is a signer. Declines salts that are too few, or repeated.
    pub fn write(&self, signer: Option<&Signer>) -> Option<Written> {
        let Self { template, header, tail, .. } = self;
        let drawn: usize = template.draws.iter().map(Draw::count).sum();
        let mut own = vec![0; if self.salts.is_none() { drawn * SALT } else { 0 }];
        SystemRandom::new().fill(&mut own).ok()?;
        let mut salts = self.salts.unwrap_or(&own).chunks_exact(SALT);
        let (mut pool, mut spread) = (Vec::new(), Vec::new());
        for draw in &template.draws {
            match draw {
                Draw::Salts(count) => pool.extend(salts.by_ref().take(*count)),
                Draw::Spread => spread.push(u128::from_be_bytes(salts.next()?.try_into().ok()?)),
            }
        }
        let mut sorted = pool.clone();
        sorted.sort_unstable();
        let are_different = sorted.windows(2).all(|pair| pair[0] != pair[1]);
        if pool.len() + spread.len() != drawn || !are_different || salts.next().is_some() {
            return None;
        }
        let mut writer = Writer { salts: pool.into_iter(), spread: spread.into_iter(), disclosures: vec![] };
        let mut payload = writer.node(&template.root, &self.names)?;
        payload.pop();
        if payload.len() > 1 {
            payload.push(b',');
        }
        payload.extend_from_slice(tail);
        let mut text = Vec::with_capacity(header.len() + payload.len() / 3 * 4 + 96);
        text.extend_from_slice(header.as_bytes());
        text.push(b'.');
        base64url::encode_to(&mut text, &payload);
        let size = text.len() + writer.disclosures.iter().map(String::len).sum::<usize>();
        if let Some(signer) = signer {
            signer.sign_to(&mut text)?;
        }
        Some((String::from_utf8(text).ok()?, writer.disclosures, size))
    }
}

struct Writer<'s> {
    salts: std::vec::IntoIter<&'s [u8]>,
    spread: std::vec::IntoIter<u128>,
    disclosures: Vec<String>,
}

impl Writer<'_> {
    /// Writes a part as JSON, its children before itself.
    fn node(&mut self, node: &Node, names: &[(&[u8], &[u8])]) -> Option<Vec<u8>> {
        let mut values = Vec::with_capacity(node.items.len());
        for item in &node.items {
            values.push(match &item.part {
                Part::Json(json) => Cow::Borrowed(&json[..]),
                Part::Node(inner) => Cow::Owned(self.node(inner, &[])?),
            });
        }
        let mut digests = Vec::with_capacity(node.digests);
        for (item, value) in node.items.iter().zip(&values).filter(|(item, _)| item.selective) {
            digests.push(self.disclose(item, value)?);
        }
        for _ in digests.len()..node.digests {
            digests.push(hashed(base64url::encode(self.salts.next()?).as_bytes()));
        }
        if node.is_array { self.array(node, &values, digests) } else { Some(object(node, &values, digests, names)) }
    }

    /// Adds a Disclosure, and gives its digest.
    fn disclose(&mut self, item: &Item, value: &[u8]) -> Option<[u8; DIGEST]> {
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(b"[\"");
        base64url::encode_to(&mut head, self.salts.next()?);
        head.extend_from_slice(b"\",");
        head.push(*item.name.first().or(value.first())?);
        let later = if let Part::Node(_) = item.part { ending(&item.name, value) } else { String::new() };
        let ending = if later.is_empty() { &item.ending } else { &later };
        let mut text = Vec::with_capacity(HEAD / 3 * 4 + ending.len());
        base64url::encode_to(&mut text, &head);
        text.extend_from_slice(ending.as_bytes());
        let digest = hashed(&text);
        self.disclosures.push(String::from_utf8(text).ok()?);
        Some(digest)
    }

    /// Writes elements in their order, a random number of decoys before them, and the rest behind them.
    fn array(&mut self, node: &Node, values: &[Cow<[u8]>], digests: Vec<[u8; DIGEST]>) -> Option<Vec<u8>> {
        let real = node.real()?;
        let (mut digests, decoys) = (digests[..real].iter(), &digests[real..]);
        let mut before = 0;
        if !decoys.is_empty() {
            let most = decoys.len().min((values.len() + decoys.len()) * 5 / 8);
            before = usize::try_from(self.spread.next()? % (most as u128 + 1)).ok()?;
        }
        let mut text = vec![b'['];
        let mut add = |element: &[u8]| {
            text.extend_from_slice(element);
            text.push(b',');
        };
        let placeholder = |digest: &[u8; DIGEST]| [b"{\"...\":\"", &digest[..], b"\"}"].concat();
        decoys[..before].iter().for_each(|decoy| add(&placeholder(decoy)));
        for (item, value) in node.items.iter().zip(values) {
            if item.selective { add(&placeholder(digests.next()?)) } else { add(value) }
        }
        decoys[before..].iter().for_each(|decoy| add(&placeholder(decoy)));
        close(&mut text, b']');
        Some(text)
    }
}

/// Writes members in their order, then the sorted digests.
fn object(node: &Node, values: &[Cow<[u8]>], mut digests: Vec<[u8; DIGEST]>, names: &[(&[u8], &[u8])]) -> Vec<u8> {
    let size: usize = node.items.iter().zip(values).map(|(item, value)| item.name.len() + value.len() + 2).sum();
    let mut text = Vec::with_capacity(size + (DIGEST + 3) * digests.len() + 16);
    text.push(b'{');
    for (item, value) in node.items.iter().zip(values).filter(|(item, _)| !item.selective) {
        let named = names.iter().find(|(name, _)| *name == item.name);
        text.extend_from_slice(&item.name);
        text.push(b':');
        text.extend_from_slice(named.map_or(value, |(_, other)| other));
        text.push(b',');
    }
    if !digests.is_empty() {
        digests.sort_unstable();
        text.extend_from_slice(b"\"_sd\":[");
        for digest in digests {
            text.push(b'"');
            text.extend_from_slice(&digest);
            text.extend_from_slice(b"\",");
        }
        close(&mut text, b']');
        text.push(b',');
    }
    close(&mut text, b'}');
    text
}

/// Replaces a comma at the end by a bracket.
fn close(text: &mut Vec<u8>, bracket: u8) {
    if text.last() == Some(&b',') {
        text.pop();
    }
    text.push(bracket);
}
