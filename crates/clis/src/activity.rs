//! What a CLI does now, read from its output.

use std::path::Path;

use drawloom_contract::activity::Activity;
use serde_json::Value;

/// Fields of a tool's input that name what it is used on, the most telling first.
const TELLING: [&str; 11] = [
    "file_path",
    "filePath",
    "notebook_path",
    "command",
    "pattern",
    "path",
    "url",
    "query",
    "description",
    "prompt",
    "name",
];

/// What a tool is used on. Empty when its input does not name it.
pub(crate) fn subject(input: &Value) -> String {
    TELLING.iter().find_map(|key| input[key].as_str()).unwrap_or_default().to_owned()
}

/// The activity with paths relative to the directory in which the CLI works.
pub(crate) fn relative(activity: &Activity, directory: &Path) -> Activity {
    let inside = format!("{}/", directory.display());
    Activity { detail: activity.detail.replace(&inside, ""), ..activity.clone() }
}
