//! `Read`.

use serde_json::json;

use crate::support::Room;

#[tokio::test]
async fn lines_come_with_numbers_and_a_cut_says_how_to_go_on() {
    let room = Room::new();
    room.put("a.txt", "one\ntwo\n\nfour\n");
    assert_eq!(room.done("Read", json!({ "path": "a.txt" })).await, "     1\tone\n     2\ttwo\n     3\t\n     4\tfour");
    assert_eq!(
        room.done("Read", json!({ "path": "a.txt", "offset": 2, "limit": 1 })).await,
        "     2\ttwo\n[lines 2 to 2; more follow: continue with offset=3]"
    );
    assert_eq!(room.done("Read", json!({ "path": "a.txt", "offset": 4, "limit": 9 })).await, "     4\tfour");
    assert_eq!(
        room.done("Read", json!({ "path": "a.txt", "offset": 5 })).await,
        "[line 5 is out of range: the file has 4 lines]"
    );
    let absolute = room.volume.path().join("a.txt");
    assert!(room.done("Read", json!({ "path": absolute })).await.starts_with("     1\tone"));
}

#[tokio::test]
async fn what_is_special_about_a_file_is_said() {
    let room = Room::new();
    room.put("empty", "");
    assert_eq!(room.done("Read", json!({ "path": "empty" })).await, "[the file is empty]");
    room.put("windows", "a\r\nb\r\n");
    assert_eq!(
        room.done("Read", json!({ "path": "windows" })).await,
        "     1\ta\n     2\tb\n[lines end with \\r\\n, which is not shown]"
    );
    room.put("long", format!("x\n{}\ny", "é".repeat(4000)));
    let said = room.done("Read", json!({ "path": "long" })).await;
    assert!(said.contains(&format!("     2\t{}\n     3\ty\n", "é".repeat(2000))), "{said}");
    assert!(
        said.ends_with("[line 2 truncated: it has 8000 bytes; read all of it with bytes=true, offset=2]"),
        "{said}"
    );
    room.put("b.bin", [0xff, 0xfe, 0x00, b'\n']);
    room.put("latin", [b'a', 0xe4, b'b']);
    for (path, says) in
        [("b.bin", "binary file (line 1"), ("latin", "not UTF-8"), ("none", "no such file"), (".git", "no such")]
    {
        let error = room.fails("Read", json!({ "path": path })).await;
        assert!(error.contains(says), "{path}: {error}");
    }
    std::fs::create_dir(room.volume.path().join("dir")).expect("a directory");
    assert!(room.fails("Read", json!({ "path": "dir" })).await.contains("not a regular file"));
    assert!(room.fails("Read", json!({ "path": "." })).await.contains("the root of the volume `v`"));
    rustix::fs::mkfifoat(rustix::fs::CWD, room.volume.path().join("pipe"), rustix::fs::Mode::RWXU).expect("a pipe");
    assert!(room.fails("Read", json!({ "path": "pipe" })).await.contains("not a regular file"), "and it does not wait");
}

#[tokio::test]
async fn a_large_file_is_read_to_its_end_piece_by_piece() {
    let room = Room::new();
    let lines: Vec<String> = (1..=30_000).map(|number| format!("this is line {number} of the file")).collect();
    room.put("large", lines.join("\n"));
    let (mut offset, mut pieces, mut seen) = (1, 0, Vec::new());
    loop {
        let said = room.done("Read", json!({ "path": "large", "offset": offset, "limit": 100_000 })).await;
        assert!(said.len() <= 257 * 1024, "{}", said.len());
        seen.extend(said.lines().filter_map(|line| Some(line.split_once('\t')?.1.to_owned())));
        pieces += 1;
        let Some((_, next)) = said.rsplit_once("continue with offset=") else { break };
        offset = next.trim_end_matches(']').parse().expect("a number");
    }
    assert!(pieces >= 4 && seen == lines, "{pieces} pieces, {} lines", seen.len());
}

#[tokio::test]
async fn exact_bytes_can_be_had_and_no_character_is_cut() {
    let room = Room::new();
    room.put("a.txt", "abcdéf");
    assert_eq!(room.done("Read", json!({ "path": "a.txt", "bytes": true })).await, "abcdéf");
    assert_eq!(
        room.done("Read", json!({ "path": "a.txt", "bytes": true, "limit": 5 })).await,
        "abcd\n[truncated: bytes 0 to 4 of 7; continue with offset=4]"
    );
    assert_eq!(room.done("Read", json!({ "path": "a.txt", "bytes": true, "offset": 4 })).await, "éf");
    assert_eq!(
        room.done("Read", json!({ "path": "a.txt", "bytes": true, "offset": 3, "limit": 1 })).await,
        "déf",
        "a limit below the longest character would never get past one"
    );
    room.put("half", [b'a', 0xc3]);
    let error = room.fails("Read", json!({ "path": "half", "bytes": true, "offset": 1 })).await;
    assert!(error.contains("ends in the middle of a character"), "{error}");
}

#[tokio::test]
async fn a_file_without_an_end_in_sight_is_left_early() {
    let room = Room::new();
    std::fs::File::create(room.volume.path().join("sparse")).expect("a file").set_len(1 << 40).expect("a sparse file");
    for offset in [1, 2] {
        let error = room.fails("Read", json!({ "path": "sparse", "offset": offset })).await;
        assert!(error.contains("binary file (line 1 contains a NUL byte)"), "{error}");
    }
    room.put("long", format!("one\n{}\nthree\n", "x".repeat(20 << 20)));
    let notice = "[line 2 does not end within 8 MiB, so later lines are not found; continue with bytes=true, offset=4]";
    let said = room.done("Read", json!({ "path": "long" })).await;
    assert!(said.starts_with("     1\tone\n     2\txxx") && said.ends_with(notice) && said.len() < 5000);
    assert_eq!(room.done("Read", json!({ "path": "long", "offset": 3 })).await, notice);
}
