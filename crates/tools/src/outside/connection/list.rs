//! Asking a server for its tools.

use std::{ops::RangeInclusive, time::Duration};

use rmcp::{
    model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult},
    service::ServiceError,
};
use serde_json::Value;

use super::{Connection, LONGEST_QUOTE, is_session_lost};
use crate::outside::{
    offer::{List, Listed},
    page, quote,
};

/// Most pages of a list of tools.
pub(in crate::outside) const MOST_PAGES: usize = 100;

/// Most tools that are looked at.
pub(in crate::outside) const MOST_LISTED: usize = 10_000;

/// How much of a list of tools is kept, in bytes of text.
pub(in crate::outside) const MOST_KEPT: usize = 4 * 1024 * 1024;

/// How long a list of tools is good for when its server neither says that nor when it changes.
const USUALLY_GOOD: Duration = Duration::from_secs(60);

/// How long it is good for at least and at most, whatever the server says.
const GOOD: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

impl Connection {
    /// Whether the server says when its tools change: over HTTP there may be no listener, and the newer protocol wants to be asked.
    fn says_changes(&self) -> bool {
        let is_older = self.service.peer().peer_info().is_none_or(|info| info.protocol_version.has_initialize());
        is_older && !self.is_remote()
    }

    /// The tools that it says it has, as far as anybody looks.
    pub(in crate::outside) async fn list(&self) -> Result<List, NoList> {
        let mut list = self.pages().await?;
        if !self.says_changes() {
            list.good_for.get_or_insert(USUALLY_GOOD);
        }
        Ok(list)
    }

    async fn pages(&self) -> Result<List, NoList> {
        let (mut list, mut kept, mut cursor) = (List::default(), 0, None::<String>);
        for _ in 0..MOST_PAGES {
            let page = self.page(cursor.take()).await?;
            cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            if let Some(ttl) = page.get("ttlMs").and_then(Value::as_u64) {
                let ttl = Duration::from_millis(ttl).clamp(*GOOD.start(), *GOOD.end());
                list.good_for = Some(list.good_for.map_or(ttl, |earlier| earlier.min(ttl)));
            }
            // Before anything of it is cut.
            let page = self.end.redactor.clean(page).into_inner();
            let Some(tools) = page::tools(&page) else {
                return Err(NoList::of("its response to tools/list has no list of tools"));
            };
            for tool in tools.map(Listed::read) {
                kept += tool.length();
                if kept > MOST_KEPT || list.listed.len() == MOST_LISTED {
                    return Ok(list);
                }
                list.listed.push(tool);
            }
            if cursor.is_none() {
                list.is_whole = true;
                return Ok(list);
            }
        }
        Ok(list)
    }

    /// One page of the list, as JSON.
    async fn page(&self, cursor: Option<String>) -> Result<Value, NoList> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let asked = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let quoted = |text: &str| NoList::of(quote(&self.end.redactor, text, LONGEST_QUOTE));
        match self.ask(asked).await.0 {
            Ok(ServerResult::ListToolsResult(page)) => Ok(serde_json::to_value(page).unwrap_or_default()),
            Ok(ServerResult::CustomResult(page)) => Ok(page.0),
            Ok(_) => Err(NoList::of("unexpected response to tools/list")),
            Err(ServiceError::TransportClosed) => Err(NoList::of(self.why().await)),
            Err(ServiceError::McpError(error)) => Err(quoted(&format!("tools/list failed: {}", error.message))),
            Err(error) => Err(NoList { is_session_lost: is_session_lost(&error), ..quoted(&error.to_string()) }),
        }
    }
}

/// Why there is no list of tools.
pub(in crate::outside) struct NoList {
    pub(in crate::outside) why: String,
    /// Whether the server does not know the session any more.
    pub(in crate::outside) is_session_lost: bool,
}

impl NoList {
    pub(in crate::outside) fn of(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_session_lost: false }
    }
}
