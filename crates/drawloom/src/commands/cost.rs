//! `drawloom cost`: what runs cost, by agent, model, user or day.

use clap::{Args, ValueEnum};

use drawloom_contract::ids::UserId;
use drawloom_wire::runs::{CostBy, CostReport, Costs, GetCosts};

use crate::{
    cli::Look,
    commands::Session,
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{ASSUMED, Column, Format, Output, Style, Text, assumed_money, count, money},
};

/// Show what runs cost by agent, model, user or day
///
/// Every run counts, child runs too. `~` marks an amount of which a part is estimated.
#[derive(Debug, Args)]
pub struct Cost {
    /// Sum up by this
    #[arg(long, value_name = "BY", value_enum, default_value_t = By::Agent)]
    by: By,
    /// Count only runs that started within this time, such as 12h, 7d or 4w [default: all]
    #[arg(long, value_name = "AGE", value_parser = crate::commands::age)]
    since: Option<u64>,
    /// Count only runs of this user
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

/// What costs are summed up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Agent,
    Model,
    User,
    Day,
}

impl Cost {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let by = match self.by {
            By::Agent => CostBy::Agent,
            By::Model => CostBy::Model,
            By::User => CostBy::User,
            By::Day => CostBy::Day,
        };
        let ask = GetCosts {
            by: Some(by),
            max_age_seconds: self.since,
            user_id: self.user,
            utc_offset_minutes: (by == CostBy::Day).then(|| session.local_time().offset_minutes()),
        };
        let report = connect::with(session, "cost", Need::Journal, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&report),
            Format::Human if report.groups.is_empty() => output.line("no runs"),
            Format::Human => {
                show(output, &report, self.by);
                let first = report.oldest_run_at.as_deref();
                let first =
                    first.map(|first| format!("the oldest run is of {}; ", session.local_time().whole_of(first)));
                output.note(output.beside(Style::Dim, &format!("{}{}", first.unwrap_or_default(), report.note)));
            }
        }
        Ok(Exit::Done)
    }
}

fn show(output: &Output, report: &CostReport, by: By) {
    let head = match by {
        By::Agent => "agent",
        By::Model => "model",
        By::User => "user",
        By::Day => "day",
    };
    let columns = [
        Column::new(head).shrinks_to(8),
        Column::new("runs").right(),
        Column::new("tokens").right(),
        Column::new("cost").right(),
        // Left out when all rows are empty.
        Column::new("estimated").right(),
    ];
    let row = |costs: &Costs, style: Style| {
        let cost = costs.cost.map(|cost| assumed_money(cost, costs.assumed_cost, &report.currency));
        // A run that could not start has no model.
        let name = if costs.name.is_empty() { "(none)" } else { &costs.name };
        let part = costs.cost.and(costs.assumed_cost).map(|part| money(part, &report.currency));
        [
            Text::new(name).style(style),
            Text::new(count(costs.runs)).style(style),
            Text::new(format!("{}{}", if part.is_some() { "~" } else { "" }, count(costs.tokens))).style(style),
            Text::new(cost.unwrap_or_default()).style(style),
            Text::new(part.unwrap_or_default()).style(style),
        ]
    };
    let groups = report.groups.iter().map(|costs| row(costs, Style::Plain));
    output.table(columns, groups.chain([row(&report.total, Style::Bold)]));
    if report.total.cost.is_some() && report.total.assumed_cost.is_some() {
        output.note(output.beside(Style::Dim, ASSUMED));
    }
}
