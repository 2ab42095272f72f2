//! SD-JWTs: digests replaced by Disclosures (RFC 9901 7.1, steps 2.d to 5).

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest::{Context, Digest, SHA256};
use memchr::memmem::find;

use crate::base64url;
use crate::claims::confirmed_key;
use crate::json::{Elements, Members, Node, Text, Value, are_different, end, member, parse};
use crate::jws::{DIGEST, Key, are_texts, encoded, hashed, split};

const SD: &str = "_sd";
const SD_ALG: &str = "_sd_alg";
const ELLIPSIS: &str = "...";
/// Bytes of what has one size: the key, digests, and this value itself.
const FIXED: usize = 2_048;
/// Characters of an SD-JWT for each of its values and names: a card has no more of these.
const TEXT_OF_A_NODE: usize = 24;

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
    claims: Vec<Node>,
    pub sent: Vec<Sent>,
    pub revealed: Vec<Revealed>,
    pub met: usize,
    pub partly: Vec<Text>,
    pub emptied: Vec<Place>,
}

impl Processed {
    pub fn claims(&self) -> Option<Members<'_>> {
        Value::first(&self.claims)?.members()
    }
}

/// An SD-JWT that is read and not verified.
pub struct SdJwt {
    /// Holds every string.
    pub buffer: String,
    header: Vec<Node>,
    pub processed: Processed,
    /// The digest of the signing input.
    pub signed: Digest,
    pub signature: Vec<u8>,
    /// The digest of the Issuer-signed JWT, to go on from, and the whole one that a KB-JWT names.
    issuer_jwt: Context,
    sd_hash: OnceLock<[u8; DIGEST]>,
    /// The key that it is bound to, if that is of P-256.
    pub holder: Option<Arc<Key>>,
}

impl SdJwt {
    /// Reads an Issuer-signed JWT with its Disclosures. The key in `cnf` may be a known one.
    pub fn read(issuer_jwt: &str, disclosures: &[&str], limits: Limits, known: Option<&Arc<Key>>) -> Option<Self> {
        let (signing_input, header, payload, signature) = split(issuer_jwt)?;
        let signature = base64url::decode(signature)?;
        let size = issuer_jwt.len() + disclosures.iter().map(|one| one.len()).sum::<usize>();
        let mut data = Vec::with_capacity(size / 4 * 3);
        let header = base64url::decode_to(&mut data, header)?;
        let payload = base64url::decode_to(&mut data, payload)?;
        let parts: Option<Vec<_>> = disclosures.iter().map(|text| base64url::decode_to(&mut data, text)).collect();
        let (mut of_header, mut nodes) = (Vec::new(), Vec::with_capacity(size / TEXT_OF_A_NODE));
        parse(&mut data, header, limits.depth, &mut of_header)?;
        parse(&mut data, payload, limits.depth, &mut nodes)?;
        let read: Option<Vec<_>> =
            parts?.into_iter().map(|part| disclosure(&mut data, part, limits.depth, &mut nodes)).collect();
        let buffer = String::from_utf8(data).ok()?;
        let processed = process(&nodes, disclosures, read?, &buffer, limits)?;
        let mut hashed_so_far = Context::new(&SHA256);
        hashed_so_far.update(signing_input.as_bytes());
        let signed = hashed_so_far.clone().finish();
        hashed_so_far.update(issuer_jwt.get(signing_input.len()..)?.as_bytes());
        let holder = confirmed_key(processed.claims()?, &buffer, known);
        let read = Self {
            buffer,
            header: of_header,
            processed,
            signed,
            signature,
            issuer_jwt: hashed_so_far,
            sd_hash: OnceLock::new(),
            holder,
        };
        are_texts(read.header()?, &read.buffer).then_some(read)
    }

    pub fn header(&self) -> Option<Members<'_>> {
        Value::first(&self.header)?.members()
    }

    /// The bytes that it takes, about.
    pub fn size(&self) -> usize {
        let processed = &self.processed;
        let steps: usize = processed.revealed.iter().map(|one| one.place.capacity()).sum();
        FIXED
            + self.buffer.capacity()
            + (self.header.capacity() + processed.claims.capacity()) * size_of::<Node>()
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
/// Declines another algorithm than `sha-256`, and a Disclosure for `iss`. `read` are the Disclosures, and where their
/// values are among the nodes.
fn process(
    nodes: &[Node],
    disclosures: &[&str],
    read: Vec<(Sent, Range<usize>)>,
    buffer: &str,
    limits: Limits,
) -> Option<Processed> {
    let payload = Value::first(nodes)?.members()?;
    if member(payload, SD_ALG, buffer).is_some_and(|named| named.text(buffer) != Some("sha-256")) {
        return None;
    }
    let mut waiting: Vec<([u8; DIGEST], usize)> = Vec::with_capacity(disclosures.len());
    for (number, text) in disclosures.iter().enumerate() {
        waiting.push((hashed(text.as_bytes()), number));
    }
    waiting.sort_unstable();
    let (sent, values): (Vec<_>, _) = read.into_iter().unzip();
    let (claims, revealed) = (Vec::with_capacity(nodes.len()), Vec::with_capacity(sent.len()));
    let (met, partly, emptied, place) = (vec![], vec![], vec![], vec![]);
    let mut walk = Walk { nodes, buffer, limits, waiting, values, sent, claims, met, revealed, partly, emptied, place };
    walk.object(payload, None)?;
    let Walk { waiting, sent, claims, mut met, revealed, mut partly, emptied, .. } = walk;
    met.sort_unstable();
    partly.sort_unstable_by_key(|name: &Text| name.of(buffer));
    let is_exact = met.windows(2).all(|pair| pair[0] != pair[1]) && revealed.len() == waiting.len();
    is_exact.then_some(Processed { claims, sent, revealed, met: met.len(), partly, emptied })
}

/// Adds the value of a Disclosure to some nodes, and says where it is.
fn disclosure(
    data: &mut [u8],
    part: Range<usize>,
    depth: usize,
    nodes: &mut Vec<Node>,
) -> Option<(Sent, Range<usize>)> {
    let text = &data[part.clone()];
    let without_digests = [&b"\"_sd"[..], b"\"...\"", b"\\u"].iter().all(|one| find(text, one).is_none());
    let start = nodes.len();
    parse(data, part, depth, nodes)?;
    let mut parts = Value::first(&nodes[start..])?.elements()?;
    let Node::Text(salt) = parts.next()?.node() else { return None };
    let (name, value) = match (parts.next()?, parts.next(), parts.next()) {
        (value, None, _) => (None, value),
        (name, Some(value), None) => (Some(name.node()), value),
        _ => return None,
    };
    let name = match name {
        Some(Node::Text(name)) => Some(name),
        None => None,
        _ => return None,
    };
    let value = nodes.len() - value.nodes().len()..nodes.len(); // the last one
    Some((Sent { salt, name, without_digests }, value))
}

struct Walk<'b> {
    nodes: &'b [Node],
    buffer: &'b str,
    limits: Limits,
    /// The digest of each Disclosure, sorted.
    waiting: Vec<([u8; DIGEST], usize)>,
    /// Where the value of each Disclosure is among the nodes; empty once it was taken.
    values: Vec<Range<usize>>,
    sent: Vec<Sent>,
    claims: Vec<Node>,
    met: Vec<&'b str>,
    revealed: Vec<Revealed>,
    partly: Vec<Text>,
    emptied: Vec<Place>,
    place: Place,
}

impl<'b> Walk<'b> {
    /// Adds a value at a step below the present place, processed.
    fn within(&mut self, step: Step, value: Value<'b>, parent: Option<usize>) -> Option<()> {
        self.place.push(step);
        if let Some(members) = value.members() {
            if member(members, SD_ALG, self.buffer).is_some() {
                return None;
            }
            self.object(members, parent)?;
        } else if let Some(elements) = value.elements() {
            self.array(elements, parent)?;
        } else {
            self.claims.push(value.node());
        }
        self.place.pop();
        Some(())
    }

    fn object(&mut self, members: Members<'b>, parent: Option<usize>) -> Option<()> {
        if self.place.len() >= self.limits.depth {
            return None;
        }
        let (start, is_top) = (self.claims.len(), self.place.is_empty());
        self.claims.push(Node::Object(0));
        let (mut digests, mut names) = (None, Vec::new());
        for (name, value) in members {
            match name.of(self.buffer) {
                SD => digests = Some(value.elements()?),
                SD_ALG if is_top => {}
                ELLIPSIS => return None,
                _ => {
                    names.push(name);
                    self.claims.push(Node::Text(name));
                    if is_top && !has_digests(value, self.buffer) {
                        self.claims.extend_from_slice(value.nodes());
                        continue;
                    }
                    if is_top {
                        self.partly.push(name);
                    }
                    self.within(Step::Name(name), value, parent)?;
                }
            }
        }
        let mut shown = Vec::new();
        let is_any = digests.is_some_and(|mut digests| digests.next().is_some());
        for digest in digests.into_iter().flatten() {
            shown.extend(self.meet(digest)?);
        }
        for &number in &shown {
            names.push(self.insert(number, parent)?);
        }
        if !shown.is_empty() && !are_different(&names, self.buffer.as_bytes()) {
            return None; // a name was taken
        }
        if is_any && names.is_empty() {
            self.emptied.push(self.place.clone());
        }
        end(&mut self.claims, start)
    }

    /// Adds a disclosed claim, and gives its name, which is not reserved.
    fn insert(&mut self, number: usize, parent: Option<usize>) -> Option<Text> {
        let name = self.sent[number].name?;
        let text = name.of(self.buffer);
        let is_issuer = self.place.is_empty() && text == "iss"; // it chooses the key before it is disclosed
        if is_issuer || [SD, SD_ALG, ELLIPSIS].contains(&text) {
            return None;
        }
        self.claims.push(Node::Text(name));
        self.reveal(number, Step::Name(name), parent)?;
        Some(name)
    }

    fn array(&mut self, elements: Elements<'b>, parent: Option<usize>) -> Option<()> {
        if self.place.len() >= self.limits.depth {
            return None;
        }
        let start = self.claims.len();
        self.claims.push(Node::Array(0));
        let (mut is_any, mut length) = (false, 0);
        for element in elements {
            is_any = true;
            let here = Step::Index(length);
            let digest = element.members().and_then(|members| member(members, ELLIPSIS, self.buffer));
            if let Some(digest) = digest {
                if element.members().is_none_or(|members| members.count() != 1) {
                    return None;
                }
                let Some(number) = self.meet(digest)? else { continue };
                if self.sent[number].name.is_some() {
                    return None;
                }
                self.reveal(number, here, parent)?;
            } else {
                self.within(here, element, parent)?;
            }
            length += 1;
        }
        if is_any && length == 0 {
            self.emptied.push(self.place.clone());
        }
        end(&mut self.claims, start)
    }

    /// Takes a Disclosure as one in its place, and adds its value, processed.
    fn reveal(&mut self, number: usize, step: Step, parent: Option<usize>) -> Option<()> {
        let mut place = Vec::with_capacity(self.place.len() + 1);
        place.extend_from_slice(&self.place);
        place.push(step);
        self.revealed.push(Revealed { place, number, parent });
        let value = self.nodes.get(std::mem::take(&mut self.values[number]))?;
        if self.place.is_empty() && self.sent[number].without_digests {
            self.claims.extend_from_slice(value); // it nests as deeply as in its Disclosure
            return (!value.is_empty()).then_some(());
        }
        self.within(step, Value::first(value)?, Some(number))
    }

    /// Notes a digest, and finds the Disclosure that it refers to. A digest that stands twice is declined at the end.
    fn meet(&mut self, digest: Value<'b>) -> Option<Option<usize>> {
        let digest = digest.text(self.buffer)?;
        self.met.push(digest);
        let found = self.waiting.binary_search_by(|(one, _)| one[..].cmp(digest.as_bytes()));
        (self.met.len() <= self.limits.digests).then(|| found.ok().map(|at| self.waiting[at].1))
    }
}

/// Whether a digest may stand in a value.
fn has_digests(value: Value, buffer: &str) -> bool {
    let is_special = |name: Text| [SD, SD_ALG, ELLIPSIS].contains(&name.of(buffer));
    value
        .members()
        .is_some_and(|mut members| members.any(|(name, value)| is_special(name) || has_digests(value, buffer)))
        || value.elements().is_some_and(|mut elements| elements.any(|element| has_digests(element, buffer)))
}
