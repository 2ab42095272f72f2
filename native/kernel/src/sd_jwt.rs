//! SD-JWTs: digests replaced by Disclosures (RFC 9901 7.1, steps 2.d to 5).

use std::collections::{HashMap, HashSet};

use memchr::memmem::find;

use crate::base64url;
use crate::json::{Members, Text, Value, are_different, member, parse};
use crate::jws::{hashed, hashed_together};

const SD: &str = "_sd";
const SD_ALG: &str = "_sd_alg";
const ELLIPSIS: &str = "...";

/// The bounds of `sdcard.limits.Limits` that count here.
#[derive(Clone, Copy)]
pub struct Limits {
    pub depth: usize,
    pub digests: usize,
}

/// One step of a place.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<'a> {
    Name(Text<'a>),
    Index(usize),
}

pub type Place<'a> = Vec<Step<'a>>;

/// A Disclosure without its value.
pub struct Sent<'a> {
    pub salt: Text<'a>,
    pub name: Option<Text<'a>>,
    pub without_digests: bool,
}

/// A Disclosure in its place, by number, and the one that holds its digest.
pub struct Revealed<'a> {
    pub place: Place<'a>,
    pub number: usize,
    pub parent: Option<usize>,
}

/// The Processed SD-JWT Payload.
pub struct Processed<'a> {
    pub claims: Members<'a>,
    pub sent: Vec<Sent<'a>>,
    pub revealed: Vec<Revealed<'a>>,
    pub met: usize,
    pub partly: Vec<Text<'a>>,
    pub emptied: Vec<Place<'a>>,
}

/// Decodes Disclosures.
pub fn decode(disclosures: &[&str]) -> Option<Vec<Vec<u8>>> {
    disclosures.iter().map(|text| base64url::decode(text)).collect()
}

/// The digest of an Issuer-signed JWT and its Disclosures, as a KB-JWT names it.
pub fn sd_hash(issuer_jwt: &str, disclosures: &[&str]) -> String {
    hashed_together(std::iter::once(issuer_jwt).chain(disclosures.iter().copied()))
}

/// Replaces each digest by the claim of its Disclosure, or removes it.
///
/// Declines another algorithm than `sha-256`, and a Disclosure for `iss`.
pub fn process<'a>(
    mut payload: Members<'a>,
    disclosures: &[&str],
    decoded: &'a [Vec<u8>],
    limits: Limits,
) -> Option<Processed<'a>> {
    if let Some(at) = payload.iter().position(|(name, _)| name == SD_ALG) {
        if payload.remove(at).1.text() != Some("sha-256") {
            return None;
        }
    }
    let mut walk = Walk {
        limits,
        waiting: HashMap::new(),
        values: vec![],
        sent: vec![],
        met: HashSet::new(),
        revealed: vec![],
        partly: vec![],
        emptied: vec![],
        place: vec![],
    };
    for (number, (text, data)) in disclosures.iter().zip(decoded).enumerate() {
        let (sent, value) = read(data, limits.depth)?;
        walk.sent.push(sent);
        walk.values.push(Some(value));
        if walk.waiting.insert(hashed(text.as_bytes()), number).is_some() {
            return None;
        }
    }
    let claims = walk.object(payload, None)?;
    walk.partly.sort();
    let Walk { waiting, sent, met, revealed, partly, emptied, .. } = walk;
    waiting.is_empty().then_some(Processed { claims, sent, revealed, met: met.len(), partly, emptied })
}

fn read(data: &[u8], depth: usize) -> Option<(Sent<'_>, Value<'_>)> {
    let Value::Array(parts) = parse(data, depth)? else { return None };
    let without_digests = [&b"\"_sd"[..], b"\"...\"", b"\\u"].iter().all(|part| find(data, part).is_none());
    let mut parts = parts.into_iter();
    let (salt, second, third) = (parts.next()?, parts.next()?, parts.next());
    let Value::Text(salt) = salt else { return None };
    match (second, third, parts.next()) {
        (value, None, _) => Some((Sent { salt, name: None, without_digests }, value)),
        (Value::Text(name), Some(value), None) => Some((Sent { salt, name: Some(name), without_digests }, value)),
        _ => None,
    }
}

struct Walk<'a> {
    limits: Limits,
    waiting: HashMap<String, usize>,
    values: Vec<Option<Value<'a>>>,
    sent: Vec<Sent<'a>>,
    met: HashSet<Text<'a>>,
    revealed: Vec<Revealed<'a>>,
    partly: Vec<Text<'a>>,
    emptied: Vec<Place<'a>>,
    place: Place<'a>,
}

impl<'a> Walk<'a> {
    /// Processes a value at a step below the present place.
    fn within(&mut self, step: Step<'a>, value: Value<'a>, parent: Option<usize>) -> Option<Value<'a>> {
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return Some(value);
        }
        self.place.push(step);
        let result = match value {
            Value::Object(members) if member(&members, SD_ALG).is_some() => None,
            Value::Object(members) => self.object(members, parent).map(Value::Object),
            Value::Array(elements) => self.array(elements, parent).map(Value::Array),
            value => Some(value),
        };
        self.place.pop();
        result
    }

    fn object(&mut self, members: Members<'a>, parent: Option<usize>) -> Option<Members<'a>> {
        if self.place.len() >= self.limits.depth {
            return None;
        }
        let mut digests = Vec::new();
        let mut result = Members::with_capacity(members.len());
        for (name, value) in members {
            if name == ELLIPSIS {
                return None;
            }
            if name != SD {
                let is_top = self.place.is_empty();
                if is_top && !has_digests(&value) {
                    result.push((name, value));
                    continue;
                }
                if is_top {
                    self.partly.push(name.clone());
                }
                let value = self.within(Step::Name(name.clone()), value, parent)?;
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
            shown.extend(self.meet(digest)?);
        }
        for &number in &shown {
            self.insert(number, &mut result, parent)?;
        }
        if !shown.is_empty() && !are_different(&result) {
            return None; // a name was taken
        }
        if is_any && result.is_empty() {
            self.emptied.push(self.place.clone());
        }
        Some(result)
    }

    /// Adds a disclosed claim whose name is not reserved.
    fn insert(&mut self, number: usize, result: &mut Members<'a>, parent: Option<usize>) -> Option<()> {
        let name = self.sent[number].name.clone()?;
        let is_issuer = self.place.is_empty() && name == "iss"; // it chooses the key before it is disclosed
        if is_issuer || [SD, SD_ALG, ELLIPSIS].contains(&&*name) {
            return None;
        }
        let value = self.reveal(number, Step::Name(name.clone()), parent)?;
        result.push((name, value));
        Some(())
    }

    fn array(&mut self, elements: Vec<Value<'a>>, parent: Option<usize>) -> Option<Vec<Value<'a>>> {
        if self.place.len() >= self.limits.depth {
            return None;
        }
        let is_any = !elements.is_empty();
        let mut result = Vec::with_capacity(elements.len());
        for element in elements {
            let here = Step::Index(result.len());
            match element {
                Value::Object(mut members) if member(&members, ELLIPSIS).is_some() => {
                    let digest = members.pop()?.1;
                    if !members.is_empty() {
                        return None;
                    }
                    if let Some(number) = self.meet(digest)? {
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
    fn reveal(&mut self, number: usize, step: Step<'a>, parent: Option<usize>) -> Option<Value<'a>> {
        let mut place = self.place.clone();
        place.push(step.clone());
        self.revealed.push(Revealed { place, number, parent });
        let value = self.values[number].take()?;
        if self.place.is_empty() && self.sent[number].without_digests {
            return Some(value); // it nests as deeply as in its Disclosure
        }
        self.within(step, value, Some(number))
    }

    /// Notes a digest, which may stand once, and takes out the Disclosure that it refers to.
    fn meet(&mut self, digest: Value<'a>) -> Option<Option<usize>> {
        let Value::Text(digest) = digest else { return None };
        let number = self.waiting.remove(&*digest);
        (self.met.insert(digest) && self.met.len() <= self.limits.digests).then_some(number)
    }
}

/// Whether a digest may stand in a value.
fn has_digests(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            members.iter().any(|(name, value)| [SD, SD_ALG, ELLIPSIS].contains(&&**name) || has_digests(value))
        }
        Value::Array(elements) => elements.iter().any(has_digests),
        _ => false,
    }
}
