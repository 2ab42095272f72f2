//! SD-JWTs: digests replaced by Disclosures (RFC 9901 7.1, steps 2.d to 5).

use std::ops::Range;
use std::sync::OnceLock;

use aws_lc_rs::digest::{Context, Digest, SHA256};
use memchr::memmem::find;

use crate::base64url;
use crate::claims::confirmed_key;
use crate::json::{Members, Text, Value, are_different, member, parse};
use crate::jws::{DIGEST, Key, are_texts, encoded, hashed, split};

const SD: &str = "_sd";
const SD_ALG: &str = "_sd_alg";
const ELLIPSIS: &str = "...";
/// Bytes of what has one size: the key, digests, and this value itself.
const FIXED: usize = 2_048;

/// The bounds of `sdcard.limits.Limits` that count here.
#[derive(Clone, Copy)]
pub struct Limits {
    pub depth: usize,
    pub digests: usize,
}

/// One step of a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    Name(Text),
    Index(usize),
}

pub type Place = Vec<Step>;

/// A Disclosure without its value.
pub struct Sent {
    pub salt: Text,
    pub name: Option<Text>,
    pub without_digests: bool,
}

/// A Disclosure in its place, by number, and the one that holds its digest.
pub struct Revealed {
    pub place: Place,
    pub number: usize,
    pub parent: Option<usize>,
}

/// The Processed SD-JWT Payload.
pub struct Processed {
    pub claims: Members,
    pub sent: Vec<Sent>,
    pub revealed: Vec<Revealed>,
    pub met: usize,
    pub partly: Vec<Text>,
    pub emptied: Vec<Place>,
}

/// An SD-JWT that is read and not verified.
pub struct SdJwt {
    /// Holds every string.
    pub buffer: String,
    pub header: Members,
    pub processed: Processed,
    /// The digest of the signing input.
    pub signed: Digest,
    pub signature: Vec<u8>,
    /// The digest of the Issuer-signed JWT, to go on from, and the whole one that a KB-JWT names.
    issuer_jwt: Context,
    sd_hash: OnceLock<[u8; DIGEST]>,
    /// The key that it is bound to, if that is of P-256.
    pub holder: Option<Key>,
}

impl SdJwt {
    /// Reads an Issuer-signed JWT with its Disclosures.
    pub fn read(issuer_jwt: &str, disclosures: &[&str], limits: Limits) -> Option<Self> {
        let (signing_input, header, payload, signature) = split(issuer_jwt)?;
        let signature = base64url::decode(signature)?;
        let mut data =
            Vec::with_capacity((issuer_jwt.len() + disclosures.iter().map(|one| one.len()).sum::<usize>()) / 4 * 3);
        let header = base64url::decode_to(&mut data, header)?;
        let payload = base64url::decode_to(&mut data, payload)?;
        let parts: Option<Vec<_>> = disclosures.iter().map(|text| base64url::decode_to(&mut data, text)).collect();
        let header = parse(&mut data, header, limits.depth)?.into_members()?;
        let payload = parse(&mut data, payload, limits.depth)?.into_members()?;
        let read: Option<Vec<_>> = parts?.into_iter().map(|part| disclosure(&mut data, part, limits.depth)).collect();
        let buffer = String::from_utf8(data).ok()?;
        let (sent, values) = read?.into_iter().unzip();
        let processed = process(payload, disclosures, sent, values, &buffer, limits)?;
        let mut hashed_so_far = Context::new(&SHA256);
        hashed_so_far.update(signing_input.as_bytes());
        let signed = hashed_so_far.clone().finish();
        hashed_so_far.update(issuer_jwt.get(signing_input.len()..)?.as_bytes());
        let holder = confirmed_key(&processed.claims, &buffer);
        let is_usual = are_texts(&header, &buffer);
        is_usual.then(|| Self {
            buffer,
            header,
            processed,
            signed,
            signature,
            issuer_jwt: hashed_so_far,
            sd_hash: OnceLock::new(),
            holder,
        })
    }

    /// The bytes that it takes, about.
    pub fn size(&self) -> usize {
        let processed = &self.processed;
        let values = size_of_members(&self.header) + size_of_members(&processed.claims);
        let steps: usize = processed.revealed.iter().map(|one| one.place.capacity()).sum();
        FIXED
            + self.buffer.capacity()
            + values
            + steps * size_of::<Step>()
            + processed.sent.capacity() * size_of::<Sent>()
            + processed.revealed.capacity() * size_of::<Revealed>()
    }

    /// What a KB-JWT names over these Disclosures, which are some of this SD-JWT's.
    pub fn sd_hash_of(&self, disclosures: &[&str]) -> [u8; DIGEST] {
        let mut hash = self.issuer_jwt.clone();
        hash.update(b"~");
        for text in disclosures {
            hash.update(text.as_bytes());
            hash.update(b"~");
        }
        encoded(&hash.finish())
    }

    /// What a KB-JWT names over all Disclosures of this SD-JWT.
    pub fn sd_hash(&self, disclosures: &[&str]) -> &[u8; DIGEST] {
        self.sd_hash.get_or_init(|| self.sd_hash_of(disclosures))
    }
}

/// Replaces each digest by the claim of its Disclosure, or removes it.
///
/// Declines another algorithm than `sha-256`, and a Disclosure for `iss`.
fn process(
    mut payload: Members,
    disclosures: &[&str],
    sent: Vec<Sent>,
    values: Vec<Option<Value>>,
    buffer: &str,
    limits: Limits,
) -> Option<Processed> {
    if let Some(at) = payload.iter().position(|(name, _)| name.of(buffer) == SD_ALG) {
        if payload.remove(at).1.text(buffer) != Some("sha-256") {
            return None;
        }
    }
    let mut waiting: Vec<([u8; DIGEST], usize)> = Vec::with_capacity(disclosures.len());
    for (number, text) in disclosures.iter().enumerate() {
        waiting.push((hashed(text.as_bytes()), number));
    }
    waiting.sort_unstable();
    let (revealed, partly, emptied, place) = (Vec::with_capacity(sent.len()), vec![], vec![], vec![]);
    let mut walk = Walk { buffer, limits, waiting, values, sent, met: vec![], revealed, partly, emptied, place };
    let claims = walk.object(payload, None)?;
    let Walk { waiting, sent, mut met, revealed, mut partly, emptied, .. } = walk;
    met.sort_unstable();
    partly.sort_unstable_by_key(|name: &Text| name.of(buffer));
    let is_exact = met.windows(2).all(|pair| pair[0] != pair[1]) && revealed.len() == waiting.len();
    is_exact.then_some(Processed { claims, sent, revealed, met: met.len(), partly, emptied })
}

fn disclosure(data: &mut [u8], part: Range<usize>, depth: usize) -> Option<(Sent, Option<Value>)> {
    let text = &data[part.clone()];
    let without_digests = [&b"\"_sd"[..], b"\"...\"", b"\\u"].iter().all(|one| find(text, one).is_none());
    let Value::Array(parts) = parse(data, part, depth)? else { return None };
    let mut parts = parts.into_iter();
    let Value::Text(salt) = parts.next()? else { return None };
    match (parts.next()?, parts.next(), parts.next()) {
        (value, None, _) => Some((Sent { salt, name: None, without_digests }, Some(value))),
        (Value::Text(name), Some(value), None) => Some((Sent { salt, name: Some(name), without_digests }, Some(value))),
        _ => None,
    }
}

struct Walk<'b> {
    buffer: &'b str,
    limits: Limits,
    /// The digest of each Disclosure, sorted.
    waiting: Vec<([u8; DIGEST], usize)>,
    values: Vec<Option<Value>>,
    sent: Vec<Sent>,
    met: Vec<&'b str>,
    revealed: Vec<Revealed>,
    partly: Vec<Text>,
    emptied: Vec<Place>,
    place: Place,
}

impl Walk<'_> {
    /// Processes a value at a step below the present place.
    fn within(&mut self, step: Step, value: Value, parent: Option<usize>) -> Option<Value> {
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return Some(value);
        }
        self.place.push(step);
        let result = match value {
            Value::Object(members) if member(&members, SD_ALG, self.buffer).is_some() => None,
            Value::Object(members) => self.object(members, parent).map(Value::Object),
            Value::Array(elements) => self.array(elements, parent).map(Value::Array),
            value => Some(value),
        };
        self.place.pop();
        result
    }

    fn object(&mut self, members: Members, parent: Option<usize>) -> Option<Members> {
        if self.place.len() >= self.limits.depth {
            return None;
        }
        let mut digests = Vec::new();
        let mut result = Members::with_capacity(members.len());
        for (name, value) in members {
            if name.of(self.buffer) == ELLIPSIS {
                return None;
            }
            if name.of(self.buffer) != SD {
                let is_top = self.place.is_empty();
                if is_top && !has_digests(&value, self.buffer) {
                    result.push((name, value));
                    continue;
                }
                if is_top {
                    self.partly.push(name);
                }
                let value = self.within(Step::Name(name), value, parent)?;
                result.push((name, value));
            } else if let Value::Array(listed) = value {
                digests = listed;
            } else {
                return None;
            }
        }
        let mut shown = Vec::new();
        let is_any = !digests.is_empty();
        for digest in digests {
            shown.extend(self.meet(&digest)?);
        }
        for &number in &shown {
            self.insert(number, &mut result, parent)?;
        }
        if !shown.is_empty() && !are_different(&result, self.buffer.as_bytes()) {
            return None; // a name was taken
        }
        if is_any && result.is_empty() {
            self.emptied.push(self.place.clone());
        }
        Some(result)
    }

    /// Adds a disclosed claim whose name is not reserved.
    fn insert(&mut self, number: usize, result: &mut Members, parent: Option<usize>) -> Option<()> {
        let name = self.sent[number].name?;
        let text = name.of(self.buffer);
        let is_issuer = self.place.is_empty() && text == "iss"; // it chooses the key before it is disclosed
        if is_issuer || [SD, SD_ALG, ELLIPSIS].contains(&text) {
            return None;
        }
        let value = self.reveal(number, Step::Name(name), parent)?;
        result.push((name, value));
        Some(())
    }

    fn array(&mut self, elements: Vec<Value>, parent: Option<usize>) -> Option<Vec<Value>> {
        if self.place.len() >= self.limits.depth {
            return None;
        }
        let is_any = !elements.is_empty();
        let mut result = Vec::with_capacity(elements.len());
        for element in elements {
            let here = Step::Index(result.len());
            match element {
                Value::Object(mut members) if member(&members, ELLIPSIS, self.buffer).is_some() => {
                    let digest = members.pop()?.1;
                    if !members.is_empty() {
                        return None;
                    }
                    if let Some(number) = self.meet(&digest)? {
                        if self.sent[number].name.is_some() {
                            return None;
                        }
                        result.push(self.reveal(number, here, parent)?);
                    }
                }
                element => result.push(self.within(here, element, parent)?),
            }
        }
        if is_any && result.is_empty() {
            self.emptied.push(self.place.clone());
        }
        Some(result)
    }

    /// Takes a Disclosure as one in its place, and processes its value.
    fn reveal(&mut self, number: usize, step: Step, parent: Option<usize>) -> Option<Value> {
        let mut place = Vec::with_capacity(self.place.len() + 1);
        place.extend_from_slice(&self.place);
        place.push(step);
        self.revealed.push(Revealed { place, number, parent });
        let value = self.values[number].take()?;
        if self.place.is_empty() && self.sent[number].without_digests {
            return Some(value); // it nests as deeply as in its Disclosure
        }
        self.within(step, value, Some(number))
    }

    /// Notes a digest, and finds the Disclosure that it refers to. A digest that stands twice is declined at the end.
    fn meet(&mut self, digest: &Value) -> Option<Option<usize>> {
        let digest = digest.text(self.buffer)?;
        self.met.push(digest);
        let found = self.waiting.binary_search_by(|(one, _)| one[..].cmp(digest.as_bytes()));
        (self.met.len() <= self.limits.digests).then(|| found.ok().map(|at| self.waiting[at].1))
    }
}

fn size_of_members(members: &Members) -> usize {
    let inside: usize = members.iter().map(|(_, value)| size_of_inside(value)).sum();
    members.capacity() * size_of::<(Text, Value)>() + inside
}

fn size_of_inside(value: &Value) -> usize {
    match value {
        Value::Object(members) => size_of_members(members),
        Value::Array(elements) => {
            let inside: usize = elements.iter().map(size_of_inside).sum();
            elements.capacity() * size_of::<Value>() + inside
        }
        _ => 0,
    }
}

/// Whether a digest may stand in a value.
fn has_digests(value: &Value, buffer: &str) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| [SD, SD_ALG, ELLIPSIS].contains(&name.of(buffer)) || has_digests(value, buffer)),
        Value::Array(elements) => elements.iter().any(|element| has_digests(element, buffer)),
        _ => false,
    }
}
