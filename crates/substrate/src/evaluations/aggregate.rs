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
    #[serde(default)]
    version: Option<String>,
}

impl Evaluations {
    /// The definition that a caller means: a digest, `name@version`, or the name of an agent for its current one.
    pub async fn definition(&self, tenant: &Tenant, def_id: &str) -> Result<Digest, EvaluationError> {
        let unknown = || EvaluationError::UnknownDefinition(def_id.chars().take(200).collect());
        if let Ok(digest) = def_id.parse() {
            return Ok(digest);
        }
        let (name, version) = def_id.rsplit_once('@').map_or((def_id, None), |(name, _)| (name, Some(def_id)));
        let name: AgentName = name.parse().map_err(|_| unknown())?;
        let current = self.parts.lineage.current(tenant, &name);
        let Some(asked) = version else { return current.map(|(digest, _)| digest).ok_or_else(unknown) };
        if let Some((digest, Some(version))) = current
            && version == asked
        {
            return Ok(digest);
        }
        self.of_version(tenant, asked).await?.first().copied().ok_or_else(unknown)
    }

    /// The evaluated definitions of a version, newest first: a changed config makes another definition of the same version.
    async fn of_version(&self, tenant: &Tenant, version: &str) -> Result<Vec<Digest>, EvaluationError> {
        let Some(Ok(name)) = version.rsplit_once('@').map(|(name, _)| name.parse()) else { return Ok(Vec::new()) };
        let had = self.definitions_of(tenant, &name).await?;
        Ok(had
            .into_iter()
            .filter(|(_, had)| had.version.as_deref() == Some(version))
            .map(|(digest, _)| digest)
            .collect())
    }

    /// The version of a definition, also when the runs that pinned it were pruned.
    async fn version(
        &self,
        tenant: &Tenant,
        definition: &Digest,
        agent: Option<&AgentName>,
    ) -> Result<Option<String>, EvaluationError> {
        let pinned = self.parts.lineage.version(tenant, definition).await?;
        let (None, Some(agent)) = (&pinned, agent) else { return Ok(pinned) };
        let had = self.definitions_of(tenant, agent).await?;
        Ok(had.into_iter().find(|(digest, _)| digest == definition).and_then(|(_, had)| had.version))
    }

    /// Statistics of what may be seen, together and by definition.
    pub async fn aggregate(&self, visible: &Visible, of: &Of, include_lineage: bool) -> Result<Value, EvaluationError> {
        let (tenant, mut warnings) = (visible.tenant(), Vec::new());
        let mut definitions = match of {
            Of::Agent(name) => self.definitions_of(tenant, name).await?.into_iter().map(|(digest, _)| digest).collect(),
            Of::Definition(digest) => vec![*digest],
        };
        let own = definitions.len();
        if let Of::Definition(digest) = of
            && include_lineage
        {
            let agent = self.rows(visible, digest).await?.first().map(|row| row.agent.clone());
            if let Some(version) = self.version(tenant, digest, agent.as_ref()).await? {
                for parent in self.parts.lineage.parents(tenant, &version).await? {
                    definitions.extend(self.of_version(tenant, &parent).await?);
                }
            }
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
                "version": self.version(tenant, definition, rows.first().map(|row| &row.agent)).await?,
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
    async fn definitions_of(&self, tenant: &Tenant, name: &AgentName) -> Result<Vec<(Digest, Had)>, EvaluationError> {
        let (owner, now) = (Owner::Agent(name.clone()), self.parts.clock.wall());
        let page = self.parts.values.list_values(&owner.range(tenant), None, PAGE, now).await?;
        let mut found = Vec::new();
        for (key, kept) in page {
            let had: Had = decode(kept.value)?;
            if let Ok(digest) = key.key.parse::<Digest>() {
                found.push((digest, had));
            }
        }
        found.sort_by_key(|(digest, had)| (std::cmp::Reverse(had.first_at), digest.to_string()));
        Ok(found)
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
