//! What runs cost, in groups.

use drawloom_contract::{
    caller::Visible,
    costs::{CostBy, CostGroup, CostQuery},
    ids::{RunId, UserId},
    time::Timestamp,
};

use crate::sqlite::{Connection, Result, Value};

/// The sums of each group, the most expensive first; days in their order.
pub(crate) fn sum(connection: &Connection, visible: &Visible, query: &CostQuery) -> Result<Vec<CostGroup>> {
    // Ids begin with the time of accept.
    let first = query.since.map(|since| RunId::from_bytes(first_id(since.as_millis())));
    let (text, values) = statement(visible, query, first.as_ref());
    connection.prepare(&text)?.all(&values, |row| {
        Ok(CostGroup {
            name: row.get(0)?,
            runs: row.get(1)?,
            tokens: row.get(2)?,
            cost: row.get(3)?,
            assumed: row.get(4)?,
            first: Timestamp::from_millis(row.get(5)?),
        })
    })
}

fn statement<'a>(visible: &'a Visible, query: &'a CostQuery, first: Option<&'a RunId>) -> (String, Vec<Value<'a>>) {
    let mut values = vec![Value::from(visible.tenant())];
    let mut only = String::new();
    let users: Vec<&UserId> = visible.owner().into_iter().chain(&query.user).collect();
    for user in &users {
        values.push((*user).into());
        only += &format!(" AND user_id = ${}", values.len());
    }
    if let Some(first) = first {
        values.push(first.into());
        only += &format!(" AND run >= ${}", values.len());
    }
    let name = match query.by {
        CostBy::Agent => "agent".to_owned(),
        CostBy::Model => "CASE model WHEN '' THEN provider ELSE provider || '/' || model END".to_owned(),
        CostBy::User => "user_id".to_owned(),
        CostBy::Day => {
            values.push((i64::from(query.utc_offset_minutes) * 60).into());
            format!("date(accepted_at / 1000 + ${}, 'unixepoch')", values.len())
        }
    };
    let order = if query.by == CostBy::Day { "1 DESC" } else { "total(cost) DESC, 3 DESC, 1" };
    let place = match users.iter().any(|user| **user != UserId::default_user()) {
        true => "INDEXED BY runs_by_user WHERE tenant = $1 AND user_id <> 'default'",
        false => "WHERE tenant = $1",
    };
    let tokens = most("input_tokens + output_tokens + cache_creation_input_tokens + cache_read_input_tokens");
    let known = |column: &str| format!("CASE WHEN count({column}) > 0 THEN {} END", most(column));
    let (cost, assumed) = (known("cost"), known("assumed_cost"));
    let text = format!(
        "SELECT {name}, count(*), {tokens}, {cost}, {assumed}, min(accepted_at) FROM runs {place}{only} GROUP BY 1 ORDER BY {order}"
    );
    (text, values)
}

/// The sum of `number`, or the largest number: `sum()` fails when whole numbers overflow (sqlite.org/lang_aggfunc.html#sumunc). It is
/// exact up to 2^53.
fn most(number: &str) -> String {
    format!("CAST(min(total({number}), 9223372036854774784.0) AS INTEGER)")
}

/// The smallest id of a run that was accepted at this time.
fn first_id(millis: i64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..6].copy_from_slice(&millis.max(0).to_be_bytes()[2..]);
    id
}
