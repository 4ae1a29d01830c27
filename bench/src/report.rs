//! The one place that prints: headings, sentences and aligned tables.

use std::{io::Write as _, time::Duration};

use anyhow::Result;

/// Prints a line at once, so that a long measurement shows where it is.
pub(crate) fn line(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}

/// Prints a heading with an empty line before it.
pub(crate) fn heading(text: &str) -> Result<()> {
    line(&format!("\n{text}"))
}

/// A table whose column widths are known beforehand, so that rows can be printed as they come.
pub(crate) struct Table {
    widths: Vec<usize>,
}

impl Table {
    /// Prints the head; a column is as wide as its title and at least as wide as given.
    pub(crate) fn start(columns: &[(&str, usize)]) -> Result<Self> {
        let table = Self { widths: columns.iter().map(|(title, width)| title.len().max(*width)).collect() };
        table.row(&columns.iter().map(|(title, _)| (*title).to_owned()).collect::<Vec<_>>())?;
        Ok(table)
    }

    /// Prints a row: the first cell to the left, the others to the right.
    pub(crate) fn row(&self, cells: &[String]) -> Result<()> {
        let mut text = String::new();
        for (index, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            if index == 0 {
                text.push_str(&format!("{cell:<width$}"));
            } else {
                text.push_str(&format!("  {cell:>width$}"));
            }
        }
        line(text.trim_end())
    }
}

/// A whole number with separators: 12345 is `12,345`.
pub(crate) fn whole(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Prints the spread and returns the median.
pub(crate) fn spread(name: &str, mut times: Vec<Duration>) -> Result<Duration> {
    times.sort_unstable();
    let median = times[times.len() / 2];
    let milliseconds = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    line(&format!(
        "{name:<22}  median {:.1} ms, least {:.1} ms, most {:.1} ms",
        milliseconds(Some(&median)),
        milliseconds(times.first()),
        milliseconds(times.last())
    ))?;
    Ok(median)
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(
            ["0", "999", "1,000", "12,345,678"],
            [0.0, 999.0, 999.6, 12_345_678.0].map(whole).each_ref().map(String::as_str)
        );
    }
}
