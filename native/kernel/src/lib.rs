//! Reads, checks, presents and writes SD-JWTs of the ordinary kind.
//!
//! Every function accepts or declines: `None` and `false` mean that Python decides. No function refuses.
#![forbid(unsafe_code)]

pub mod base64url;
pub mod claims;
pub mod holder;
pub mod issue;
pub mod json;
pub mod jws;
pub mod queue;
pub mod sd_jwt;
