//! The board of a team: a line for each run that works, and one for those that have ended. Pure: a team, a size and a time make lines.

use unicode_width::UnicodeWidthStr as _;

use drawloom_contract::{
    money::{Amount, Cost},
    record::Status,
    time::Timestamp,
};

use super::team::{Member, Team};
use crate::output::{Style, count, fit, money, shown};

/// Frames of what moves, ten a second.
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Columns of an indented name, at most; a narrow terminal gives it a quarter.
const NAME: usize = 24;

/// The fewest columns of what a run is doing; figures go before that.
const DOING: usize = 16;

/// A terminal as large as this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// A line, in pieces with a style each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line(pub(crate) Vec<(String, Option<Style>)>);

impl Line {
    fn push(&mut self, text: impl Into<String>, style: Option<Style>) {
        self.0.push((text.into(), style));
    }

    /// How wide it is.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.width()).sum()
    }
}

/// What stands in one line.
struct Row {
    mark: (String, Option<Style>),
    name: String,
    doing: String,
    tokens: String,
    cost: String,
    time: String,
}

/// The lines of the board. None is wider than the terminal, and together they leave two of its rows free.
pub(crate) fn lines(team: &Team, size: Size, now: Timestamp, currency: &str) -> Vec<Line> {
    let working: Vec<&Member> = team.in_tree_order().into_iter().filter(|member| member.end.is_none()).collect();
    let ended: Vec<&Member> = team.children().filter(|member| member.end.is_some()).collect();
    let folded = usize::from(!ended.is_empty());
    let room = size.rows.saturating_sub(2).max(3);
    let (shown, left_out) = choose(&working, room.saturating_sub(folded));
    // The last column stays free: some terminals break a line that fills it.
    let columns = size.columns.saturating_sub(1);
    let name = (columns / 4).clamp(8, NAME);
    let mut rows: Vec<Row> = shown.iter().map(|member| row(team, member, name, now, currency)).collect();
    if !ended.is_empty() {
        rows.push(fold(&ended, currency));
    }
    let mut lines = lay_out(&rows, columns);
    if left_out > 0 {
        let mut line = Line::default();
        line.push(fit(&format!("  + {left_out} more"), columns), Some(Style::Dim));
        lines.insert(shown.len(), line);
    }
    lines
}

/// The runs that have a line, in order, and how many have none. Queued ones go first.
fn choose<'a>(working: &[&'a Member], room: usize) -> (Vec<&'a Member>, usize) {
    if working.len() <= room {
        return (working.to_vec(), 0);
    }
    // A line says how many there are more.
    let room = room.saturating_sub(1).max(1);
    let mut ranked: Vec<usize> = (0..working.len()).collect();
    ranked.sort_by_key(|place| (*place > 0, working[*place].is_queued(), *place));
    ranked.truncate(room);
    ranked.sort_unstable();
    (ranked.iter().map(|place| working[*place]).collect(), working.len() - ranked.len())
}

fn row(team: &Team, member: &Member, name: usize, now: Timestamp, currency: &str) -> Row {
    let frame = usize::try_from(now.as_millis().rem_euclid(1_000) / 100).unwrap_or_default();
    let mark = match member.is_queued() {
        true => ("·".to_owned(), Some(Style::Dim)),
        false => (FRAMES[frame % FRAMES.len()].to_owned(), None),
    };
    Row {
        mark,
        name: fit(&format!("{}{}", "  ".repeat(member.depth.min(4)), shown(&member.agent)), name),
        doing: shown(&team.doing(member)).replace('\n', " "),
        tokens: tokens(member.tokens),
        cost: cost(member.cost, member.is_assumed, currency),
        time: elapsed(member.took(now)),
    }
}

/// The runs that have ended, in one line.
fn fold(ended: &[&Member], currency: &str) -> Row {
    let count_of = |wanted: &dyn Fn(Status) -> bool| {
        ended.iter().filter(|member| member.end.as_ref().is_some_and(|end| wanted(end.status))).count()
    };
    let completed = count_of(&|status| status == Status::Completed);
    let cancelled = count_of(&|status| status == Status::Cancelled);
    let failed = ended.len() - completed - cancelled;
    let parts = [(completed, "completed"), (failed, "failed"), (cancelled, "cancelled")];
    let said: Vec<String> =
        parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")).collect();
    let mark = if failed > 0 { ("✗", Style::Bad) } else { ("✓", Style::Good) };
    let costs = ended.iter().filter_map(|member| member.cost).reduce(|sum, more| sum + more);
    Row {
        mark: (mark.0.to_owned(), Some(mark.1)),
        name: "  ended".to_owned(),
        doing: said.join(", "),
        tokens: tokens(ended.iter().fold(0, |sum, member| sum.saturating_add(member.tokens))),
        cost: cost(costs, ended.iter().any(|member| member.is_assumed), currency),
        time: String::new(),
    }
}

fn tokens(number: u64) -> String {
    if number == 0 { String::new() } else { format!("{} tok", count(number)) }
}

fn cost(cost: Option<Cost>, is_assumed: bool, currency: &str) -> String {
    let mark = if is_assumed { "~" } else { "" };
    cost.map(|cost| format!("{mark}{}", money(Amount(cost), currency))).unwrap_or_default()
}

/// A time that goes on, without what changes too fast to be read.
fn elapsed(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Rows as lines of at most `columns` columns: figures are left out before what a run does has too little space.
fn lay_out(rows: &[Row], columns: usize) -> Vec<Line> {
    let widest = |cell: &dyn Fn(&Row) -> &str| rows.iter().map(|row| cell(row).width()).max().unwrap_or(0);
    let name = widest(&|row| &row.name);
    let mut figures = [widest(&|row| &row.tokens), widest(&|row| &row.cost), widest(&|row| &row.time)];
    let doing = |figures: &[usize; 3]| {
        let figures: usize = figures.iter().filter(|width| **width > 0).map(|width| width + 2).sum();
        columns.saturating_sub(2 + name + 2 + figures)
    };
    // Tokens say least, then money.
    for least in [0, 1] {
        if doing(&figures) < DOING {
            figures[least] = 0;
        }
    }
    let space = doing(&figures);
    rows.iter()
        .map(|row| {
            let mut line = Line::default();
            line.push(row.mark.0.clone(), row.mark.1);
            line.push(format!(" {}", padded(&row.name, name)), Some(Style::Bold));
            line.push(format!("  {}", padded(&fit(&row.doing, space), space)), None);
            let mut last = String::new();
            for (text, width) in [&row.tokens, &row.cost, &row.time].into_iter().zip(figures) {
                if width > 0 {
                    let padding = " ".repeat(width.saturating_sub(text.width()));
                    last.push_str(&format!("  {padding}{text}"));
                }
            }
            line.push(last, Some(Style::Dim));
            cut(line, columns)
        })
        .collect()
}

/// The text with spaces behind it, `width` columns wide.
fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// A line that is still too wide, such as on a terminal of ten columns, is cut.
fn cut(line: Line, columns: usize) -> Line {
    if line.width() <= columns {
        return line;
    }
    let mut left = columns;
    let mut kept = Line::default();
    for (text, style) in line.0 {
        let text = fit(&text, left);
        left -= text.width();
        kept.push(text, style);
    }
    kept
}
