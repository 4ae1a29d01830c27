//! Lists of evaluations, newest first, page by page.

use std::collections::BTreeSet;

use drawloom_contract::{caller::Visible, ids::RunId, values::ValueKey};

use super::{
    EvaluationError, Evaluations, MOST_LISTED, Meant, decode,
    keys::{Owner, place_of},
    record::Evaluation,
};

/// Values that are read at once.
const PAGE: u32 = 256;

/// What to list.
#[derive(Debug, Clone, Default)]
pub struct ListAsked {
    pub tag: Option<String>,
    /// Of each tag only the newest, whoever submitted it. Evaluations without a tag are all listed.
    pub latest_per_tag: bool,
    /// `next` of the page before.
    pub after: Option<String>,
    pub limit: u32,
    /// Maximum bytes of the page. The first evaluation comes whatever its size, so that the next page goes on.
    pub bytes: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listed {
    pub evaluations: Vec<Evaluation>,
    /// `after` of the next page, when there is more.
    pub next: Option<String>,
}

impl Evaluations {
    /// The evaluations of a run that may be seen, with their texts.
    pub async fn list_for_run(
        &self,
        visible: &Visible,
        run: RunId,
        asked: &ListAsked,
    ) -> Result<Listed, EvaluationError> {
        self.list(visible, &Owner::Run(run), asked).await
    }

    /// The evaluations of all runs that pin a definition, without their texts.
    pub async fn list_for_definition(
        &self,
        visible: &Visible,
        meant: &Meant,
        asked: &ListAsked,
    ) -> Result<Listed, EvaluationError> {
        match meant {
            Meant::Definition(definition) => self.list(visible, &Owner::Definition(*definition), asked).await,
            Meant::Version(_) => Ok(Listed::default()),
        }
    }

    async fn list(&self, visible: &Visible, owner: &Owner, asked: &ListAsked) -> Result<Listed, EvaluationError> {
        let (tenant, now) = (visible.tenant(), self.parts.clock.wall());
        let limit = asked.limit.clamp(1, MOST_LISTED) as usize;
        // Which is the newest of a tag is known only from the start; what comes before the page is left out below.
        let start = asked.after.as_deref().filter(|_| !asked.latest_per_tag);
        let mut last: Option<ValueKey> = start.map(|place| owner.listed(tenant, place));
        let (mut listed, mut bytes, mut tags) = (Listed::default(), 0, BTreeSet::new());
        let mut last_place = None;
        loop {
            let page = self.parts.values.list_values(&owner.range(tenant), last.as_ref(), PAGE, now).await?;
            let is_last = page.len() < PAGE as usize;
            for (key, kept) in page {
                let size = kept.value.to_string().len() as u64;
                let evaluation: Evaluation = decode(kept.value)?;
                let place = place_of(&key).to_owned();
                last = Some(key);
                let is_hidden = !visible.sees(tenant, &evaluation.user_id)
                    || asked.tag.as_ref().is_some_and(|tag| evaluation.tag.as_ref() != Some(tag))
                    || asked.latest_per_tag && evaluation.tag.as_ref().is_some_and(|tag| !tags.insert(tag.clone()))
                    || asked.after.as_ref().is_some_and(|after| place <= *after);
                if is_hidden {
                    continue;
                }
                bytes += size;
                let is_over = asked.bytes.is_some_and(|most| bytes > most) && !listed.evaluations.is_empty();
                if listed.evaluations.len() == limit || is_over {
                    listed.next = last_place;
                    return Ok(listed);
                }
                last_place = Some(place);
                listed.evaluations.push(evaluation);
            }
            if is_last {
                return Ok(listed);
            }
        }
    }
}
