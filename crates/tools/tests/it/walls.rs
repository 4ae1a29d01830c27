//! Escapes, for every tool that has walls: how many were tried, and that none got through.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use drawloom_contract::tool::{CallResult, Step, ToolError};
use rustix::fs::{RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::{
    support::{Room, report},
    web::{page, redirect, serve},
};

/// What nobody inside a volume may see.
const SECRET: &str = "s3cret-outside";

/// Paths that lead out: `OUT` is a directory beside the volume with a file `secret`.
const PATHS: &[&str] = &[
    "../OUT/secret",
    "OUT/secret",
    "/OUT/secret",
    "a/../../OUT/secret",
    "./../OUT/secret",
    "a/b/../../../OUT/secret",
    "link",
    "dir/secret",
    "dir/../OUT/secret",
    "chain",
    "a/up/OUT/secret",
    "absolute",
    "proc/self/TOP/OUT/secret",
    "/proc/self/TOP/OUT/secret",
    "/proc/self/cwd/../OUT/secret",
    "rootlink/OUT/secret",
    "fdlink",
    "a/../link",
    "link/",
    "dir//secret",
    "hard/../link",
    "…/../link",
    "a\u{202e}/../../OUT/secret",
    "-/../../OUT/secret",
];

/// A volume full of ways out, and what stands beside it.
struct Trap {
    room: Room,
    outside: tempfile::TempDir,
}

impl Trap {
    fn new() -> Self {
        let (room, outside) = (Room::new(), tempfile::tempdir().expect("a directory"));
        std::fs::write(outside.path().join("secret"), SECRET).expect("a file");
        room.put("a/b/inside.txt", "inside");
        let link = |to: &std::path::Path, name: &str| {
            std::os::unix::fs::symlink(to, room.volume.path().join(name)).expect("a link");
        };
        link(&outside.path().join("secret"), "link");
        link(outside.path(), "dir");
        link("link".as_ref(), "chain");
        link("../..".as_ref(), "a/up");
        link(&outside.path().join("secret"), "absolute");
        link("/proc".as_ref(), "proc");
        link("/".as_ref(), "rootlink");
        link("/proc/self/fd/0".as_ref(), "fdlink");
        Self { room, outside }
    }

    fn path(&self, pattern: &str) -> String {
        let outside = self.outside.path().display().to_string();
        let name = self.outside.path().file_name().expect("a name").to_string_lossy().into_owned();
        match pattern.contains("../OUT") || pattern.contains("up/OUT") {
            true => pattern.replace("TOP", "root").replace("OUT", &name),
            false => pattern.replace("TOP", "root").replace("/OUT", &outside).replace("OUT", &outside),
        }
    }

    /// The secret is as it was, and alone.
    fn is_untouched(&self) -> bool {
        let alone = std::fs::read_dir(self.outside.path()).expect("the directory").count() == 1;
        alone && std::fs::read_to_string(self.outside.path().join("secret")).is_ok_and(|text| text == SECRET)
    }
}

fn reveals(answer: &Result<Step, ToolError>) -> bool {
    match answer {
        Ok(Step::Done(answer)) => answer.text.contains(SECRET),
        Ok(Step::Wait(_) | Step::Spawn { .. }) => true,
        Err(error) => error.to_string().contains(SECRET),
    }
}

#[tokio::test]
async fn no_path_leads_out_of_a_volume() {
    let mut tried = 0;
    for pattern in PATHS {
        let trap = Trap::new();
        let path = trap.path(pattern);
        let calls: &[(&str, Value)] = &[
            ("Read", json!({ "path": path })),
            ("Read", json!({ "path": path, "bytes": true })),
            ("Write", json!({ "path": path, "content": "changed" })),
            ("Edit", json!({ "path": path, "old_string": SECRET, "new_string": "changed" })),
            ("Grep", json!({ "pattern": "s3cret", "path": path, "output_mode": "content" })),
            ("Grep", json!({ "pattern": "s3cret", "path": path, "hidden": true, "ignored": true })),
            ("Glob", json!({ "pattern": "**/*", "path": path })),
            ("Glob", json!({ "pattern": path })),
        ];
        for (tool, input) in calls {
            let answer = trap.room.call(tool, input.clone()).await;
            assert!(!reveals(&answer), "{tool} {input}: {answer:?}");
            if let Ok(Step::Done(CallResult { text, .. })) = &answer {
                assert!(!text.lines().any(|line| line.ends_with("secret")), "{tool} {input}: {text}");
                assert!(!matches!(*tool, "Read" | "Edit"), "{tool} {input}: {text}");
            }
            assert!(trap.is_untouched(), "{tool} {input}: {answer:?}");
            tried += 1;
        }
    }
    let whole = Trap::new();
    for (tool, input) in [
        ("Grep", json!({ "pattern": "s3cret", "hidden": true, "ignored": true })),
        ("Glob", json!({ "pattern": "**/secret", "hidden": true, "ignored": true })),
        ("Glob", json!({ "pattern": "*/secret" })),
    ] {
        let text = whole.room.done(tool, input).await;
        assert!(text.starts_with("[no "), "{text}");
        tried += 1;
    }
    report(&format!("{tried} path escapes tried, 0 got through"));
    assert!(tried >= 190, "{tried}");
}

#[tokio::test]
async fn a_link_that_is_swapped_in_meanwhile_leads_nowhere() {
    let trap = Trap::new();
    trap.room.put("swap/secret", "inside");
    let (root, outside) = (trap.room.volume.path().to_owned(), trap.outside.path().to_owned());
    let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let racer = {
        let (stop, swaps) = (stop.clone(), swaps.clone());
        std::thread::spawn(move || {
            // Now a directory, now a link to the outside, as fast as it goes, and never neither.
            std::os::unix::fs::symlink(&outside, root.join("evil")).expect("a link");
            let directory = std::fs::File::open(&root).expect("the volume");
            while !stop.load(Ordering::Relaxed) {
                renameat_with(&directory, "swap", &directory, "evil", RenameFlags::EXCHANGE).expect("both are there");
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let (mut tried, mut answered) = (0, 0);
    while tried < 600 {
        let calls = [
            ("Read", json!({ "path": "swap/secret" })),
            ("Grep", json!({ "pattern": "s3cret|inside", "output_mode": "content" })),
            ("Grep", json!({ "pattern": "s3cret|inside", "path": "swap", "output_mode": "content" })),
            ("Glob", json!({ "pattern": "**/secret" })),
            ("Write", json!({ "path": "swap/secret", "content": "inside" })),
            ("Edit", json!({ "path": "swap/secret", "old_string": SECRET, "new_string": "changed" })),
        ];
        for (tool, input) in calls {
            let answer = trap.room.call(tool, input).await;
            assert!(!reveals(&answer), "{tool}: {answer:?}");
            answered += u32::from(matches!(&answer, Ok(Step::Done(answer)) if answer.text.contains("inside")));
            tried += 1;
        }
    }
    stop.store(true, Ordering::Relaxed);
    racer.join().expect("the racer");
    assert!(trap.is_untouched());
    assert!(answered > 0, "the race was one: some calls found the file");
    report(&format!("{tried} calls raced with {} swapped links, 0 got through", swaps.load(Ordering::Relaxed)));
}

#[tokio::test]
async fn no_redirect_and_no_name_leads_to_a_private_address() {
    let targets = [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://[::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "http://[64:ff9b::a00:1]/",
        "http://[fd00::1]/",
        "http://private.example/",
        "http://PRIVATE.example./",
        "//private.example/",
        "http://rebind.example/",
        "http://0/",
        "http://user@127.0.0.1/",
        "file:///etc/passwd",
        "http://public.example:22/",
        "ftp://127.0.0.1/",
        "http://127.0.0.1:80.evil.example/",
    ];
    let mut tried = 0;
    for target in targets {
        for tool in ["HTTP", "WebFetch"] {
            for status in [301, 302, 303, 307, 308] {
                let room = Room::new();
                let at = |address: &str| address.parse().expect("an address");
                *room.network.names.lock().expect("the lock") = vec![
                    ("private.example".into(), vec![at("192.168.1.1")]),
                    ("rebind.example".into(), vec![at("127.0.0.1")]),
                ];
                serve(&room, vec![("/start", redirect(status, target)), ("/", page("text/plain", SECRET))]).await;
                let answer = room.call(tool, json!({ "url": "http://public.example/start" })).await;
                assert!(answer.is_err() && !reveals(&answer), "{tool} {status} {target}: {answer:?}");
                assert_eq!(room.network.dialled.lock().expect("the lock").len(), 1, "{tool} {status} {target}");
                tried += 1;
            }
            let room = Room::new();
            *room.network.names.lock().expect("the lock") =
                vec![("private.example".into(), vec!["10.1.1.1".parse().expect("an address")])];
            if !target.starts_with("http://rebind") && !target.starts_with("//") {
                assert!(room.call(tool, json!({ "url": target })).await.is_err(), "{tool} {target}");
                assert_eq!(room.network.dialled.lock().expect("the lock").len(), 0, "{tool} {target}");
                tried += 1;
            }
        }
    }
    // A name that is public when the page is fetched and private when its redirect comes back to it.
    let room = Room::new();
    let answers = ["93.184.216.34", "127.0.0.1"].map(|ip| ip.parse().expect("an address")).to_vec();
    *room.network.names.lock().expect("the lock") = vec![("rebind.example".into(), answers)];
    serve(&room, vec![("/start", redirect(302, "/")), ("/", page("text/plain", SECRET))]).await;
    let answer = room.call("HTTP", json!({ "url": "http://rebind.example/start" })).await;
    assert!(answer.is_err() && !reveals(&answer), "{answer:?}");
    assert_eq!(*room.network.dialled.lock().expect("the lock"), ["93.184.216.34:80".parse().expect("an address")]);
    tried += 1;
    report(&format!("{tried} ways to a private address tried, 0 got through"));
    assert!(tried > 200, "{tried}");
}

/// What a command may try in order to stay, or to get out; each runs through the tool itself.
const COMMANDS: &[(&str, &str)] = &[
    ("a daemon", "setsid sleep 1234567 >/dev/null 2>&1 &"),
    ("a daemon by double fork", "setsid sh -c '(sleep 1234567 &) & exit 0' >/dev/null 2>&1 & wait"),
    ("a child that holds the output", "sleep 1234567 &"),
    ("closed output", "exec >&- 2>&-; sleep 1234567"),
    ("SIGTERM ignored", "trap '' TERM; while :; do sleep 0.1; done"),
    ("a small bomb", "i=0; while [ $i -lt 60 ]; do setsid sleep 1234567 & i=$((i+1)); done"),
    ("endless output", "yes"),
    ("read outside", "cat OUT/secret"),
    ("a link outside", "ln -s OUT/secret l; cat l"),
    ("through /proc", "cat /proc/self/TOP/OUT/secret"),
    ("change outside", "echo changed > OUT/secret; touch OUT/new; rm OUT/secret"),
    ("our environment", "cat /proc/PARENT/environ"),
];

#[tokio::test]
async fn no_command_stays_or_gets_out() {
    let launcher = Room::new().parts().launcher;
    let found = launcher.confinement().expect("a probe");
    let confined = found.namespaces.is_on() || matches!(found.landlock, drawloom_process::Landlock::On(6..));
    let mut tried = 0;
    for (what, script) in COMMANDS {
        if !confined && (script.contains("OUT") || script.contains("PARENT")) {
            continue;
        }
        let trap = Trap::new();
        let script = script
            .replace("TOP", "root")
            .replace("OUT", &trap.outside.path().display().to_string())
            .replace("PARENT", &std::process::id().to_string());
        let mark = format!("export WALLS={}; ", trap.room.volume.path().display());
        let answer = trap.room.call("Bash", json!({ "command": mark + &script, "timeout_seconds": 1 })).await;
        let text = match &answer {
            Ok(Step::Done(CallResult { text, .. })) | Err(ToolError::Failed(text)) => text,
            other => panic!("{what}: {other:?}"),
        };
        assert!(!reveals(&answer) && !text.contains("CARGO_MANIFEST_DIR"), "{what}: {text}");
        assert!(trap.is_untouched(), "{what}");
        assert_eq!(marked(&format!("WALLS={}", trap.room.volume.path().display())), 0, "{what}");
        tried += 1;
    }
    report(&format!("{tried} commands tried to stay or get out, 0 did"));
}

/// How many processes carry a mark in their environment.
pub(crate) fn marked(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let carries = |environment: Vec<u8>| environment.split(|byte| *byte == 0).any(|held| held == mark.as_bytes());
    entries.filter(|entry| std::fs::read(entry.path().join("environ")).is_ok_and(carries)).count()
}
