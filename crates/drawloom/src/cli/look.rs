//! Options for the output that commands share.

use clap::{Args, ValueEnum};

/// The format of the output.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Look {
    /// Print JSON, the same as -o json
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
    /// Choose the format: json, yaml, or wide (tables with every column)
    #[arg(long, short, value_name = "FORMAT", value_enum, hide_possible_values = true)]
    pub output: Option<Layout>,
}

/// A format that can be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// One JSON value, or one per line.
    Json,
    /// YAML documents.
    Yaml,
    /// Text whose tables keep every column, however wide they get.
    Wide,
}

impl Look {
    /// The format of a command whose output is always for programs.
    pub(crate) const JSON: Self = Self { json: true, output: None };

    /// The format that was named, if any.
    pub(crate) fn layout(self) -> Option<Layout> {
        if self.json { Some(Layout::Json) } else { self.output }
    }
}

/// Whether only ids are printed. Commands with this also have [`Look`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub struct Quiet {
    /// Print only ids or names, one per line
    #[arg(long, short, conflicts_with_all = ["json", "output"])]
    pub quiet: bool,
}
