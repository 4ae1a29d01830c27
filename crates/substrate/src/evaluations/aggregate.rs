//! Statistics over the evaluations of a definition, of those it was made from, or of all definitions of an agent.

use std::fmt;

use drawloom_contract::{
    caller::Visible,
    ids::{AgentName, Digest, Tenant},
    suggest::closest,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{EvaluationError, Evaluations, MOST_PARENTS, decode, keys::Owner, record::Evaluation, stats::Sums};
use crate::{definitions::CONFIG, hint::did_you_mean};

/// Values that are read at once.
const PAGE: u32 = 1_000;

/// Most names that a hint chooses from.
const MOST_HINTED: usize = 1_000;

/// A definition that a caller means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Meant {
    Definition(Digest),
    /// `name@version` of a version that exists and has no evaluations. Which definition its runs pin depends on the config of their time.
    Version(String),
}

impl fmt::Display for Meant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Definition(digest) => digest.fmt(f),
            Self::Version(version) => f.write_str(version),
        }
    }
}

/// What is summed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    Definition(Meant),
    /// Every definition that the agent has had.
    Agent(AgentName),
}

/// A definition that an agent has had, as its list has it.
#[derive(Deserialize)]
struct Had {
    first_at: Timestamp,
    /// Absent for definitions of the config.
    #[serde(default)]
    version: Option<String>,
}

/// A definition in an aggregate.
struct Part {
    definition: Meant,
    /// The version through which it was found, if it is a parent.
    parent_as: Option<String>,
}

impl Evaluations {
    /// The definition that a caller means: a digest, `name@version`, or the name of an agent for its current one.
    pub async fn definition(&self, tenant: &Tenant, def_id: &str) -> Result<Meant, EvaluationError> {
        if let Ok(digest) = def_id.parse() {
            return Ok(Meant::Definition(digest));
        }
        let (text, version) = def_id.rsplit_once('@').map_or((def_id, None), |(name, version)| (name, Some(version)));
        let unknown = || {
            let names = self.parts.lineage.names(tenant);
            let meant = closest(text, names.iter().map(String::as_str).filter(|name| *name != text));
            let hint = meant.map(|name| format!("did you mean {name:?}?"));
            EvaluationError::UnknownDefinition { def_id: def_id.chars().take(200).collect(), hint }
        };
        let name: AgentName = text.parse().map_err(|_| unknown())?;
        let current = self.parts.lineage.current(tenant, &name);
        let is_current = |current: &Option<String>| match version {
            None => true,
            Some(CONFIG) => current.is_none(),
            Some(_) => current.as_deref() == Some(def_id),
        };
        if let Some((digest, _)) = current.filter(|(_, current)| is_current(current)) {
            return Ok(Meant::Definition(digest));
        }
        if version.is_none() {
            return Err(unknown());
        }
        match self.of_version(tenant, def_id).await?.first() {
            Some(digest) => Ok(Meant::Definition(*digest)),
            None if self.parts.lineage.is_version(tenant, def_id) => Ok(Meant::Version(def_id.to_owned())),
            None => Err(unknown()),
        }
    }

    /// The evaluated definitions of a version, newest first: a changed config makes another definition of the same version. Those of
    /// `name@config` have no version.
    async fn of_version(&self, tenant: &Tenant, version: &str) -> Result<Vec<Digest>, EvaluationError> {
        let Some((name, number)) = version.rsplit_once('@') else { return Ok(Vec::new()) };
        let Ok(name) = name.parse() else { return Ok(Vec::new()) };
        let wanted = Some(version).filter(|_| number != CONFIG);
        let had = self.definitions_of(tenant, &name).await?;
        Ok(had.into_iter().filter(|(_, had)| had.version.as_deref() == wanted).map(|(digest, _)| digest).collect())
    }

    /// The version of a definition, also when the runs that pinned it were pruned.
    async fn version(
        &self,
        tenant: &Tenant,
        meant: &Meant,
        agent: Option<&AgentName>,
    ) -> Result<Option<String>, EvaluationError> {
        let definition = match meant {
            Meant::Definition(definition) => definition,
            Meant::Version(version) => return Ok(Some(version.clone())),
        };
        let pinned = self.parts.lineage.version(tenant, definition).await?;
        let (None, Some(agent)) = (&pinned, agent) else { return Ok(pinned) };
        let had = self.definitions_of(tenant, agent).await?;
        Ok(had.into_iter().find(|(digest, _)| digest == definition).and_then(|(_, had)| had.version))
    }

    /// Statistics of what may be seen, together and by definition.
    pub async fn aggregate(&self, visible: &Visible, of: &Of, include_lineage: bool) -> Result<Value, EvaluationError> {
        let (tenant, mut warnings) = (visible.tenant(), Vec::new());
        let own = |definition| Part { definition, parent_as: None };
        let mut parts: Vec<Part> = match of {
            Of::Agent(name) => self.known_definitions_of(tenant, name).await?.into_iter().map(own).collect(),
            Of::Definition(meant) => vec![own(meant.clone())],
        };
        if let Of::Definition(meant) = of
            && include_lineage
        {
            parts.extend(self.parents(visible, meant).await?);
        }
        if parts.len() > MOST_PARENTS {
            let left_out = parts.len() - MOST_PARENTS;
            warnings.push(format!("{left_out} older definitions are left out; the limit is {MOST_PARENTS}"));
            parts.truncate(MOST_PARENTS);
        }
        if let Some(owner) = visible.owner() {
            warnings.push(format!("only evaluations of runs of user {owner} are included"));
        }
        let (mut all, mut versions) = (Vec::new(), Vec::new());
        for part in &parts {
            let rows = self.rows(visible, &part.definition).await?;
            let time = |row: Option<&Evaluation>| row.map(|row| row.created_at.to_rfc3339());
            let agent = rows.first().map(|row| &row.agent);
            let version = match &part.parent_as {
                Some(version) => Some(version.clone()),
                None => self.version(tenant, &part.definition, agent).await?,
            };
            let sums = Sums::of(&rows);
            versions.push(json!({
                "def_id": part.definition,
                "parent": version.as_deref().and_then(|version| self.parts.lineage.parent(tenant, version)),
                "version": version,
                "agent": agent,
                "is_parent": part.parent_as.is_some(),
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
        answer["lineage_included"] = parts.iter().any(|part| part.parent_as.is_some()).into();
        answer["versions"] = versions.into();
        answer["warnings"] = json!(warnings);
        match of {
            Of::Definition(meant) => answer["def_id"] = json!(meant),
            Of::Agent(name) => answer["agent"] = json!(name),
        }
        Ok(answer)
    }

    /// The evaluated definitions of what a definition was made from, nearest first.
    async fn parents(&self, visible: &Visible, meant: &Meant) -> Result<Vec<Part>, EvaluationError> {
        let tenant = visible.tenant();
        let agent = self.rows(visible, meant).await?.first().map(|row| row.agent.clone());
        let Some(version) = self.version(tenant, meant, agent.as_ref()).await? else { return Ok(Vec::new()) };
        let mut parts = Vec::new();
        for parent in self.parts.lineage.parents(tenant, &version).await? {
            let found = self.of_version(tenant, &parent).await?.into_iter();
            let part = |digest| Part { definition: Meant::Definition(digest), parent_as: Some(parent.clone()) };
            parts.extend(found.map(part));
        }
        Ok(parts)
    }

    /// The evaluated definitions of an agent, newest first; an error when neither an agent nor an evaluation has the name.
    async fn known_definitions_of(&self, tenant: &Tenant, name: &AgentName) -> Result<Vec<Meant>, EvaluationError> {
        let had = self.definitions_of(tenant, name).await?;
        if had.is_empty() {
            let names = self.parts.lineage.names(tenant);
            if !names.iter().any(|known| known == name.as_str()) {
                let hint = did_you_mean(name.as_str(), names.iter().map(String::as_str).take(MOST_HINTED));
                return Err(EvaluationError::UnknownAgent { name: name.clone(), hint });
            }
        }
        Ok(had.into_iter().map(|(digest, _)| Meant::Definition(digest)).collect())
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
    async fn rows(&self, visible: &Visible, meant: &Meant) -> Result<Vec<Evaluation>, EvaluationError> {
        let Meant::Definition(definition) = meant else { return Ok(Vec::new()) };
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
