//! The tree after all merges has each worker's changes applied to the base.

use std::{collections::BTreeMap, fs, path::Path};

use drawloom_checkout::Merge;
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::support::{AT, GOAL, Room, git, write};

/// How many files the base has.
const FILES: usize = 12;

/// What a worker does to one of its files.
#[derive(Debug, Clone)]
enum Edit {
    Write(String),
    Remove,
    Executable,
    Directory(String),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => "[a-z]{0,12}\n".prop_map(Edit::Write),
        1 => Just(Edit::Remove),
        1 => Just(Edit::Executable),
        1 => "[a-z]{1,5}\n".prop_map(Edit::Directory),
    ]
}

fn name(file: usize) -> String {
    format!("d{}/f{file}", file % 3)
}

/// Mode and content of each file, as a tree has them.
type Files = BTreeMap<String, (bool, String)>;

fn apply(files: &mut Files, name: &str, edit: &Edit) {
    match edit {
        Edit::Write(content) => drop(files.insert(name.into(), (false, content.clone()))),
        Edit::Remove => drop(files.remove(name)),
        Edit::Executable => files.entry(name.into()).or_insert((false, "x\n".into())).0 = true,
        Edit::Directory(content) => {
            files.remove(name);
            files.insert(format!("{name}/inside"), (false, content.clone()));
        }
    }
}

fn perform(checkout: &Path, name: &str, edit: &Edit) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = checkout.join(name);
    match edit {
        Edit::Write(content) => {
            let _ = fs::remove_file(&path);
            write(&path, content);
        }
        Edit::Remove => fs::remove_file(&path).expect("removed"),
        Edit::Executable => fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("changed"),
        Edit::Directory(content) => {
            fs::remove_file(&path).expect("removed");
            write(&path.join("inside"), content);
        }
    }
}

fn files_of(room: &Room, commit: &str) -> Files {
    let listed = git(&room.repository, &["ls-tree", "-r", commit]);
    let entries = listed.lines().filter_map(|line| line.split_once('\t'));
    let read = entries.map(|(entry, path)| {
        let id = entry.split(' ').nth(2).expect("an id");
        let mut content = git(&room.repository, &["cat-file", "blob", id]);
        content.push('\n');
        (path.to_owned(), (entry.starts_with("100755"), content))
    });
    read.filter(|(path, _)| path.starts_with('d')).collect()
}

/// Workers, each with edits of files that no other worker touches.
async fn merged_is_the_sum(workers: &[BTreeMap<usize, Edit>]) {
    let room = Room::new();
    let mut expected = Files::new();
    for file in 0..FILES {
        // Different enough that git does not take one file for another that was renamed.
        let content = format!("{}\n", format!("base {file} ").repeat(file + 1).trim_end());
        room.write(&name(file), &content);
        expected.insert(name(file), (false, content));
    }
    room.commit("base");
    let prepared = room.prepare().await;
    let mut head = prepared.base.clone();
    for (number, edits) in workers.iter().enumerate() {
        let worker = format!("w{number}");
        let path = room.writer(&worker, &prepared.base).await.path;
        // Each worker has its own files.
        for (file, edit) in edits.iter().filter(|(file, _)| *file % workers.len() == number) {
            perform(&path, &name(*file), edit);
            apply(&mut expected, &name(*file), edit);
        }
        if let Some(commit) = room.checkpoint(&worker, "k1").await.commit {
            match room.checkouts.merge(GOAL, &head, &commit, "m", AT).await.expect("a merge") {
                Merge::Merged { commit, .. } => head = commit,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(files_of(&room, head.as_str()), expected);
}

#[test]
fn the_merged_tree_has_the_changes_of_each_worker() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let config = Config { cases: 12, failure_persistence: None, ..Config::default() };
    // The same cases each time.
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let workers = prop::collection::vec(prop::collection::btree_map(0..FILES, edit(), 3..FILES), 2..4);
    let checked = runner.run(&workers, |workers| {
        runtime.block_on(merged_is_the_sum(&workers));
        Ok(())
    });
    checked.expect("each case holds");
}
