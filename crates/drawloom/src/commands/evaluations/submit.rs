//! `drawloom evaluations submit`.

use std::collections::BTreeMap;

use clap::Args;
use drawloom_wire::evaluations::SubmitEvaluation;

use super::{score, warn};
use crate::{
    cli::Look,
    commands::{Session, json_or_text, runs::Handle},
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Submit an evaluation of a run
#[derive(Debug, Args)]
pub struct Submit {
    /// Run: an id, the start of one, `last`, or a handle
    #[arg(value_name = "RUN")]
    run: Handle,
    /// Overall score, from 0 to 1
    #[arg(value_name = "SCORE", value_parser = number)]
    score: f64,
    /// Add the score of a dimension; repeat for several
    #[arg(long = "dimension", short = 'd', value_name = "NAME=SCORE", value_parser = dimension)]
    dimensions: Vec<(String, f64)>,
    /// Name what is evaluated; the same tag again replaces your evaluation
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Give the reason in words
    #[arg(long, value_name = "TEXT")]
    rationale: Option<String>,
    /// Attach a judgement, as JSON or text
    #[arg(long, value_name = "JSON")]
    judgement: Option<String>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Submit {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let dimensions: BTreeMap<String, f64> = self.dimensions.iter().cloned().collect();
        let judgement = self.judgement.as_ref();
        let judgement = judgement.map(|text| json_or_text(text)).transpose()?;
        let submitted = connect::with(session, "evaluations submit", Need::Engine(self.execution), async |it| {
            let run_id = self.run.resolve(it).await?;
            it.backend
                .call(&SubmitEvaluation {
                    run_id,
                    score: self.score,
                    dimensions,
                    judgement,
                    rationale: self.rationale.clone(),
                    tag: self.tag.clone(),
                    idempotency_key: None,
                })
                .await
        })
        .await?;
        match session.output.format() {
            Format::Json => session.output.json(&submitted),
            Format::Human => {
                let what = match (&submitted.replaced, submitted.unchanged) {
                    (_, true) => "unchanged: the same was submitted before".to_owned(),
                    (Some(before), false) => format!("replaced {}", score(before.score)),
                    (None, false) => "new".to_owned(),
                };
                let (id, now) = (&submitted.eval_id, score(submitted.score));
                session.output.line(format!("{now} for run {} ({what}): {id}", submitted.run_id));
                warn(session, &submitted.warnings);
            }
        }
        Ok(Exit::Done)
    }
}

fn dimension(text: &str) -> Result<(String, f64), String> {
    let (name, score) = text.split_once('=').ok_or("expected NAME=SCORE, such as accuracy=0.9")?;
    Ok((name.to_owned(), number(score)?))
}

/// A score; the server checks its range. `nan` and `inf` are numbers for Rust and have no form in JSON.
fn number(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("{text:?} is not a number from 0 to 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_a_number() {
        assert_eq!((number("0.5"), number("1.5")), (Ok(0.5), Ok(1.5)));
        assert_eq!(dimension("style=0.9"), Ok(("style".to_owned(), 0.9)));
        for wrong in ["nan", "inf", "-inf", "good", ""] {
            assert_eq!(number(wrong), Err(format!("{wrong:?} is not a number from 0 to 1")));
            assert!(dimension(&format!("style={wrong}")).is_err());
        }
    }
}
