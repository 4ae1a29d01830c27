//! The tools of this process: the built-in ones, and those of sources that must be asked first.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use drawloom_contract::{
    definition::{matches, may_mean},
    record::{Body, Notice},
    tool::{Gates, Offer, Tool, ToolCard, ToolSource},
};

use crate::run_task::RunTask;

/// Most remarks of one source that a run is told.
const MOST_REMARKS: usize = 8;

/// The tools of this process.
pub(crate) struct Toolbox {
    built_in: Known,
    sources: Vec<Arc<dyn ToolSource>>,
    asked: RwLock<Asked>,
    /// Counts the questions, so that an older answer never takes the place of a newer one.
    questions: AtomicU64,
}

type Known = BTreeMap<String, (Arc<dyn Tool>, ToolCard)>;

/// What the sources offered when they were last asked.
struct Asked {
    /// Raised with every change, so that what was made of an older state is known to be old.
    generation: u64,
    offers: Vec<LastOffer>,
}

/// What one source last said.
#[derive(Clone, Default)]
struct LastOffer {
    /// The number of the question.
    question: u64,
    offer: Option<Arc<Offer>>,
    /// Its tools. Those of a source that is away stay: a call is what brings it back, or says why it does not come.
    tools: Known,
}

impl Asked {
    fn find(&self, name: &str) -> Option<&(Arc<dyn Tool>, ToolCard)> {
        self.offers.iter().find_map(|answer| answer.tools.get(name))
    }
}

impl Toolbox {
    pub(crate) fn new(tools: &[Arc<dyn Tool>], sources: &[Arc<dyn ToolSource>]) -> Self {
        Self {
            built_in: known(tools),
            sources: sources.to_vec(),
            asked: RwLock::new(Asked { generation: 0, offers: vec![LastOffer::default(); sources.len()] }),
            questions: AtomicU64::new(1),
        }
    }

    /// Asks the sources that the patterns of any agent may mean, each once and all at once; beside the patterns stands what
    /// a request leaves of them. Without such a pattern it returns at once.
    pub(crate) async fn ask(&self, agents: &[(&[String], Option<&[String]>)]) {
        let is_meant_by_any =
            |prefix: &str| agents.iter().any(|(patterns, narrowed)| is_meant(prefix, patterns, *narrowed));
        let meant = self.sources.iter().enumerate().filter(|(_, source)| is_meant_by_any(source.prefix()));
        let question = self.questions.fetch_add(1, Ordering::SeqCst);
        // Each answer counts at once, whoever else is still thinking.
        let asked = meant.map(async |(index, source)| self.take_in(index, question, source.offer().await));
        futures::future::join_all(asked).await;
    }

    /// What the patterns do not get of the sources that were asked.
    pub(crate) fn missing(&self, patterns: &[String], narrowed: Option<&[String]>) -> Vec<String> {
        let asked = self.asked();
        let offers = self.sources.iter().zip(&asked.offers);
        let meant = offers.filter(|(source, _)| is_meant(source.prefix(), patterns, narrowed));
        meant
            .filter_map(|(source, answer)| Some((source, answer, answer.offer.as_ref()?)))
            .flat_map(|(source, answer, offer)| missing(patterns, source.prefix(), offer, !answer.tools.is_empty()))
            .collect()
    }

    fn take_in(&self, index: usize, question: u64, offer: Arc<Offer>) {
        let mut asked = self.asked.write().unwrap_or_else(PoisonError::into_inner);
        let answer = &mut asked.offers[index];
        if question < answer.question {
            return;
        }
        answer.question = question;
        if answer.offer.as_ref().is_some_and(|before| Arc::ptr_eq(before, &offer)) {
            return;
        }
        if offer.unavailable.is_none() {
            answer.tools = known(&offer.tools);
            answer.tools.retain(|name, _| !self.built_in.contains_key(name));
        }
        answer.offer = Some(offer);
        asked.generation += 1;
    }

    fn asked(&self) -> RwLockReadGuard<'_, Asked> {
        self.asked.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the state that the offers of the other methods come from.
    pub(crate) fn generation(&self) -> u64 {
        self.asked().generation
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        if let Some((tool, _)) = self.built_in.get(name) {
            return Some(tool.clone());
        }
        self.asked().find(name).map(|(tool, _)| tool.clone())
    }

    /// Names that one of the patterns allows, in order.
    pub(crate) fn allowed(&self, patterns: &[String]) -> Vec<String> {
        let asked = self.asked();
        let names = self.built_in.keys().chain(asked.offers.iter().flat_map(|answer| answer.tools.keys()));
        let mut names: Vec<String> =
            names.filter(|name| patterns.iter().any(|pattern| matches(pattern, name))).cloned().collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The cards, for an agent with these gates, of those of `names` that exist and that the gates leave something to do.
    pub(crate) fn cards(&self, names: &[String], gates: Gates<'_>) -> Arc<[ToolCard]> {
        let asked = self.asked();
        let found = |name: &String| self.built_in.get(name).or_else(|| asked.find(name));
        names.iter().filter_map(found).filter_map(|(tool, card)| tool.card_for(card, gates).ok()).collect()
    }

    /// Why an agent with these gates is not offered a tool that exists; nothing when it is.
    pub(crate) fn withheld(&self, name: &str, gates: Gates<'_>) -> Option<String> {
        let asked = self.asked();
        let (tool, card) = self.built_in.get(name).or_else(|| asked.find(name))?;
        tool.card_for(card, gates).err()
    }
}

fn known(tools: &[Arc<dyn Tool>]) -> Known {
    tools.iter().map(|tool| (tool.card(), tool)).map(|(card, tool)| (card.name.clone(), (tool.clone(), card))).collect()
}

/// Whether the patterns, and what a request leaves of them, can mean a tool whose name begins with `prefix`.
fn is_meant(prefix: &str, patterns: &[String], narrowed: Option<&[String]>) -> bool {
    let mean = |patterns: &[String]| patterns.iter().any(|pattern| may_mean(pattern, prefix));
    mean(patterns) && narrowed.is_none_or(mean)
}

/// What those patterns that mean the source do not get of it; `kept` says whether a source that is away has tools of before.
fn missing(patterns: &[String], prefix: &str, offer: &Offer, kept: bool) -> Vec<String> {
    match &offer.unavailable {
        Some(why) if kept => {
            return vec![format!("tools: using the last known list of `{prefix}*`; calls may fail: {why}")];
        }
        Some(why) => return vec![format!("tools: `{prefix}*` not available: {why}")],
        None => {}
    }
    let has = |name: &str| offer.tools.iter().any(|tool| tool.card().name == name);
    let remarked = |name: &str| offer.remarks.iter().any(|remark| remark.tool == name);
    let mut warnings: Vec<String> = patterns
        .iter()
        .filter(|pattern| pattern.starts_with(prefix) && !pattern.ends_with('*') && !has(pattern) && !remarked(pattern))
        .map(|name| {
            format!("tools: `{name}` not available: the MCP server has no such tool, or the config's filter hides it")
        })
        .collect();
    let is_meant = |tool: &str| tool == prefix || patterns.iter().any(|pattern| matches(pattern, tool));
    let remarks: Vec<_> = offer.remarks.iter().filter(|remark| is_meant(&remark.tool)).collect();
    warnings.extend(remarks.iter().take(MOST_REMARKS).map(|remark| format!("tools: {}", remark.text)));
    if remarks.len() > MOST_REMARKS {
        let more = remarks.len() - MOST_REMARKS;
        warnings.push(format!("tools: {more} more warnings about `{prefix}*`; run `drawloom doctor` to see them"));
    }
    warnings
}

impl RunTask {
    /// Sees to it that the tools that it was accepted with are at hand, as far as they are there today.
    pub(crate) async fn gather_tools(&mut self) {
        let toolbox = &self.engine.toolbox;
        toolbox.ask(&[(&*self.run.accepted.tools, None)]).await;
        self.cards = toolbox.cards(&self.run.accepted.tools, self.gates());
    }

    /// Says which of the tools that it was accepted with are not there any more.
    pub(crate) fn tell_missing_tools(&mut self) {
        let is_missing = |name: &&String| self.engine.toolbox.find(name).is_none();
        let missing: Vec<String> = self.accepted().tools.iter().filter(is_missing).take(20).cloned().collect();
        if !missing.is_empty() {
            let mut text = format!("tools no longer available: {}", missing.join(", "));
            for why in self.engine.toolbox.missing(&missing, None) {
                text.push_str(&format!("; {why}"));
            }
            self.push(Body::Notice { notice: Notice::ToolsMissing, text });
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use drawloom_contract::tool::{Repeat, Step, ToolContext, ToolError};
    use serde_json::{Value, json};

    use super::*;

    struct Named(&'static str);

    #[async_trait]
    impl Tool for Named {
        fn card(&self) -> ToolCard {
            ToolCard {
                name: self.0.into(),
                description: "A tool.".into(),
                input_schema: json!({"type": "object"}).into(),
            }
        }

        fn repeat(&self) -> Repeat<'_> {
            Repeat::Never
        }

        async fn call(&self, _: &ToolContext, _: Value) -> Result<Step, ToolError> {
            Err(ToolError::Failed("nobody calls it".into()))
        }
    }

    struct Source(&'static str);

    #[async_trait]
    impl ToolSource for Source {
        fn prefix(&self) -> &str {
            self.0
        }

        async fn offer(&self) -> Arc<Offer> {
            Arc::default()
        }

        async fn leave(&self) {}
    }

    fn with(names: &[&'static str]) -> Arc<Offer> {
        let tools = names.iter().map(|name| Arc::new(Named(name)) as Arc<dyn Tool>).collect();
        Arc::new(Offer { tools, ..Offer::default() })
    }

    fn down() -> Arc<Offer> {
        Arc::new(Offer { unavailable: Some("it is down".into()), ..Offer::default() })
    }

    #[test]
    fn the_tools_of_a_source_that_is_away_stay_and_that_is_said() {
        let toolbox = Toolbox::new(&[], &[Arc::new(Source("mcp__a__"))]);
        let all = ["mcp__a__*".to_owned()];
        toolbox.take_in(0, 1, down());
        assert_eq!(toolbox.missing(&all, None), ["tools: `mcp__a__*` not available: it is down"]);
        toolbox.take_in(0, 2, with(&["mcp__a__x"]));
        toolbox.take_in(0, 3, down());
        assert!(toolbox.find("mcp__a__x").is_some());
        assert_eq!(toolbox.allowed(&all), ["mcp__a__x"]);
        assert_eq!(
            toolbox.missing(&all, None),
            ["tools: using the last known list of `mcp__a__*`; calls may fail: it is down"]
        );
        toolbox.take_in(0, 4, with(&[]));
        assert!(toolbox.find("mcp__a__x").is_none());
    }

    #[test]
    fn an_older_answer_does_not_take_the_place_of_a_newer_one() {
        let toolbox = Toolbox::new(&[], &[Arc::new(Source("mcp__a__"))]);
        toolbox.take_in(0, 2, with(&["mcp__a__new"]));
        toolbox.take_in(0, 1, with(&["mcp__a__old"]));
        assert!(toolbox.find("mcp__a__new").is_some() && toolbox.find("mcp__a__old").is_none());
    }

    #[test]
    fn a_source_has_no_say_over_the_tools_of_another() {
        let toolbox = Toolbox::new(&[], &[Arc::new(Source("mcp__a__")), Arc::new(Source("mcp__a___b__"))]);
        toolbox.take_in(1, 1, with(&["mcp__a___b__x"]));
        toolbox.take_in(0, 2, with(&["mcp__a__x"]));
        assert!(toolbox.find("mcp__a___b__x").is_some() && toolbox.find("mcp__a__x").is_some());
    }

    #[test]
    fn a_source_is_asked_only_when_a_pattern_can_mean_it() {
        let means = |pattern: &str| is_meant("mcp__files__", &[pattern.to_owned()], None);
        assert!(means("*") && means("mcp__*") && means("mcp__files__*") && means("mcp__files__re*"));
        assert!(means("mcp__files__read"));
        assert!(!is_meant("mcp__files__", &["*".to_owned()], Some(&["Read".to_owned()])));
        assert!(!means("Read") && !means("mcp__other__*") && !means("mcp__files") && !means("R*"));
    }

    #[test]
    fn what_a_source_does_not_offer_is_said() {
        let remark = |tool: &str, text: &str| drawloom_contract::tool::Remark { tool: tool.into(), text: text.into() };
        let offer = Offer { remarks: vec![remark("mcp__a__bad", "its schema lies")], ..Offer::default() };
        let said = |patterns: &[&str], offer: &Offer| {
            missing(&patterns.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), "mcp__a__", offer, false)
        };
        assert_eq!(said(&["mcp__a__*"], &offer), ["tools: its schema lies"]);
        assert_eq!(said(&["mcp__a__bad"], &offer), ["tools: its schema lies"]);
        assert_eq!(said(&["mcp__a__x*"], &offer), Vec::<String>::new());
        assert_eq!(
            said(&["mcp__a__gone"], &offer),
            ["tools: `mcp__a__gone` not available: the MCP server has no such tool, or the config's filter hides it"]
        );
        let down = Offer { unavailable: Some("it is down".into()), ..Offer::default() };
        assert_eq!(said(&["mcp__a__x"], &down), ["tools: `mcp__a__*` not available: it is down"]);
    }
}
