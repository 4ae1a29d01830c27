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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{Value, migrate::migrate};

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
