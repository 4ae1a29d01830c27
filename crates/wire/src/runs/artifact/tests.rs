use super::*;

fn run() -> RunId {
    RunId::from_bytes([7; 16])
}

fn read(ask: ReadArtifact, text: &str) -> ArtifactPart {
    let search = |pattern: &str, text: &str| Ok(text.lines().map(|line| line.contains(pattern)).collect());
    ask.read(text, search).expect("a part")
}

#[test]
fn parts_put_together_are_the_text() {
    let text = "αβγ\nline two\n\nlast without end";
    for most in 1..text.len() as u64 + 2 {
        let (mut whole, mut offset) = (String::new(), Some(0));
        while let Some(at) = offset {
            let part = read(ReadArtifact { offset: Some(at), max_bytes: Some(most), ..ReadArtifact::new(run()) }, text);
            assert!(!part.text.is_empty(), "{most} at {at}");
            whole.push_str(&part.text);
            offset = part.next_offset;
        }
        assert_eq!(whole, text, "{most} bytes a time");
    }
}

#[test]
fn lines_are_given_by_number() {
    let text = "one\ntwo\nthree\nfour\n";
    let part = read(ReadArtifact { from_line: Some(2), lines: Some(2), ..ReadArtifact::new(run()) }, text);
    assert_eq!((part.text.as_str(), part.from_line, part.next_offset), ("two\nthree\n", 2, Some(14)));
    let beyond = ReadArtifact { from_line: Some(9), ..ReadArtifact::new(run()) };
    assert_eq!(beyond.read(text, |_, _| Ok(Vec::new())).map_err(|failure| failure.code).err(), Some("bad_range"));
}

#[test]
fn a_search_gives_numbered_lines_and_says_what_it_left_out() {
    let text = "a\nhit 1\nb\nc\nd\nhit 2\nhit 3\n";
    let ask =
        ReadArtifact { grep: Some("hit".into()), context: Some(1), max_matches: Some(2), ..ReadArtifact::new(run()) };
    let part = read(ask, text);
    assert_eq!(part.text, "1- a\n2: hit 1\n3- b\n--\n5- d\n6: hit 2\n7: hit 3\n");
    assert_eq!((part.matches, part.truncated), (Some(3), true));
}

#[test]
fn an_outline_is_the_headings_or_the_edges_and_is_short() {
    assert_eq!(outline("# Top\ntext\n## Deep\nmore\n#no\n"), "1: # Top\n3: ## Deep");
    assert_eq!(outline("\nfirst\n2\n3\n4\n5\nlast\n"), "2: first\n3: 2\n4: 3\n5: 4\n7: last");
    let long = "# heading that is rather long, repeated\n".repeat(1_000);
    assert!(outline(&long).len() <= OUTLINE_BYTES + 8);
    assert!(outline(&"x".repeat(1 << 20)).len() <= OUTLINE_LINE + 16);
}
