//! Web pages are not callers: what a browser sends for somebody else's page is refused.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, header};
use drawloom_contract::failure::{Failure, FailureKind};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What may be in `Sec-Fetch-Site`: a person typed the address, or a page of this very server asks. Programs send none.
const SITES: [&str; 2] = ["none", "same-origin"];

/// Refuses a request that a browser made for another site's page. An open server also wants a loopback `Host`: a page
/// whose name was pointed at 127.0.0.1 has its own.
pub(crate) fn check_origin(open: bool, headers: &HeaderMap) -> Result<(), Failure> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    if open && headers.contains_key(header::HOST) && !host.is_some_and(|host| is_loopback(name_of(host))) {
        let host = host.unwrap_or("(not text)");
        return Err(Failure::new(
            FailureKind::Denied,
            "host_denied",
            format!("this server has no token and accepts only loopback host names, not {host}"),
        )
        .with_hint("use 127.0.0.1 or localhost, or configure a token"));
    }
    let denied = |page: &str| {
        let message = format!("requests from web pages of {page} are not allowed");
        let failure = Failure::new(FailureKind::Denied, "origin_denied", message);
        Err(failure.with_hint("call the API from a program, or from a page on the same host and port"))
    };
    for site in headers.get_all(SEC_FETCH_SITE) {
        if !SITES.iter().any(|known| site == known) {
            return denied("another site");
        }
    }
    for origin in headers.get_all(header::ORIGIN) {
        let site = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, site)| site);
        let is_own = |site: &str| {
            let of_loopback = |host: &str| is_loopback(name_of(host)) && is_loopback(name_of(site));
            host.is_some_and(|host| site == host || (of_loopback(host) && port_of(site) == port_of(host)))
        };
        if !site.is_some_and(is_own) {
            return denied(&String::from_utf8_lossy(origin.as_bytes()));
        }
    }
    Ok(())
}

/// Refuses a body that a browser can send for a page without asking first. Programs such as curl, which say nothing of a
/// page, may send any type.
pub(crate) fn check_content_type(headers: &HeaderMap) -> Result<(), Failure> {
    let has_body = headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0")
        || headers.contains_key(header::TRANSFER_ENCODING);
    let is_of_page = [header::ORIGIN, header::REFERER, SEC_FETCH_SITE].iter().any(|name| headers.contains_key(name));
    if !has_body || !is_of_page {
        return Ok(());
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("(none)");
    let essence = kind.split(';').next().unwrap_or_default().trim();
    match essence.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            let message = format!("a web page sent a body of type {kind}");
            let failure = Failure::new(FailureKind::Invalid, "content_type_denied", message);
            Err(failure.with_hint("send Content-Type: application/json"))
        }
    }
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    }
}

/// The port of a host, when it names one.
fn port_of(host: &str) -> Option<&str> {
    host.rsplit_once(':').map(|(_, port)| port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
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
            (true, "localhost:8787", Some("http://localhost:8787"), None),
            (true, "localhost:8787", Some("http://127.0.0.1:8787"), None),
            (true, "localhost:8787", Some("http://localhost:3000"), Some("origin_denied")),
            (true, "localhost:8787", Some("http://localhost"), Some("origin_denied")),
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
