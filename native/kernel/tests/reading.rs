//! What is accepted, what is declined. That Python does the same is compared in `tests/kernel`.

use sdcard_kernel::base64url::{decode, encode};
use sdcard_kernel::json::{Node, elements};
use sdcard_kernel::sd_jwt::{Limits, SdJwt};
use sdcard_kernel::{issue, json, jws};

const DEPTH: usize = 4;

fn parse(text: &[u8], depth: usize) -> Option<Vec<Node>> {
    let (mut nodes, mut buffer) = (Vec::new(), text.to_vec());
    json::parse(&mut buffer, 0..text.len(), depth, &mut nodes)?;
    std::str::from_utf8(&buffer).is_ok().then_some(nodes)
}

#[test]
fn each_byte_string_has_one_text() {
    for length in 0..100_u8 {
        let data: Vec<u8> = (0..length).map(|at| at.wrapping_mul(37)).collect();
        assert_eq!(decode(&encode(&data)), (length > 0).then_some(data));
    }
    let mut accepted = 0;
    for pair in 0..=u16::MAX {
        let bytes = pair.to_be_bytes();
        if let Ok(text) = std::str::from_utf8(&bytes) {
            accepted += usize::from(decode(text).is_some_and(|data| encode(&data) == text));
            assert!(decode(text).is_none_or(|data| encode(&data) == text));
        }
    }
    assert_eq!(accepted, 256);
    for text in ["", "A", "AA=", "AA==", "A+A/", "AAA\n", " AAA", "AAAAA", "AB", "AAB", "é"] {
        assert_eq!(decode(text), None, "{text}");
    }
}

#[test]
fn json_is_read_as_it_is_written_or_declined() {
    let read = [
        "null",
        "true",
        " [ 1 , -1 ] ",
        "{}",
        "[[[[]]]]",
        "9223372036854775807",
        "-9223372036854775808",
        "0",
        "0.5",
        "-0.0",
        "1.0",
        "90071992547409.5",
        r#"{"a":1,"b":{"a":2}}"#,
        r#""\u00e9\ud83d\ude00\n\/""#,
        r#""é😀""#,
        "\"\u{7f}\"",
    ];
    for text in read {
        assert!(parse(text.as_bytes(), DEPTH).is_some(), "{text}");
    }
    let declined = [
        "",
        " ",
        "nul",
        "[1,]",
        "{,}",
        "[1 2]",
        "[[[[[]]]]]",
        "9223372036854775808",
        "-0",
        "00",
        "01",
        "+1",
        "1.",
        ".5",
        "0.50",
        "900719925474091.3", // as near to its number as 900719925474091.2
        "1e5",
        "1.0E5",
        "NaN",
        "Infinity",
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#""\ud800""#,
        r#""\ud800\u0041""#,
        r#""\udc00""#,
        r#""\x""#,
        r#""\u00g0""#,
        "\"\n\"",
        "\"",
        "\u{feff}1",
        "1\u{a0}",
        "'a'",
        "1 1",
    ];
    for text in declined {
        assert_eq!(parse(text.as_bytes(), DEPTH), None, "{text}");
    }
    for bytes in [&b"\"\xff\""[..], b"\"\xed\xa0\x80\"", b"\"\xc0\xaf\""] {
        assert_eq!(parse(bytes, DEPTH), None);
    }
    let many = |count: usize| format!("[{}]", vec!["[]"; count].join(","));
    assert!(parse(many(32_767).as_bytes(), 2).is_some());
    assert!(parse(many(32_768).as_bytes(), 2).is_none());
}

#[test]
fn repeated_members_are_found_in_objects_of_every_size() {
    for size in 2..40 {
        let mut members: Vec<String> = (0..size).map(|at| format!("\"m{at}\":0")).collect();
        assert!(parse(format!("{{{}}}", members.join(",")).as_bytes(), 1).is_some());
        members.push("\"m0\":1".into());
        assert!(parse(format!("{{{}}}", members.join(",")).as_bytes(), 1).is_none());
    }
}

#[test]
fn a_string_with_escapes_is_read_where_it_stands() {
    for (text, read) in [
        (r#""\u00e9x""#, "éx"),
        (r#""a\n\t\"b\\""#, "a\n\t\"b\\"),
        (r#""\ud83d\ude00é\u0000""#, "😀é\0"),
        (r#""é\/é\u20acé""#, "é/é€é"),
    ] {
        let mut data = text.as_bytes().to_vec();
        let mut nodes = Vec::new();
        json::parse(&mut data, 0..text.len(), 0, &mut nodes);
        let [Node::Text(found)] = nodes[..] else { panic!("{text}") };
        assert_eq!(found.of(&String::from_utf8(data).unwrap()), read);
    }
}

#[test]
fn an_array_is_split_at_its_own_commas() {
    let parts = |text: &'static str| {
        Some(elements(text.as_bytes())?.into_iter().map(|one| std::str::from_utf8(one).unwrap()).collect::<Vec<_>>())
    };
    assert_eq!(parts("[]"), Some(vec![]));
    assert_eq!(parts(r#"["a,\"]",{"b":[1,2]},[],-0.5]"#), Some(vec![r#""a,\"]""#, r#"{"b":[1,2]}"#, "[]", "-0.5"]));
    assert_eq!(parts(r#"["1e5",true,{"2e1":false}]"#), Some(vec![r#""1e5""#, "true", r#"{"2e1":false}"#]));
    for text in ["", "[", "]", "1", "[]]", "[0,1.5E-7]", r#"[{"a":"","b":2e1}]"#, r#"["\\",1e1]"#] {
        assert_eq!(parts(text), None, "{text}");
    }
    for text in ["[\"", "[\"\\", "[\"\\]", "[\"]"] {
        elements(text.as_bytes());
    }
}

#[test]
fn a_signature_is_its_keys_and_no_others() {
    let private = [7; 32];
    assert!(jws::Signer::new(&private, &[4; 65]).is_none());
    assert!(jws::Key::read("AA", "AA").is_none());
    assert!(jws::Key::read(&encode(&[4; 32]), &encode(&[4; 32])).is_none());
}

#[test]
fn a_digest_and_a_disclosure_come_once() {
    let disclosure = encode(br#"["salt","b",[{"...":"decoy"}]]"#);
    let digest = String::from_utf8(jws::hashed(disclosure.as_bytes()).to_vec()).unwrap();
    let count = |payload: String, disclosures: &[&str]| {
        let issuer_jwt = format!("{}.{}.AAAA", encode(b"{}"), encode(payload.as_bytes()));
        let limits = Limits { depth: 8, digests: 2 };
        Some(SdJwt::read(&issuer_jwt, disclosures, limits, None)?.processed.met)
    };
    let once = format!(r#"{{"a":1,"_sd":["{digest}"],"_sd_alg":"sha-256"}}"#);
    assert_eq!(count(once.clone(), &[&disclosure]), Some(2));
    assert_eq!(count(once.clone(), &[]), Some(1));
    assert_eq!(count(once, &[&disclosure, &disclosure]), None);
    for payload in [
        format!(r#"{{"_sd":["{digest}","{digest}"]}}"#),
        format!(r#"{{"b":1,"_sd":["{digest}"]}}"#),
        format!(r#"{{"_sd":["{digest}","decoy"]}}"#),
        format!(r#"{{"_sd":["{digest}","x"]}}"#),
        format!(r#"{{"_sd":["{digest}"],"_sd_alg":"sha-512"}}"#),
        format!(r#"{{"a":[{{"...":"{digest}"}}]}}"#),
        r#"{"...":"x"}"#.into(),
        r#"{"_sd":"x"}"#.into(),
    ] {
        assert_eq!(count(payload.clone(), &[&disclosure]), None, "{payload}");
    }
}

#[test]
fn salts_come_once_and_in_the_number_that_is_drawn() {
    let item = || issue::Item::new(true, Some("a"), issue::Part::Json(b"1".to_vec())).unwrap();
    let root = issue::Node { is_array: false, digests: 2, items: vec![item()] };
    let template = issue::Template::new(root).unwrap();
    assert_eq!(template.draws(), [2]);
    let salts: Vec<u8> = (0..32).collect();
    let write = |salts: &[u8]| {
        let salts = Some(salts);
        issue::Job { template: &template, salts, header: "e30", names: vec![], tail: b"}" }.write(None).is_some()
    };
    assert!(write(&salts));
    for other in [&salts[..16], &[&salts[..], &salts].concat(), &[0; 32]] {
        assert!(!write(other));
    }
    assert!(issue::Template::new(issue::Node { is_array: false, digests: 0, items: vec![item()] }).is_none());
    assert!(issue::Item::new(true, Some("a\"b"), issue::Part::Json(b"1".to_vec())).is_none());
}
