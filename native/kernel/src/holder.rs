//! A Holder's steps: select Disclosures, and bind them to a challenge (RFC 9901 7.2).

use crate::base64url;
use crate::json::{member, quoted};
use crate::jws::Signer;
use crate::sd_jwt::{SdJwt, Step};

/// Paths that are compared one by one.
const MOST_PATHS: usize = 32;

/// What a KB-JWT says beside the `sd_hash`.
pub struct Answer<'a> {
    pub issued_at: i64,
    pub audience: &'a str,
    pub nonce: &'a str,
    pub interaction: Option<&'a str>,
}

/// One segment of a path.
pub enum Segment<'s> {
    Name(&'s str),
    Index(usize),
}

impl SdJwt {
    /// The Disclosures, by number, of the places that paths name, of everything beneath, and of their parents.
    ///
    /// Declines a path that names nothing, or the whole, and many paths.
    pub fn select(&self, paths: &[Vec<Segment>]) -> Option<Vec<usize>> {
        let are_there = paths.len() <= MOST_PATHS && paths.iter().all(|path| !path.is_empty() && self.has(path));
        let is_chosen = |place: &[Step]| {
            paths.iter().any(|path| place.iter().zip(path).all(|(step, segment)| self.is_same(*step, segment)))
        };
        let chosen = self.processed.revealed.iter().filter(|one| is_chosen(&one.place)).map(|one| one.number);
        are_there.then(|| chosen.collect())
    }

    fn is_same(&self, step: Step, segment: &Segment) -> bool {
        match (step, segment) {
            (Step::Name(name), Segment::Name(text)) => name.of(&self.buffer) == *text,
            (Step::Index(index), Segment::Index(number)) => index == *number,
            _ => false,
        }
    }

    fn has(&self, path: &[Segment]) -> bool {
        let mut segments = path.iter();
        let Some(Segment::Name(name)) = segments.next() else { return false };
        let mut here = self.processed.claims().and_then(|claims| member(claims, name, &self.buffer));
        for segment in segments {
            here = here.and_then(|value| match segment {
                Segment::Name(name) => member(value.members()?, name, &self.buffer),
                Segment::Index(index) => value.elements()?.nth(*index),
            });
        }
        here.is_some()
    }

    /// The numbers of chosen Disclosures, in the Issuer's order.
    ///
    /// Declines a Disclosure that is not this SD-JWT's, and one without its parent.
    pub fn shown(&self, disclosures: &[&str], chosen: &[&str]) -> Option<Vec<usize>> {
        let mut sorted = chosen.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let is_shown: Vec<bool> = disclosures.iter().map(|text| sorted.binary_search(text).is_ok()).collect();
        let shown: Vec<usize> = (0..disclosures.len()).filter(|&number| is_shown[number]).collect();
        let has_parent =
            |number: usize, parent: Option<usize>| !is_shown[number] || parent.is_none_or(|one| is_shown[one]);
        let are_whole = self.processed.revealed.iter().all(|one| has_parent(one.number, one.parent));
        (are_whole && shown.len() == sorted.len() && disclosures.len() == self.processed.sent.len()).then_some(shown)
    }

    /// A KB-JWT over these Disclosures, with an encoded header, and without its signature if there is no signer.
    pub fn bind(&self, shown: &[&str], header: &str, claims: &Answer, signer: Option<&Signer>) -> Option<String> {
        let sd_hash = self.sd_hash_of(shown);
        let texts =
            [("aud", claims.audience), ("nonce", claims.nonce), ("sd_hash", std::str::from_utf8(&sd_hash).ok()?)];
        let mut payload = format!("{{\"iat\":{}", claims.issued_at);
        for (name, text) in texts.into_iter().chain(claims.interaction.map(|text| ("interaction_id", text))) {
            payload.extend([",\"", name, "\":", &quoted(text)?]);
        }
        payload.push('}');
        let mut text = Vec::with_capacity(header.len() + payload.len() / 3 * 4 + 96);
        text.extend_from_slice(header.as_bytes());
        text.push(b'.');
        base64url::encode_to(&mut text, payload.as_bytes());
        if let Some(signer) = signer {
            signer.sign_to(&mut text)?;
        }
        String::from_utf8(text).ok()
    }
}
