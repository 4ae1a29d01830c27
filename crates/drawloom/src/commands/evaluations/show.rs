//! `drawloom evaluations show`.

use clap::Args;
use drawloom_wire::evaluations::{GetEvaluation, ListEvaluations};

use super::{dimensions, emitter, score};
use crate::{
    cli::Look,
    commands::{Session, runs::Handle},
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Format, Style, shown},
};

/// Show an evaluation with its judgement and rationale
#[derive(Debug, Args)]
pub struct Show {
    /// Evaluation id (e_…), or a run with --tag
    #[arg(value_name = "EVALUATION")]
    evaluation: String,
    /// Show the newest evaluation of the run with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Show {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let found = connect::with(session, "evaluations show", Need::Journal, async |it| {
            let Some(tag) = &self.tag else {
                return it.backend.call(&GetEvaluation { eval_id: self.evaluation.clone() }).await;
            };
            let Ok(handle) = self.evaluation.parse::<Handle>();
            let run_id = handle.resolve(it).await?;
            let ask = ListEvaluations {
                run_id: Some(run_id),
                tag: Some(tag.clone()),
                limit: Some(1),
                ..ListEvaluations::default()
            };
            let page = it.backend.call(&ask).await?;
            page.evaluations.into_iter().next().ok_or_else(|| {
                CommandError::failed("not_found", format!("run {run_id} has no evaluation with the tag {tag:?}"))
                    .with_hint("`drawloom evaluations ls RUN` lists its evaluations")
            })
        })
        .await?;
        let output = &session.output;
        if output.format() == Format::Json {
            output.json(&found);
            return Ok(Exit::Done);
        }
        let local = session.local_time();
        let replaced = found.replaced.as_ref();
        let replaced = replaced.map(|it| format!(" (was {} on {})", score(it.score), local.brief_of(&it.created_at)));
        let lines = [
            ("evaluation", found.eval_id.clone()),
            ("run", format!("{} of agent {}", found.run_id, found.agent)),
            ("definition", found.def_id.clone()),
            ("tag", found.tag.clone().unwrap_or_default()),
            ("score", format!("{}{}", score(found.score), replaced.unwrap_or_default())),
            ("dimensions", dimensions(&found)),
            ("by", emitter(&found.emitter, found.emitter_role)),
            ("submitted", local.whole_of(&found.created_at)),
        ];
        for (name, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
            output.line(format!("{} {}", output.styled(Style::Dim, &format!("{name:<11}")), shown(value)));
        }
        if let Some(rationale) = &found.rationale {
            output.line(format!("\n{}", shown(rationale)));
        }
        if let Some(judgement) = &found.judgement {
            output.line(format!("\n{}", shown(&serde_json::to_string_pretty(judgement).unwrap_or_default())));
        }
        Ok(Exit::Done)
    }
}
