//! The role of a run that evaluates another, from their rows.

use drawloom_contract::{ids::RunKey, view::RunView};

use super::{EvaluationError, Evaluations, scope::EmitterRole};

impl Evaluations {
    /// What the run `emitter` is to the run `evaluated`.
    pub async fn role(&self, emitter: &RunKey, evaluated: &RunView) -> Result<EmitterRole, EvaluationError> {
        if emitter.run == evaluated.run {
            return Ok(EmitterRole::This);
        }
        let row = async |run| {
            let key = RunKey { tenant: emitter.tenant.clone(), run };
            self.parts.runs.find_row(&key).await
        };
        let Some(own) = row(emitter.run).await? else { return Ok(EmitterRole::Unrelated) };
        if own.root != evaluated.root {
            return Ok(EmitterRole::Unrelated);
        }
        let parent = |view: &RunView| view.parent.as_ref().map(|parent| parent.run);
        if parent(&own).is_some() && parent(&own) == parent(evaluated) {
            return Ok(EmitterRole::Sibling);
        }
        let mut above = parent(evaluated);
        // Only a run at less depth can be above.
        for _ in own.depth..evaluated.depth {
            match above {
                Some(run) if run == own.run => return Ok(EmitterRole::Parent),
                Some(run) => above = row(run).await?.as_ref().and_then(parent),
                None => break,
            }
        }
        Ok(EmitterRole::Unrelated)
    }
}
