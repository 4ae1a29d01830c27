//! Web pages are not callers: what a browser sends for somebody else's page is refused.

use std::net::IpAddr;

use axum::http::{HeaderMap, header};
use drawloom_contract::failure::{Failure, FailureKind};

/// Refuses a request that a browser made for another site's page. An open server also wants a loopback `Host`: a page
/// whose name was pointed at 127.0.0.1 has its own.
pub(crate) fn check_origin(open: bool, headers: &HeaderMap) -> Result<(), Failure> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    if open && headers.contains_key(header::HOST) && !host.is_some_and(|host| is_loopback(name_of(host))) {
        let host = host.unwrap_or("(not text)");
        return Err(Failure::new(
            FailureKind::Denied,
            "host_denied",
            format!("this server has no token, so it answers only to a loopback name, not to {host}"),
        )
        .with_hint("use 127.0.0.1 or localhost, or configure a token"));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let site = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, site)| site);
    if site.is_some_and(|site| Some(site) == host || is_loopback(name_of(site))) {
        return Ok(());
    }
    let origin = String::from_utf8_lossy(origin.as_bytes());
    Err(Failure::new(FailureKind::Denied, "origin_denied", format!("web pages of {origin} may not call this server"))
        .with_hint("call it from a program, or from a page on the same host"))
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    }
}

fn is_loopback(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(open: bool, host: &str, origin: Option<&str>) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a header"));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().expect("a header"));
        }
        check_origin(open, &headers).err().map(|failure| failure.code)
    }

    #[test]
    fn a_page_of_another_site_is_refused() {
        for (open, host, origin, wanted) in [
            (true, "127.0.0.1:8787", None, None),
            (true, "localhost:8787", Some("http://localhost:3000"), None),
            (true, "[::1]:8787", Some("http://[::1]:8787"), None),
            (true, "LOCALHOST", None, None),
            (true, "evil.example:8787", None, Some("host_denied")),
            (true, "evil.example:8787", Some("http://evil.example:8787"), Some("host_denied")),
            (true, "127.0.0.1:8787", Some("https://evil.example"), Some("origin_denied")),
            (true, "127.0.0.1:8787", Some("null"), Some("origin_denied")),
            (true, "127.0.0.1.evil.example", None, Some("host_denied")),
            (false, "loom.example", Some("https://loom.example"), None),
            (false, "loom.example", None, None),
            (false, "loom.example", Some("https://evil.example"), Some("origin_denied")),
        ] {
            assert_eq!(check(open, host, origin), wanted, "open {open}, host {host}, origin {origin:?}");
        }
    }
}
