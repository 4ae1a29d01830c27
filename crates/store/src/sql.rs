//! Statements whose values are bound by the number in their text.
//!
//! SQLite takes `$2` for a name and numbers names by first appearance, so binding by position would swap values without
//! a word as soon as a text mentions `$2` before `$1`. Everything in this crate is bound through [`Bound`].

use rusqlite::{CachedStatement, Connection, Error, Result, Row, ToSql};

/// A prepared statement.
pub(crate) struct Bound<'c> {
    statement: CachedStatement<'c>,
    /// SQLite's index of `$1`, `$2` and so on.
    places: Vec<usize>,
}

impl<'c> Bound<'c> {
    /// Prepares `text`, whose parameters are `$1` to `$n` without a gap.
    pub(crate) fn new(connection: &'c Connection, text: &str) -> Result<Self> {
        let statement = connection.prepare_cached(text)?;
        let places = (1..=statement.parameter_count())
            .map(|number| {
                let name = format!("${number}");
                statement.parameter_index(&name)?.ok_or(Error::InvalidParameterName(name))
            })
            .collect::<Result<_>>()?;
        Ok(Self { statement, places })
    }

    /// Runs a statement that returns nothing; says how many rows it changed.
    pub(crate) fn execute(&mut self, values: &[&dyn ToSql]) -> Result<usize> {
        self.bind(values)?;
        self.statement.raw_execute()
    }

    /// The first row, if there is one.
    pub(crate) fn first<T>(
        &mut self,
        values: &[&dyn ToSql],
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.bind(values)?;
        self.statement.raw_query().next()?.map(read).transpose()
    }

    /// Every row.
    pub(crate) fn all<T>(
        &mut self,
        values: &[&dyn ToSql],
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.while_some(values, |row| read(row).map(Some))
    }

    /// Rows until `read` gives none.
    pub(crate) fn while_some<T>(
        &mut self,
        values: &[&dyn ToSql],
        mut read: impl FnMut(&Row<'_>) -> Result<Option<T>>,
    ) -> Result<Vec<T>> {
        self.bind(values)?;
        let mut rows = self.statement.raw_query();
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            match read(row)? {
                Some(value) => found.push(value),
                None => break,
            }
        }
        Ok(found)
    }

    fn bind(&mut self, values: &[&dyn ToSql]) -> Result<()> {
        if values.len() != self.places.len() {
            return Err(Error::InvalidParameterCount(values.len(), self.places.len()));
        }
        for (place, value) in self.places.iter().zip(values) {
            self.statement.raw_bind_parameter(*place, *value)?;
        }
        Ok(())
    }
}

/// A sequence, count or size as SQLite keeps it: its largest integer stands for all that are larger.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What [`integer`] kept.
pub(crate) fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_memory() -> Connection {
        Connection::open_in_memory().expect("memory can be opened")
    }

    #[test]
    fn a_statement_whose_second_value_comes_first_gets_each_value_in_its_place() {
        let connection = in_memory();
        let mut statement = Bound::new(&connection, "SELECT $2 || '-' || $1 || '-' || $2").expect("valid text");
        let joined = statement.first(&[&"one", &"two"], |row| row.get::<_, String>(0));
        assert_eq!(joined, Ok(Some("two-one-two".into())));
    }

    #[test]
    fn a_gap_in_the_numbers_and_a_wrong_count_are_errors() {
        let connection = in_memory();
        assert_eq!(
            Bound::new(&connection, "SELECT $1 + $3").err(),
            Some(Error::InvalidParameterName("$2".into())),
            "a statement with a gap was prepared"
        );
        let mut statement = Bound::new(&connection, "SELECT $1 + $2").expect("valid text");
        let short = statement.first(&[&1], |row| row.get::<_, i64>(0));
        assert_eq!(short, Err(Error::InvalidParameterCount(1, 2)));
    }
}
