//! No plan makes the writer panic, and what it writes is read back with every Disclosure. Each byte adds a part: an item
//! with or without a Disclosure, or the end of an array or object around the items before it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sdcard_kernel::issue::{Item, Job, Node, Part, Template};
use sdcard_kernel::sd_jwt::{Limits, SdJwt};

fuzz_target!(|plan: &[u8]| {
    let mut open: Vec<(bool, Part)> = Vec::new();
    for byte in plan.iter().take(64) {
        let selective = byte & 1 == 1;
        if byte & 6 != 6 {
            open.push((selective, Part::Json(b"[1,\"a\"]".to_vec())));
            continue;
        }
        let is_array = byte & 8 == 8;
        let inside = open.split_off(open.len() - open.len().min(usize::from(byte >> 6)));
        let part = node(is_array, usize::from(byte >> 4 & 3), inside);
        open.push((selective, Part::Node(part)));
    }
    let Some(template) = Template::new(node(false, plan.len() % 5, open)) else { return };
    let drawn: usize = template.draws().iter().sum();
    let salts: Vec<u8> = (0..drawn * 16).map(|at| (at / 16 % 251) as u8 ^ (at % 16 * at / 4096) as u8).collect();
    for salts in [None, Some(&salts[..])] {
        let tail = br#""iss":"a","_sd_alg":"sha-256"}"#;
        let job = Job { template: &template, salts, header: "e30", names: vec![], tail };
        let Some((text, disclosures, size)) = job.write(None) else { continue };
        assert_eq!(size, text.len() + disclosures.iter().map(String::len).sum::<usize>());
        let disclosures: Vec<&str> = disclosures.iter().map(String::as_str).collect();
        let read = SdJwt::read(&format!("{text}.AAAA"), &disclosures, Limits { depth: 99, digests: 9999 }, None);
        assert_eq!(read.unwrap().processed.revealed.len(), disclosures.len());
    }
});

fn node(is_array: bool, decoys: usize, inside: Vec<(bool, Part)>) -> Node {
    let named = |(at, (selective, part))| {
        let name = format!("m{at}");
        Item::new(selective, (!is_array).then_some(&name[..]), part).unwrap()
    };
    let items: Vec<Item> = inside.into_iter().enumerate().map(named).collect();
    Node { is_array, digests: items.iter().filter(|item| item.selective).count() + decoys, items }
}
