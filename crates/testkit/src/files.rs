//! Waits for files that other processes make.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::sync::oneshot;

/// Room for some events. What they say is not looked at.
const EVENTS: usize = 4096;

/// Returns when the path exists. A thread waits for the kernel to report a change in the nearest directory that is there; when nobody waits
/// any more, it ends with the test's process.
pub async fn appears(path: &Path) {
    let (sender, there) = oneshot::channel();
    let path = path.to_owned();
    std::thread::spawn(move || {
        wait_for(&path);
        // Nobody waits any more.
        _ = sender.send(());
    });
    there.await.expect("the thread answers when the path exists");
}

/// Returns when the path does not exist any more. Its directory must stay.
pub fn wait_until_gone(path: &Path) {
    let directory = path.parent().expect("a path in a directory");
    let watch = inotify::init(CreateFlags::CLOEXEC).expect("a watch");
    inotify::add_watch(&watch, directory, WatchFlags::DELETE | WatchFlags::MOVED_FROM).expect("it can be watched");
    while path.symlink_metadata().is_ok() {
        rustix::io::read(&watch, &mut [0; EVENTS]).expect("an event");
    }
}

fn wait_for(path: &Path) {
    loop {
        let above = nearest(path);
        let watch = watch_of(&above);
        // It may have come before the watch.
        if path.exists() {
            return;
        }
        if nearest(path) == above {
            rustix::io::read(&watch, &mut [0; EVENTS]).expect("an event");
        }
    }
}

fn nearest(path: &Path) -> PathBuf {
    path.ancestors().skip(1).find(|above| above.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn watch_of(directory: &Path) -> OwnedFd {
    let watch = inotify::init(CreateFlags::CLOEXEC).expect("a watch");
    let changes = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
    inotify::add_watch(&watch, directory, changes).expect("the directory can be watched");
    watch
}
