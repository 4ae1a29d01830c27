//! Statistics over the evaluations of a definition, of those it was made from, or of all definitions of an agent.

use drawloom_contract::{
    caller::Visible,
    ids::{AgentName, Digest, Tenant},
    time::Timestamp,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{EvaluationError, Evaluations, MOST_PARENTS, decode, keys::Owner, record::Evaluation, stats::Sums};

/// Values that are read at once.
const PAGE: u32 = 1_000;

/// What is summed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    Definition(Digest),
    /// Every definition that the agent has had.
    Agent(AgentName),
}

/// A definition that an agent has had, as its list has it.
#[derive(Deserialize)]
struct Had {
    first_at: Timestamp,
}

impl Evaluations {
    /// The definition that a caller means: a digest, `name@version`, or the name of an agent for its current one.
    pub fn definition(&self, tenant: &Tenant, def_id: &str) -> Result<Digest, EvaluationError> {
        let found = def_id.parse().ok().or_else(|| self.parts.lineage.find_named(tenant, def_id));
        found.ok_or_else(|| EvaluationError::UnknownDefinition(def_id.chars().take(200).collect()))
    }

    /// Statistics of what may be seen, together and by definition.
    pub async fn aggregate(&self, visible: &Visible, of: &Of, include_lineage: bool) -> Result<Value, EvaluationError> {
        let (tenant, mut warnings) = (visible.tenant(), Vec::new());
        let mut definitions = match of {
            Of::Agent(name) => self.definitions_of(tenant, name).await?,
            Of::Definition(digest) => vec![*digest],
        };
        let own = definitions.len();
        if let Of::Definition(digest) = of
            && include_lineage
        {
            definitions.extend(self.parts.lineage.parents(tenant, digest));
        }
        if definitions.len() > MOST_PARENTS {
            let left_out = definitions.len() - MOST_PARENTS;
            warnings.push(format!("{left_out} older definitions are left out; the limit is {MOST_PARENTS}"));
            definitions.truncate(MOST_PARENTS);
        }
        if let Some(owner) = visible.owner() {
            warnings.push(format!("only evaluations of runs of user {owner} are included"));
        }
        let (mut all, mut versions) = (Vec::new(), Vec::new());
        for (index, definition) in definitions.iter().enumerate() {
            let rows = self.rows(visible, definition).await?;
            let time = |row: Option<&Evaluation>| row.map(|row| row.created_at.to_rfc3339());
            let sums = Sums::of(&rows);
            versions.push(json!({
                "def_id": definition,
                "version": self.parts.lineage.version(tenant, definition),
                "agent": rows.first().map(|row| &row.agent),
                "is_parent": index >= own,
                "count": sums.count,
                "score": sums.score,
                "dimensions": sums.dimensions,
                "first_at": time(rows.last()),
                "latest_at": time(rows.first()),
            }));
            all.extend(rows);
        }
        all.sort_by_key(|row| std::cmp::Reverse(row.created_at));
        let mut answer = json!(Sums::of(&all));
        answer["lineage_included"] = (definitions.len() > own).into();
        answer["versions"] = versions.into();
        answer["warnings"] = json!(warnings);
        match of {
            Of::Definition(digest) => answer["def_id"] = json!(digest),
            Of::Agent(name) => answer["agent"] = json!(name),
        }
        Ok(answer)
    }

    /// The evaluated definitions of an agent, newest first.
    async fn definitions_of(&self, tenant: &Tenant, name: &AgentName) -> Result<Vec<Digest>, EvaluationError> {
        let (owner, now) = (Owner::Agent(name.clone()), self.parts.clock.wall());
        let page = self.parts.values.list_values(&owner.range(tenant), None, PAGE, now).await?;
        let mut found = Vec::new();
        for (key, kept) in page {
            let Had { first_at } = decode(kept.value)?;
            if let Ok(digest) = key.key.parse::<Digest>() {
                found.push((first_at, digest));
            }
        }
        found.sort_by_key(|(first_at, digest)| (std::cmp::Reverse(*first_at), digest.to_string()));
        Ok(found.into_iter().map(|(_, digest)| digest).collect())
    }

    /// Everything of a definition that may be seen, newest first.
    async fn rows(&self, visible: &Visible, definition: &Digest) -> Result<Vec<Evaluation>, EvaluationError> {
        let (tenant, now) = (visible.tenant(), self.parts.clock.wall());
        let range = Owner::Definition(*definition).range(tenant);
        let (mut rows, mut last) = (Vec::new(), None);
        loop {
            let page = self.parts.values.list_values(&range, last.as_ref(), PAGE, now).await?;
            let is_last = page.len() < PAGE as usize;
            for (key, kept) in page {
                last = Some(key);
                let row: Evaluation = decode(kept.value)?;
                if visible.sees(tenant, &row.user_id) {
                    rows.push(row);
                }
            }
            if is_last {
                return Ok(rows);
            }
        }
    }
}
