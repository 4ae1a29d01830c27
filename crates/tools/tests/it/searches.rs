//! `Glob` and `Grep`.

use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::support::Room;

fn tree() -> Room {
    let room = Room::new();
    room.put("src/main.rs", "fn main() {\n    println!(\"needle\");\n}\n");
    room.put("src/lib/deep.rs", "// one\n// two\n// Needle\n// four\n// five\n");
    room.put("docs/guide.md", "needle in a guide\n");
    room.put(".hidden/secret.rs", "needle\n");
    room.put(".gitignore", "/target\n*.log\n!keep.log\n");
    room.put("target/out.rs", "needle\n");
    room.put("src/noise.log", "needle\n");
    room.put("src/keep.log", "needle\n");
    room.put("data.bin", b"needle\0needle\n");
    room.put("src/.ignore", "generated\n");
    room.put("src/generated/code.rs", "needle\n");
    std::os::unix::fs::symlink("/etc", room.volume.path().join("etc")).expect("a link");
    room
}

#[tokio::test]
async fn glob_names_files_from_the_root_newest_first() {
    let room = tree();
    for (age, path) in [(3, "src/main.rs"), (1, "src/lib/deep.rs"), (2, "docs/guide.md")] {
        let file = std::fs::File::options().write(true).open(room.volume.path().join(path)).expect(path);
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age)).expect("a time");
    }
    let link = "\n[symlinks not followed: 1]";
    assert_eq!(room.done("Glob", json!({ "pattern": "**/*.rs" })).await, format!("src/lib/deep.rs\nsrc/main.rs{link}"));
    let both = room.done("Glob", json!({ "pattern": "{docs,src}/**/*.{md,rs}" })).await;
    assert_eq!(both, format!("src/lib/deep.rs\ndocs/guide.md\nsrc/main.rs{link}"));
    assert_eq!(room.done("Glob", json!({ "pattern": "*.rs", "path": "src" })).await, "src/main.rs");
    assert_eq!(room.done("Glob", json!({ "pattern": "*.rs" })).await, format!("[no files match]{link}"));
    let absolute = format!("{}/src/**/*.rs", room.volume.path().display());
    assert_eq!(room.done("Glob", json!({ "pattern": absolute })).await, "src/lib/deep.rs\nsrc/main.rs");
    let all = room.done("Glob", json!({ "pattern": "**/*.rs", "hidden": true, "ignored": true })).await;
    for path in [".hidden/secret.rs", "target/out.rs", "src/generated/code.rs"] {
        assert!(all.contains(path), "{path}: {all}");
    }
    for bad in ["", "../*", "a/../../b", "[z-a]", "{a"] {
        room.fails("Glob", json!({ "pattern": bad })).await;
    }
    assert!(room.fails("Glob", json!({ "pattern": "*", "path": "none" })).await.contains("no such file"));
}

#[tokio::test]
async fn glob_names_a_hundred_and_says_how_many_there_are() {
    let room = Room::new();
    (0..250).for_each(|number| room.put(&format!("d{}/{number}.txt", number % 7), ""));
    let said = room.done("Glob", json!({ "pattern": "**/*.txt" })).await;
    assert_eq!(said.lines().count(), 101);
    assert!(said.ends_with("[truncated: the newest 100 of 250 files; use a narrower pattern or path]"), "{said}");
}

#[tokio::test]
async fn grep_shows_files_lines_or_counts_and_what_it_left_out() {
    let room = tree();
    let left_out = "[binary files skipped: 1]\n[symlinks not followed: 1]";
    assert_eq!(
        room.done("Grep", json!({ "pattern": "needle" })).await,
        format!("docs/guide.md\nsrc/keep.log\nsrc/main.rs\n{left_out}")
    );
    assert_eq!(
        room.done(
            "Grep",
            json!({ "pattern": "NEEDLE", "case_insensitive": true, "output_mode": "content", "glob": "*.rs" })
        )
        .await,
        "src/lib/deep.rs:3:// Needle\nsrc/main.rs:2:    println!(\"needle\");\n[symlinks not followed: 1]"
    );
    assert_eq!(
        room.done("Grep", json!({ "pattern": "//", "output_mode": "count", "path": "src", "type": "rust" })).await,
        "src/lib/deep.rs:5"
    );
    for spelling in ["src/lib", "src/lib/", "src/lib/deep.rs"] {
        let one = room.done("Grep", json!({ "pattern": "Needle", "path": spelling })).await;
        assert_eq!(one, "src/lib/deep.rs", "{spelling}");
    }
    let absolute = room.volume.path().join("src");
    assert_eq!(room.done("Grep", json!({ "pattern": "Needle", "path": absolute })).await, "src/lib/deep.rs");
    let others = room.done("Grep", json!({ "pattern": "needle", "glob": "!*.{rs,log,bin}" })).await;
    assert!(others.starts_with("docs/guide.md\n["), "{others}");
    assert_eq!(room.done("Grep", json!({ "pattern": "haystack", "path": "src" })).await, "[no matches]");
    let all = room.done("Grep", json!({ "pattern": "needle", "hidden": true, "ignored": true })).await;
    for path in [".hidden/secret.rs", "target/out.rs", "src/generated/code.rs", "src/noise.log"] {
        assert!(all.contains(path), "{path}: {all}");
    }
    // Asked for by name, an ignored directory is searched.
    assert_eq!(room.done("Grep", json!({ "pattern": "needle", "path": "target" })).await, "target/out.rs");
    // What a directory above ignores stays ignored further down.
    assert!(!room.done("Grep", json!({ "pattern": "needle", "path": "src" })).await.contains("noise.log"));
}

#[tokio::test]
async fn grep_matches_across_lines_and_shows_lines_around() {
    let room = tree();
    let across = json!({ "pattern": "two.*Needle", "multiline": true, "output_mode": "content", "path": "src" });
    assert_eq!(room.done("Grep", across).await, "src/lib/deep.rs:2:// two\nsrc/lib/deep.rs:3:// Needle");
    let error = room.fails("Grep", json!({ "pattern": "two\\n// Needle" })).await;
    assert!(error.contains("set multiline"), "{error}");
    let around = json!({ "pattern": "Needle|one", "output_mode": "content", "-A": 1, "path": "src/lib" });
    assert_eq!(
        room.done("Grep", around).await,
        "src/lib/deep.rs:1:// one\nsrc/lib/deep.rs-2-// two\nsrc/lib/deep.rs:3:// Needle\nsrc/lib/deep.rs-4-// four"
    );
    let gaps = json!({ "pattern": "one|five", "output_mode": "content", "context": 1, "path": "src/lib" });
    assert_eq!(
        room.done("Grep", gaps).await,
        "src/lib/deep.rs:1:// one\nsrc/lib/deep.rs-2-// two\n--\nsrc/lib/deep.rs-4-// four\nsrc/lib/deep.rs:5:// five"
    );
    for (bad, says) in [
        (json!({ "pattern": "(" }), "escape special characters"),
        (json!({ "pattern": "x", "type": "klingon" }), "unknown file type \"klingon\""),
        (json!({ "pattern": "x", "head_limit": 100_000 }), "at most 1000"),
        (json!({ "pattern": "x", "context": 99 }), "at most 50"),
        (json!({ "pattern": "x", "path": "none" }), "no such file"),
        (json!({ "pattern": "x", "nonsense": 1 }), "nonsense"),
    ] {
        let error = room.fails("Grep", bad).await;
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test]
async fn grep_gives_long_results_piece_by_piece_in_order() {
    let room = Room::new();
    (0..40).for_each(|file| {
        let lines: Vec<String> = (0..10).map(|line| format!("needle {file:02} {line}")).collect();
        room.put(&format!("d{}/{file:02}.txt", file % 3), lines.join("\n"));
    });
    for mode in ["content", "files_with_matches", "count"] {
        let (mut offset, mut seen) = (0, Vec::new());
        loop {
            let input = json!({ "pattern": "needle", "output_mode": mode, "offset": offset, "head_limit": 17 });
            let said = room.done("Grep", input).await;
            seen.extend(said.lines().filter(|line| !line.starts_with('[')).map(str::to_owned));
            let Some((_, next)) = said.rsplit_once("continue with offset=") else { break };
            offset = next.trim_end_matches(']').parse().expect("a number");
        }
        assert_eq!(seen.len(), if mode == "content" { 400 } else { 40 }, "{mode}");
        let mut paths: Vec<&str> = seen.iter().map(|line| line.split(':').next().expect("a path")).collect();
        assert!(paths.is_sorted(), "{mode}");
        paths.dedup();
        assert_eq!(paths.len(), 40, "{mode}");
    }
    let past = room.done("Grep", json!({ "pattern": "needle", "offset": 41 })).await;
    assert_eq!(past, "[offset 41 is out of range: 40 results]");
    room.put("wide.txt", format!("needle {}\n", "x".repeat(100_000)).repeat(3));
    let wide = room.done("Grep", json!({ "pattern": "needle", "output_mode": "content", "path": "wide.txt" })).await;
    assert!(
        wide.len() < 2000 && wide.ends_with("[long lines are truncated and end with …; use Read to see them in full]"),
        "{wide}"
    );
    room.put("many.txt", "needle and quite a lot of other text in the same line\n".repeat(9000));
    let many =
        json!({ "pattern": "needle", "output_mode": "content", "path": "many.txt", "context": 50, "head_limit": 1000 });
    let many = room.done("Grep", many).await;
    assert!(many.len() <= 257 * 1024, "{}", many.len());
}

#[tokio::test]
async fn hostile_trees_are_searched_without_harm() {
    let room = Room::new();
    room.put("a.txt", "needle");
    let root = room.volume.path();
    // An ignore file that is a link to an endless device, or a pipe that nobody writes to.
    std::os::unix::fs::symlink("/dev/zero", root.join(".gitignore")).expect("a link");
    std::fs::create_dir(root.join("sub")).expect("a directory");
    for pipe in ["sub/.gitignore", "sub/.ignore", "sub/pipe"] {
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join(pipe), rustix::fs::Mode::RWXU).expect("a pipe");
    }
    room.put("sub/b.txt", "needle");
    std::os::unix::fs::symlink(root, root.join("loop")).expect("a link");
    let deep = format!("{}f.txt", "d/".repeat(80));
    room.put(&deep, "needle");
    let said = room.done("Grep", json!({ "pattern": "needle" })).await;
    assert_eq!(said, "a.txt\nsub/b.txt\n[symlinks not followed: 2]\n[directories too deep to search: 1]");
    assert!(room.done("Glob", json!({ "pattern": "**/*.txt" })).await.contains("sub/b.txt"));
}

#[tokio::test]
async fn one_long_match_is_cut_and_it_is_said_where_it_goes_on() {
    let room = Room::new();
    room.put("long", format!("begin\n{}end\n", "a line of a long match\n".repeat(30_000)));
    let input = json!({ "pattern": "begin.*end", "multiline": true, "output_mode": "content" });
    let said = room.done("Grep", input).await;
    let last = said.lines().last().expect("a line");
    let shown = said.lines().filter(|line| line.starts_with("long:")).count();
    let next = shown + 1;
    assert_eq!(last, format!("[match truncated: it continues in long at line {next}; use Read with offset={next}]"));
    assert!(said.len() < 257 * 1024);
}

#[tokio::test]
async fn names_that_are_not_plain_text_are_quoted() {
    use std::os::unix::ffi::OsStrExt;
    let room = Room::new();
    for name in [b"a\nb:1:c".as_slice(), b"\xff"] {
        std::fs::write(room.volume.path().join(std::ffi::OsStr::from_bytes(name)), "text").expect("a file");
    }
    for (tool, input) in [("Glob", json!({ "pattern": "*" })), ("Grep", json!({ "pattern": "text" }))] {
        let said = room.done(tool, input).await;
        let mut lines: Vec<_> = said.lines().collect();
        lines.sort_unstable();
        let note = "(quoted: the name contains special characters)";
        assert_eq!(lines, [format!("\"\\xFF\" {note}"), format!("\"a\\nb:1:c\" {note}")], "{tool}");
    }
}
