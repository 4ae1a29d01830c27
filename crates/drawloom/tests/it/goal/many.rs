//! Goals with many files: nothing is cut without a word, and the result does not wait for the disk.

use std::fs;

use drawloom_testkit::files::wait_until_gone;

use super::Project;

#[test]
fn twenty_thousand_changed_files_are_reviewed_by_folder_and_counted() {
    let project = Project::new();
    let state = project.add_cli("judge", "cat > STATE/prompt\nCLI < STATE/prompt");
    let goal = "\
Generate files.
PLAN: [{\"id\":\"alpha\",\"description\":\"generate\"}]
WORK alpha: mkdir -p generated/names src; cd generated/names; seq -f 'a_file_with_a_rather_long_name_so_that_the_list_of_all_passes_the_limit_%g' 19000 | xargs touch; echo x > ../../src/one.txt
";
    let result = project.result(goal, &["--reviewer", "judge"]);
    assert_eq!(result["status"], "completed", "{:#}", result["error"]);
    let worktree = &result["worktree"];
    assert_eq!(worktree["changed_count"], 19_001, "{:#}", worktree["changed_folders"]);
    let listed = worktree["changed_files"].as_array().expect("a list");
    assert!(listed.iter().any(|path| path == "src/one.txt"), "a small folder is listed");
    let folders = worktree["changed_folders"].as_array().expect("folders");
    let counted: u64 = folders.iter().filter_map(|folder| folder["files"].as_u64()).sum();
    assert_eq!(listed.len() as u64 + counted, 19_001);
    let prompt = fs::read_to_string(state.join("prompt")).expect("the prompt of the reviewer");
    for part in [
        "# Changed files since the beginning (19001)",
        "- src/one.txt (added, 2 bytes)",
        "by folder",
        "- generated/names/",
    ] {
        assert!(prompt.contains(part), "{part}");
    }
}

#[test]
fn what_a_killed_server_did_not_free_is_freed_by_the_next_one() {
    let project = Project::new();
    let result = project.result(super::TWO, &[]);
    let folder = project.folder(&result);
    let finished: Vec<_> = project.events(result["run_id"].as_str().expect("an id"));
    assert!(finished.iter().any(|event| event["kind"] == "worktree_finished"));
    assert!(!folder.join("work").exists(), "its checkouts are gone when it has ended");
    project.run(&["stop"]).exits(0);
    // What a server leaves that is killed between the result and the end of the cleanup.
    let left = folder.join("trash/1-0/removed/file");
    fs::create_dir_all(left.parent().expect("a directory")).expect("made");
    fs::write(&left, "x").expect("a file");
    project.run(&["restart"]).exits(0);
    wait_until_gone(&folder.join("trash"));
    assert!(folder.join("result.json").exists());
}
