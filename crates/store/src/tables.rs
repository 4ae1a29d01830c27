//! The tables, one file each: what made them, the writer's statements, what can be read, and the rows in between.
//!
//! Tenant is part of every key. A new table is a file with `STEPS` and, for the writer, `statements!`, and its name in
//! `tables!` below, which also declares its module.

use crate::sqlite::{Connection, Result};

/// A format of the store, and the SQL that leads to it from the one before. A step that was released is never changed.
pub(crate) type Step = (u32, &'static str);

/// The statements of a table that the writer uses, prepared once.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: $text:expr;)*) => {
        pub(crate) struct Writes<'c> {
            $($(#[$doc])* $name: $crate::sqlite::Statement<'c>,)*
        }

        impl<'c> Writes<'c> {
            pub(crate) fn prepare(connection: &'c $crate::sqlite::Connection) -> $crate::sqlite::Result<Self> {
                Ok(Self { $($name: connection.prepare(AsRef::<str>::as_ref(&$text))?,)* })
            }
        }

        /// The names and texts of the statements.
        #[cfg(test)]
        pub(crate) fn texts() -> Vec<(&'static str, String)> {
            vec![$((stringify!($name), $text.into()),)*]
        }
    };
}

macro_rules! tables {
    (written: $($table:ident),*; others: $($other:ident),*) => {
        $(pub(crate) mod $table;)*
        $(pub(crate) mod $other;)*

        /// What the writer uses of each table.
        pub(crate) struct Writes<'c> {
            $(pub(crate) $table: $table::Writes<'c>,)*
        }

        impl<'c> Writes<'c> {
            pub(crate) fn prepare(connection: &'c Connection) -> Result<Self> {
                Ok(Self { $($table: $table::Writes::prepare(connection)?,)* })
            }
        }

        const STEPS: &[&[Step]] = &[$($table::STEPS,)* $($other::STEPS,)*];

        #[cfg(test)]
        fn texts() -> Vec<(&'static str, String)> {
            [$($table::texts(),)*].concat()
        }
    };
}

// Tables that no commit of an entry writes have no prepared statements: they are among the others.
tables! {
    written: boots, records, runs, waits, batches, sessions, definitions, blobs, keys, effects, values, words, logs;
    others: pruned
}

/// The format that this version writes.
pub(crate) fn format() -> u32 {
    STEPS.iter().copied().flatten().map(|(format, _)| *format).max().unwrap_or_default()
}

/// What leads to `format` from the one before, table by table.
pub(crate) fn steps_to(format: u32) -> impl Iterator<Item = &'static str> {
    STEPS.iter().copied().flatten().filter(move |(to, _)| *to == format).map(|(_, text)| *text)
}

/// What all steps lead to, for a new file: a third of their time. The test `schema` writes it with `UPDATE_DOCS=1`.
pub(crate) const SCHEMA: &str = include_str!("schema.sql");

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::sqlite::{
        Value,
        migrate::{migrate, step_by_step},
    };

    /// The statements that make what the file holds: tables, indexes and rows.
    fn dump(connection: &Connection) -> String {
        let all = |text: &str| -> Vec<String> {
            connection.prepare(text).and_then(|mut found| found.all(&[], |row| row.get(0))).expect("a valid text")
        };
        // The tables behind a virtual one come with it.
        let made = "tbl_name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow')";
        let mut texts =
            all(&format!("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND {made} ORDER BY type DESC, name"));
        for table in
            all(&format!("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%' AND {made}"))
        {
            let columns = all(&format!("SELECT name FROM pragma_table_info('{table}')"));
            let quoted: Vec<_> = columns.iter().map(|column| format!("quote({column})")).collect();
            let rows = all(&format!("SELECT concat_ws(', ', {}) FROM {table}", quoted.join(", ")));
            let names = columns.join(", ");
            texts.extend(rows.into_iter().map(|row| format!("INSERT INTO {table} ({names}) VALUES ({row})")));
        }
        texts.into_iter().map(|text| format!("{text};\n")).collect()
    }

    #[test]
    fn schema_is_what_all_steps_lead_to() {
        let (stepped, new) = (Connection::in_memory(), Connection::in_memory());
        step_by_step(&stepped, 0).expect("an empty file");
        let wanted = dump(&stepped);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schema.sql");
            return fs::write(file, wanted).expect("the schema can be written");
        }
        migrate(&new, 0).expect("an empty file");
        let made = dump(&new);
        assert!(made == wanted, "schema.sql is not what the steps lead to; run with UPDATE_DOCS=1\n{made}\n{wanted}");
        assert_eq!(new.format().expect("a format"), stepped.format().expect("a format"));
    }

    #[test]
    fn every_format_has_a_step() {
        assert!((1..=format()).all(|format| steps_to(format).next().is_some()));
    }

    /// All runs wait for the writer, so its statements look at no more rows than they are about.
    #[test]
    fn no_statement_of_the_writer_looks_at_all_runs_of_a_tenant() {
        let connection = Connection::in_memory();
        migrate(&connection, 0).expect("an empty file");
        for (name, text) in texts().into_iter().filter(|(name, _)| *name != "delete_ballast") {
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).expect("a valid text");
            let nothing = vec![Value::Null; plan.parameters()];
            for step in plan.all(&nothing, |row| row.get::<String>(3)).expect("a plan") {
                let wide =
                    step.ends_with("(tenant=?)") || step.starts_with("SCAN runs") || step.starts_with("SCAN journal");
                assert!(!wide, "{name}: {step}");
            }
        }
    }
}
