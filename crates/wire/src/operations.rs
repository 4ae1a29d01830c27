//! Every operation and where REST has it. The server's cards are checked against this table, and `call` uses it.

use drawloom_net::Method;

/// One way to reach an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The operation.
    pub name: &'static str,
    /// Its method.
    pub method: Method,
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// Whether the same request again changes nothing more.
    pub repeatable: bool,
}

const fn get(name: &'static str, path: &'static str) -> Route {
    Route { name, method: Method::Get, path, repeatable: true }
}

const fn post(name: &'static str, path: &'static str) -> Route {
    Route { name, method: Method::Post, path, repeatable: false }
}

/// A change that can be asked for again.
const fn settle(name: &'static str, path: &'static str) -> Route {
    Route { repeatable: true, ..post(name, path) }
}

/// All of them. Where an operation has several, the first is ours and the others are the reference's spelling.
pub static ROUTES: &[Route] = &[
    post("spawn_run", "/v1/runs"),
    post("spawn_runs", "/v1/runs:batch"),
    get("get_run", "/v1/runs/{run_id}"),
    get("get_run", "/v1/agents/{agent_id}"),
    get("list_runs", "/v1/runs"),
    get("list_runs", "/v1/users/{user_id}/agents"),
    get("follow_run", "/v1/runs/{run_id}/events"),
    get("follow_run", "/v1/runs/{run_id}/stream"),
    settle("cancel_run", "/v1/runs/{run_id}/cancel"),
    settle("cancel_run", "/v1/agents/{agent_id}/cancel"),
    get("get_batch", "/v1/batches/{batch_id}"),
    settle("cancel_batch", "/v1/batches/{batch_id}/cancel"),
    get("read_artifact", "/v1/runs/{run_id}/artifact"),
    get("list_agents", "/v1/agents"),
    get("list_models", "/v1/_models"),
    get("list_models", "/v1/models"),
    get("replay_run", "/v1/runs/{run_id}/replay"),
    settle("prune_runs", "/v1/runs:prune"),
    get("get_load", "/v1/_concurrency/stats"),
    get("whoami", "/v1/_me"),
];

/// The names of all operations, each once, in order of the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    ROUTES
        .iter()
        .enumerate()
        .filter(|(at, route)| ROUTES[..*at].iter().all(|before| before.name != route.name))
        .map(|(_, route)| route.name)
}

/// The parameters of a path, in order.
pub fn parameters(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}
