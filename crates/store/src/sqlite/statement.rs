//! Statements whose values are bound by the number in their text.
//!
//! SQLite takes `$2` for a name and numbers names by first appearance, so binding by position would swap values without
//! a word as soon as a text mentions `$2` before `$1`. Everything in this crate is bound through [`Statement`].

use rusqlite::CachedStatement;

use super::{Connection, Result, Row, Value};

/// A prepared statement.
pub(crate) struct Statement<'c> {
    statement: CachedStatement<'c>,
    /// SQLite's index of `$1`, `$2` and so on.
    places: Vec<usize>,
}

impl Connection {
    /// Prepares `text`, whose parameters are `$1` to `$n` without a gap.
    pub(crate) fn prepare(&self, text: &str) -> Result<Statement<'_>> {
        let statement = self.0.prepare_cached(text)?;
        let places = (1..=statement.parameter_count())
            .map(|number| {
                let name = format!("${number}");
                statement.parameter_index(&name)?.ok_or(rusqlite::Error::InvalidParameterName(name))
            })
            .collect::<rusqlite::Result<_>>()?;
        Ok(Statement { statement, places })
    }
}

impl Statement<'_> {
    /// How many parameters it has.
    #[cfg(test)]
    pub(crate) fn parameters(&self) -> usize {
        self.places.len()
    }

    /// Runs a statement that returns nothing; says how many rows it changed.
    pub(crate) fn execute(&mut self, values: &[Value<'_>]) -> Result<usize> {
        self.bind(values)?;
        Ok(self.statement.raw_execute()?)
    }

    /// The first row, if there is one.
    pub(crate) fn first<T>(
        &mut self,
        values: &[Value<'_>],
        read: impl FnOnce(Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.bind(values)?;
        self.statement.raw_query().next()?.map(|row| read(Row(row))).transpose()
    }

    /// Whether there is a row.
    pub(crate) fn finds(&mut self, values: &[Value<'_>]) -> Result<bool> {
        Ok(self.first(values, |_| Ok(()))?.is_some())
    }

    /// Every row.
    pub(crate) fn all<T>(
        &mut self,
        values: &[Value<'_>],
        mut read: impl FnMut(Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.while_some(values, |row| read(row).map(Some))
    }

    /// Rows until `read` gives none.
    pub(crate) fn while_some<T>(
        &mut self,
        values: &[Value<'_>],
        mut read: impl FnMut(Row<'_>) -> Result<Option<T>>,
    ) -> Result<Vec<T>> {
        self.bind(values)?;
        let mut rows = self.statement.raw_query();
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            match read(Row(row))? {
                Some(value) => found.push(value),
                None => break,
            }
        }
        Ok(found)
    }

    fn bind(&mut self, values: &[Value<'_>]) -> Result<()> {
        if values.len() != self.places.len() {
            return Err(rusqlite::Error::InvalidParameterCount(values.len(), self.places.len()).into());
        }
        for (place, value) in self.places.iter().zip(values) {
            self.statement.raw_bind_parameter(*place, value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{Error, values};

    #[test]
    fn a_statement_whose_second_value_comes_first_gets_each_value_in_its_place() {
        let connection = Connection::in_memory();
        let mut statement = connection.prepare("SELECT $2 || '-' || $1 || '-' || $2").expect("valid text");
        let joined = statement.first(values!["one", "two"], |row| row.get::<String>(0));
        assert_eq!(joined, Ok(Some("two-one-two".into())));
    }

    #[test]
    fn a_gap_in_the_numbers_and_a_wrong_count_are_errors() {
        let connection = Connection::in_memory();
        assert_eq!(
            connection.prepare("SELECT $1 + $3").err(),
            Some(Error::Database(rusqlite::Error::InvalidParameterName("$2".into()))),
            "a statement with a gap was prepared"
        );
        let mut statement = connection.prepare("SELECT $1 + $2").expect("valid text");
        let short = statement.first(values![1i64], |row| row.get::<i64>(0));
        assert_eq!(short, Err(Error::Database(rusqlite::Error::InvalidParameterCount(1, 2))));
    }

    #[test]
    fn a_value_of_another_type_is_named_with_its_column() {
        let connection = Connection::in_memory();
        let mut statement = connection.prepare("SELECT 'x' AS depth, x'00' AS run, -1 AS seq").expect("valid text");
        let depth = statement.first(&[], |row| row.get::<i64>(0));
        assert_eq!(depth, Err(Error::Value("column depth has text instead of a number".into())));
        let run = statement.first(&[], |row| row.get::<[u8; 16]>(1));
        assert_eq!(run, Err(Error::Value("column run has 1 bytes instead of 16".into())));
        let seq = statement.first(&[], |row| row.get::<u32>(2));
        assert_eq!(seq, Err(Error::Value("column seq has -1 instead of a 32-bit number".into())));
    }
}
