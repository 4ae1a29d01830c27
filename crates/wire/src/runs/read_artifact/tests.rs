use std::time::{Duration, Instant};

use super::*;

fn run() -> RunId {
    RunId::from_bytes([7; 16])
}

fn read(ask: ReadArtifact, text: &str) -> ArtifactPart {
    let search = |pattern: &str, text: &str| Ok(hits(pattern, text));
    ask.read(text, search).expect("a part")
}

fn hits(pattern: &str, text: &str) -> Hits {
    let hits = text.lines().enumerate().filter(|(_, line)| line.contains(pattern));
    Hits { lines: hits.map(|(at, _)| at).collect(), cut: false }
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
    assert_eq!(beyond.read(text, |_, _| Ok(Hits::default())).map_err(|failure| failure.code).err(), Some("bad_range"));
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
fn what_was_not_searched_is_said() {
    let ask = ReadArtifact { grep: Some("hit".into()), ..ReadArtifact::new(run()) };
    for lines in [vec![], vec![1]] {
        let found = lines.len() as u64;
        let part = ask.read("a\nhit\nb\nhit\n", |_, _| Ok(Hits { lines, cut: true })).expect("a part");
        assert_eq!((part.matches, part.truncated), (Some(found), true));
    }
}

#[test]
fn the_context_of_hits_is_what_a_slow_look_at_every_line_gives() {
    let lines: Vec<String> =
        (0..60).map(|at: u32| if at * at % 7 == 2 { format!("hit {at}") } else { "x".into() }).collect();
    let text = lines.join("\n");
    let all = hits("hit", &text).lines;
    for (context, most) in [(0, 3), (1, 50), (2, 4), (20, 1), (20, 1000)] {
        let ask = ReadArtifact { context: Some(context), max_matches: Some(most), ..ReadArtifact::new(run()) };
        let part = read(ReadArtifact { grep: Some("hit".into()), ..ask }, &text);
        let wanted = &all[..all.len().min(most as usize)];
        let near = |at: usize| wanted.iter().any(|hit| hit.abs_diff(at) <= context as usize);
        let expected: Vec<usize> = (0..lines.len()).filter(|at| near(*at)).collect();
        let numbers = part.text.lines().filter(|line| *line != "--").map(|line| {
            let digits = line.find([':', '-']).expect("a sign");
            line[..digits].parse::<usize>().expect("a number") - 1
        });
        assert_eq!(numbers.collect::<Vec<_>>(), expected, "{context} around {most}");
    }
}

#[test]
fn a_search_of_very_many_lines_takes_no_longer_than_reading_them() {
    const LINES: usize = 450_000;
    let text = "x\n".repeat(LINES);
    let ask = ReadArtifact {
        grep: Some("x".into()),
        context: Some(20),
        max_matches: Some(1000),
        max_bytes: Some(MAX_READ),
        ..ReadArtifact::new(run())
    };
    // Hits close together, and hits far apart whose lines fill no answer.
    for step in [1, LINES / 1000] {
        let begun = Instant::now();
        let found = Hits { lines: (0..LINES).step_by(step).collect(), cut: false };
        let part = ask.read(&text, |_, _| Ok(found)).expect("a part");
        assert_eq!(part.matches, Some(LINES.div_ceil(step) as u64));
        assert!(begun.elapsed() < Duration::from_secs(4), "{step}: {:?}", begun.elapsed());
    }
}

#[test]
fn an_outline_is_the_headings_or_the_edges_and_is_short() {
    assert_eq!(outline("# Top\ntext\n## Deep\nmore\n#no\n"), "1: # Top\n3: ## Deep");
    assert_eq!(outline("\nfirst\n2\n3\n4\n5\nlast\n"), "2: first\n3: 2\n4: 3\n5: 4\n7: last");
    let long = "# heading that is rather long, repeated\n".repeat(1_000);
    assert!(outline(&long).len() <= OUTLINE_BYTES + 8);
    assert!(outline(&"x".repeat(1 << 20)).len() <= OUTLINE_LINE + 16);
}

#[test]
fn errors_and_warnings_do_not_flood_an_answer_either() {
    let mut result: RunResult = serde_json::from_value(serde_json::json!({
        "run_id": run(), "agent_id": "a", "session_id": format!("s_{:032x}", 7), "agent": "a", "user_id": "u",
        "status": "failed", "usage": {}, "timings": { "accepted_at": "" }, "provider": "p", "model": "m",
        "root_run_id": run(), "depth": 0, "seq": 7,
        "error": { "code": "x", "message": "é".repeat(500_000), "hint": "h".repeat(500_000) },
        "warnings": (0..1000).map(|at| format!("warning {at} {}", "w".repeat(90))).collect::<Vec<_>>(),
    }))
    .expect("a result");
    fit(std::slice::from_mut(&mut result), 16_384);
    let text = serde_json::to_string(&result).expect("JSON");
    assert!(text.len() < 8 * 1024, "{} bytes", text.len());
    let error = result.error.expect("it failed");
    assert!(error.message.starts_with('é') && error.message.ends_with('…'), "{}", error.message);
    assert_eq!(result.warnings.last().map(String::as_str), Some("980 more warnings are in the journal"));
}
