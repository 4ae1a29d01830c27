use std::{fs, io::Read as _, os::unix::fs::symlink, sync::Mutex};

use super::*;

fn start(dir: &Path, threads: usize, stop: Arc<AtomicBool>) -> Walk {
    let start = OwnedFd::from(File::open(dir).expect("the directory"));
    Walk {
        start,
        path: "".into(),
        ignored: None,
        scope: Scope { hidden: false, ignored: false },
        hidden: Hidden::default(),
        threads,
        stop,
    }
}

#[test]
fn a_walk_that_is_told_to_stop_stops() {
    let dir = tempfile::tempdir().expect("a directory");
    (0..2000).for_each(|number| drop(File::create(dir.path().join(number.to_string())).expect("a file")));
    let (stop, seen) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    start(dir.path(), 4, stop.clone()).run(&LeftOut::default(), || {
        |_| {
            seen.fetch_add(1, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!((1..=4).contains(&seen.load(Ordering::Relaxed)), "one for each thread at most");
}

#[test]
fn what_becomes_a_link_after_it_was_listed_is_not_opened() {
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("secret"), "s3cret").expect("a file");
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path();
    fs::create_dir(root.join("sub")).expect("a directory");
    fs::write(root.join("sub/secret"), "inside").expect("a file");
    ["a", "b"].iter().for_each(|name| fs::write(root.join(name), "inside").expect("a file"));
    let (read, left_out, first) = (Mutex::new(Vec::new()), LeftOut::default(), AtomicBool::new(true));
    // One thread sees the files of a directory before it goes deeper, so the swap comes between listing and opening.
    start(root, 1, Arc::default()).run(&left_out, || {
        |found| {
            if first.swap(false, Ordering::Relaxed) {
                let other = if found.path == Path::new("a") { "b" } else { "a" };
                fs::remove_file(root.join(other)).expect("the other file");
                symlink(outside.path().join("secret"), root.join(other)).expect("a link");
                fs::rename(root.join("sub"), root.join("gone")).expect("the directory");
                symlink(outside.path(), root.join("sub")).expect("a link");
            }
            let mut text = String::new();
            match found.open() {
                Ok(mut file) => drop(file.read_to_string(&mut text).expect("text")),
                Err(why) => left_out.skip(why),
            }
            read.lock().expect("the lock").push(text);
        }
    });
    assert_eq!(*read.lock().expect("the lock"), ["inside", ""], "the second file and the directory had become links");
    assert_eq!(left_out.notices(), ["[files or directories that cannot be opened: 2]"]);
}
