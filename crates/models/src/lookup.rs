//! Finding out about the models of a server that is not the API's own: asked when its models are listed, and before a model is used.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use drawloom_contract::{model::ListedModel, time::Instant};
use drawloom_net::Method;
use futures::{StreamExt as _, lock::Mutex as AsyncMutex, stream};
use serde_json::json;

use crate::{
    fault::Fault,
    json::Json,
    listing::{self, Server},
    remote::{Bound, LISTING_TIME, MOST_DETAILS, MOST_LIST, Remote},
};

/// How long a run waits for what a server says of its model.
pub(crate) const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(3);

/// How long an answer is kept.
const KEPT: Duration = Duration::from_secs(300);

/// How long it is kept when a later one may say more: the server was away, or has not loaded the model yet.
const KEPT_INCOMPLETE: Duration = Duration::from_secs(20);

/// Most models of an Ollama server that are asked for one by one when all are listed, and how many at once.
const MOST_SHOWN: usize = 200;
const SHOWN_AT_ONCE: usize = 8;

/// What servers said of models.
#[derive(Default)]
pub(crate) struct Answers {
    by_model: Mutex<HashMap<String, Answer>>,
    /// Held by the one who asks, so that many runs that begin together ask once.
    asking: AsyncMutex<()>,
}

struct Answer {
    found: Option<ListedModel>,
    until: Instant,
}

impl Answers {
    pub(crate) fn find(&self, model: &str) -> Option<ListedModel> {
        self.lock().get(model)?.found.clone()
    }

    fn is_fresh(&self, model: &str, now: Instant) -> bool {
        self.lock().get(model).is_some_and(|answer| now < answer.until)
    }

    /// An answer that does not come leaves the one before as it is.
    fn keep(&self, model: &str, found: Option<ListedModel>, kept: Duration, now: Instant) {
        let mut by_model = self.lock();
        let found = found.or_else(|| by_model.remove(model)?.found);
        let until = now.after(kept);
        by_model.insert(model.to_owned(), Answer { found, until });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Answer>> {
        self.by_model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remote {
    /// Asks the server about `model`, unless it was asked lately or cannot say more than the config does.
    pub(crate) async fn look_up_model(&self, model: &str) {
        if !self.may_say_more() || self.answers.is_fresh(model, self.clock().now()) {
            return;
        }
        let _asking = self.answers.asking.lock().await;
        if self.answers.is_fresh(model, self.clock().now()) {
            return;
        }
        let (found, kept) = match self.within(LOOK_UP_TIMEOUT, self.survey(Some(model))).await {
            Some(Ok((server, models))) => {
                let found = pick(models, model);
                let has_context = found.as_ref().is_some_and(|found| found.context_tokens.is_some());
                let says_more_later = !has_context && server.loads_models();
                (found, if says_more_later { KEPT_INCOMPLETE } else { KEPT })
            }
            Some(Err(fault)) => {
                tracing::debug!(model, error = %fault.message, "the server did not describe the model");
                (None, KEPT_INCOMPLETE)
            }
            None => {
                tracing::debug!(model, "the server did not describe the model in time");
                (None, KEPT_INCOMPLETE)
            }
        };
        self.answers.keep(model, found, kept, self.clock().now());
    }

    /// Which server it is and the models that it has, with all that it says of them; of `wanted` alone, when that is enough.
    pub(crate) async fn survey(&self, wanted: Option<&str>) -> Result<(Server, Vec<ListedModel>), Fault> {
        let due = self.clock().awake().after(LISTING_TIME);
        let whole = Bound { bytes: MOST_LIST, due };
        let list = self.fetch_json(Method::Get, &self.list_url(), None, whole).await?;
        let list = Json::from(&*list);
        let mut models = listing::models(list);
        if !self.is_elsewhere() {
            return Ok((Server::Other, models));
        }
        let (base, details) = (self.server_url(), Bound { bytes: MOST_DETAILS, due });
        let mut server = Server::of(list);
        match server {
            Server::Vllm | Server::Other => {}
            Server::LlamaCpp => self.ask_llama_cpp(base, &mut models, wanted, details).await,
            Server::LmStudio => {
                // A server with one model serves it under any name.
                if let Some(wanted) = wanted.filter(|_| models.len() > 1) {
                    models.retain(|model| model.id == wanted);
                }
                for path in ["/api/v1/models", "/api/v0/models"] {
                    let own = self.fetch_json(Method::Get, &format!("{base}{path}"), None, whole).await;
                    let Some(own) = own.ok().filter(|own| listing::is_lm_studio((&**own).into())) else { continue };
                    listing::add_lm_studio(&mut models, (&*own).into());
                    break;
                }
            }
            Server::Ollama => match self.ask_ollama(base, &models, wanted, details).await {
                Some(described) => models = described,
                None => server = Server::Other,
            },
        }
        Ok((server, models))
    }

    /// One model is served, whatever the request calls it; a router serves several, and loads those that are asked about.
    async fn ask_llama_cpp(&self, base: &str, models: &mut [ListedModel], wanted: Option<&str>, bound: Bound) {
        let is_router = models.len() > 1;
        for model in models.iter_mut().filter(|model| !is_router || wanted == Some(&model.id)) {
            let query = if is_router { format!("?model={}", escaped(&model.id)) } else { String::new() };
            if let Ok(props) = self.fetch_json(Method::Get, &format!("{base}/props{query}"), None, bound).await {
                listing::add_props(model, (&*props).into());
            }
        }
    }

    /// A server without `/api/ps` is not Ollama, and is asked nothing more.
    async fn ask_ollama(
        &self,
        base: &str,
        models: &[ListedModel],
        wanted: Option<&str>,
        bound: Bound,
    ) -> Option<Vec<ListedModel>> {
        let running = self.fetch_json(Method::Get, &format!("{base}/api/ps"), None, bound).await.ok()?;
        let running = listing::running((&*running).into())?;
        let models = match wanted {
            // Ollama knows a model by shorter names than it lists.
            Some(wanted) => vec![ListedModel { id: wanted.to_owned(), ..ListedModel::default() }],
            None => models.to_vec(),
        };
        let (url, running) = (&format!("{base}/api/show"), &running);
        let described = stream::iter(models.into_iter().enumerate()).map(|(index, mut model)| async move {
            let body = json!({ "model": model.id, "verbose": false });
            if index < MOST_SHOWN
                && let Ok(show) = self.fetch_json(Method::Post, url, Some(&body), bound).await
            {
                listing::add_ollama(&mut model, (&*show).into(), running);
            }
            model
        });
        Some(described.buffered(SHOWN_AT_ONCE).collect().await)
    }
}

/// The model that a request for `name` gets: a server with one model serves it under any name.
fn pick(mut models: Vec<ListedModel>, name: &str) -> Option<ListedModel> {
    match models.iter().position(|model| model.id == name) {
        Some(at) => Some(models.swap_remove(at)),
        None if models.len() == 1 => models.pop(),
        None => None,
    }
}

/// `text` as a value in a query.
fn escaped(text: &str) -> String {
    let sign = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_does_not_come_keeps_the_one_before() {
        let at = |seconds| Instant::from_origin(Duration::from_secs(seconds));
        let found = ListedModel { id: "a".into(), context_tokens: Some(8), ..ListedModel::default() };
        let answers = Answers::default();
        answers.keep("a", Some(found.clone()), KEPT, at(0));
        assert!(answers.is_fresh("a", at(299)) && !answers.is_fresh("a", at(300)) && !answers.is_fresh("b", at(0)));
        answers.keep("a", None, KEPT_INCOMPLETE, at(300));
        assert_eq!(answers.find("a"), Some(found));
        assert!(answers.is_fresh("a", at(319)) && !answers.is_fresh("a", at(320)));
    }

    #[test]
    fn a_server_with_one_model_serves_it_under_any_name() {
        let named = |id: &str| ListedModel { id: id.into(), ..ListedModel::default() };
        assert_eq!(pick(vec![named("a")], "b"), Some(named("a")));
        assert_eq!(pick(vec![named("a"), named("b")], "b"), Some(named("b")));
        assert_eq!(pick(vec![named("a"), named("b")], "c"), None);
        assert_eq!(escaped("unsloth/Qwen 3:8b"), "unsloth/Qwen%203%3A8b");
    }
}
