//! What the list of a run's columns turns into: the texts of insert, update and select, their values, and the mapping.
//!
//! The list itself is in `row.rs`.

pub(super) struct Column {
    pub(super) name: &'static str,
    /// How any entry changes it: a SQL expression, in which `$name` is the new value of that column.
    pub(super) set: Option<&'static str>,
    /// How an entry that ends the run changes it.
    pub(super) end: Option<&'static str>,
}

/// Takes the columns, each as `name: value of a new row => set "how an entry changes it": with what` or `=> end` for the entry
/// that ends the run, and an expression that reads them as local variables.
macro_rules! columns {
    (
        row($view:ident, $blob:ident) change($run:ident, $patch:ident)
        columns { $($columns:tt)* } texts { $($texts:tt)* }
        read { $read:expr }
    ) => {
        columns! { @names $($columns)* }
        columns! { @all ($view, $blob) ($run, $patch) ($read) $($columns)* $($texts)* }
    };
    (
        @names
        $($name:ident: $value:expr $(=> set $set:literal: $change:expr)? $(=> end $end:literal: $last:expr)?;)*
    ) => {
        /// The columns without texts, each with a comma after it.
        macro_rules! names {
            () => {
                concat!($(stringify!($name), ", "),*)
            };
        }
        pub(super) use names;
    };
    (
        @all ($view:ident, $blob:ident) ($run:ident, $patch:ident) ($read:expr)
        $($name:ident: $value:expr $(=> set $set:literal: $change:expr)? $(=> end $end:literal: $last:expr)?;)*
    ) => {
        pub(super) const COLUMNS: &[Column] = &[$(Column {
            name: stringify!($name),
            set: [$(Some($set),)? None][0],
            end: [$(Some($end),)? None][0],
        },)*];
        const SET: usize = [$($($set,)?)*].len();
        const END: usize = [$($($end,)?)*].len();

        /// The values of a new row.
        pub(super) fn values<'a>($view: &'a RunView, $blob: Option<&'a Digest>) -> [Value<'a>; COLUMNS.len()] {
            [$(Value::from($value),)*]
        }

        /// The values of `advance`.
        pub(super) fn changes<'a>($run: &'a Run, $patch: &'a Patch) -> [Value<'a>; 3 + SET] {
            [(&$run.key.tenant).into(), (&$run.key.run).into(), $run.expected.into(), $($(Value::from($change),)?)*]
        }

        /// The values of `finish`.
        pub(super) fn last_changes<'a>($run: &'a Run, $patch: &'a Patch) -> [Value<'a>; 3 + SET + END] {
            [
                (&$run.key.tenant).into(),
                (&$run.key.run).into(),
                $run.expected.into(),
                $($(Value::from($change),)?)*
                $($(Value::from($last),)?)*
            ]
        }

        /// The run that a row of `select_runs!` shows.
        pub(crate) fn read(row: Row<'_>) -> Result<RunView> {
            let mut columns = row.columns();
            $(let $name = columns.take()?;)*
            let text_of_blob = columns.take()?;
            let read = $read;
            read(text_of_blob)
        }
    };
}
pub(super) use columns;

/// `SELECT` of a run's row, then what follows `FROM runs`.
macro_rules! select_runs {
    ($rest:expr) => {
        concat!(
            "SELECT ",
            names!(),
            "final_text, final_blob, ",
            $crate::tables::blobs::final_text!(),
            " FROM runs ",
            $rest
        )
    };
}
pub(super) use select_runs;

/// The same without the text, which may be long.
macro_rules! select_runs_without_texts {
    ($($rest:expr),+) => {
        concat!("SELECT ", names!(), "NULL, NULL, NULL FROM runs ", $($rest),+)
    };
}
pub(super) use select_runs_without_texts;

/// The insert of a new row.
pub(super) fn insert(columns: &[Column]) -> String {
    let names: Vec<_> = columns.iter().map(|column| column.name).collect();
    let places: Vec<_> = (1..=columns.len()).map(|number| format!("${number}")).collect();
    format!("INSERT INTO runs ({}) VALUES ({})", names.join(", "), places.join(", "))
}

/// The update of a run that goes on, which is also the check of its sequence.
pub(super) fn advance(columns: &[Column]) -> String {
    update(columns.iter().filter_map(|column| Some((column.name, column.set?))))
}

/// The update of a run that ends. It is apart from [`advance`], so that only the end of a run touches the indexes of
/// unfinished runs.
pub(super) fn finish(columns: &[Column]) -> String {
    let set = columns.iter().filter_map(|column| Some((column.name, column.set?)));
    update(set.chain(columns.iter().filter_map(|column| Some((column.name, column.end?)))))
}

/// `$1` to `$3` say which run and where it must be; the changes follow.
fn update<'a>(changes: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let changes: Vec<_> = changes.collect();
    let number = |name: &str| {
        let place = changes.iter().position(|(column, _)| *column == name).expect("a column that changes");
        format!("${}", place + 4)
    };
    let mut set = Vec::new();
    for (column, how) in &changes {
        let mut pieces = how.split('$');
        let mut text = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let end = piece.find(|next: char| !next.is_ascii_lowercase() && next != '_').unwrap_or(piece.len());
            text += &number(&piece[..end]);
            text += &piece[end..];
        }
        set.push(format!("{column} = {text}"));
    }
    format!("UPDATE runs SET {} WHERE tenant = $1 AND run = $2 AND seq = $3 AND ended_at IS NULL", set.join(", "))
}
