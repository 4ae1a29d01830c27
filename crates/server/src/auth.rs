//! Who calls: open loopback, the shared token, or a principal's own token.

mod identity;
mod instance;
mod origin;

use std::{collections::BTreeSet, net::SocketAddr};

use axum::http::{HeaderMap, header};
use drawloom_contract::{
    caller::{Caller, Proof, Scope},
    failure::{Explain, Failure, FailureKind},
    ids::{Digest, Tenant, UserId},
};

pub(crate) use identity::on_behalf;
pub(crate) use instance::check_instance;
pub(crate) use origin::{check_content_type, check_origin};

use crate::config::PrincipalConfig;

/// The principals that may see runs, but only their own, while there are other users in their tenant.
pub fn see_only_their_own<'a>(
    principals: impl Iterator<Item = (&'a String, &'a PrincipalConfig)> + Clone,
    has_shared_token: bool,
) -> Vec<&'a str> {
    let narrow = principals.clone().filter(|(_, principal)| {
        let PrincipalConfig { tenant, subject, scopes, .. } = principal;
        let proof = Proof::Principal;
        let caller = Caller { tenant: tenant.clone(), subject: subject.clone(), scopes: scopes.clone(), proof };
        let is_narrow = caller.visible().owner().is_some();
        // Who has the shared token speaks for any user.
        let has_others = (has_shared_token && *tenant == Tenant::default_tenant())
            || principals.clone().any(|(_, other)| other.tenant == *tenant && other.subject != *subject);
        is_narrow && has_others && (caller.may(Scope::RunsRead) || caller.may(Scope::RunsCreate))
    });
    narrow.map(|(name, _)| name.as_str()).collect()
}

/// Minimum number of characters of a token: 128 random bits in base64.
const TOKEN_LENGTH: usize = 22;

/// Minimum number of different characters of a token: an ordinary word or setting has fewer.
const TOKEN_DIFFERENT: usize = 8;

/// A command that prints a token.
pub const MAKE_TOKEN: &str = "openssl rand -hex 32";

/// Refuses a token that can be guessed, from whatever variable it comes.
pub fn check_token(whose: &str, token: &str) -> Result<(), AuthError> {
    let whose = || whose.to_owned();
    let length = token.chars().count();
    let different = token.chars().collect::<BTreeSet<_>>().len();
    match length {
        0 => Err(AuthError::EmptyToken { whose: whose() }),
        _ if length < TOKEN_LENGTH || different < TOKEN_DIFFERENT => {
            Err(AuthError::WeakToken { whose: whose(), length, different })
        }
        _ => Ok(()),
    }
}

/// Why the server may not start like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Anybody on the network could do anything.
    #[error("no token is configured and {listen} is not a loopback address")]
    OpenToTheNetwork {
        /// Where it should listen.
        listen: SocketAddr,
    },
    /// A token with nothing in it.
    #[error("the token of {whose} is empty")]
    EmptyToken {
        /// Whose.
        whose: String,
    },
    /// A token that can be guessed.
    #[error(
        "the token of {whose} is too weak: {length} characters, {different} of them different; a token needs at least \
         {TOKEN_LENGTH} characters, {TOKEN_DIFFERENT} of them different"
    )]
    WeakToken {
        /// Whose.
        whose: String,
        /// How many characters it has.
        length: usize,
        /// How many different ones.
        different: usize,
    },
    /// One token for two.
    #[error("{first} and {second} have the same token")]
    SameToken {
        /// The one.
        first: String,
        /// The other.
        second: String,
    },
}

impl Explain for AuthError {
    fn kind(&self) -> FailureKind {
        FailureKind::Invalid
    }

    fn code(&self) -> &'static str {
        match self {
            Self::OpenToTheNetwork { .. } => "open_to_the_network",
            Self::EmptyToken { .. } => "empty_token",
            Self::WeakToken { .. } => "weak_token",
            Self::SameToken { .. } => "same_token",
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::OpenToTheNetwork { .. } => {
                "set DRAWLOOM_TOKEN (or auth.token_env, or principals), or listen on 127.0.0.1".into()
            }
            Self::EmptyToken { .. } => {
                format!("set its environment variable to a random text ({MAKE_TOKEN}), or unset it")
            }
            Self::WeakToken { .. } => format!("make one with: {MAKE_TOKEN}"),
            Self::SameToken { .. } => "use a different token for each".into(),
        })
    }
}

/// A principal and their token, read from the environment by the binary.
pub struct PrincipalToken {
    /// Their name in config.
    pub name: String,
    /// What config says of them.
    pub config: PrincipalConfig,
    /// Their token. It is kept only as a hash.
    pub token: String,
}

/// Who may call. Tokens are kept as SHA-256 and compared in constant time.
pub struct Auth {
    open: bool,
    tokens: Vec<(Digest, Caller)>,
}

impl Auth {
    /// Who may call a server at `listen`. No tokens at all mean open, on loopback only. `shared` are tokens of the operator, who
    /// may do everything, with their names.
    pub fn new(
        listen: SocketAddr,
        shared: &[(&str, &str)],
        principals: Vec<PrincipalToken>,
    ) -> Result<Self, AuthError> {
        let open = shared.is_empty() && principals.is_empty();
        if open && !listen.ip().is_loopback() {
            return Err(AuthError::OpenToTheNetwork { listen });
        }
        let mut named: Vec<(String, Digest)> = Vec::new();
        let mut tokens = Vec::new();
        let shared = shared
            .iter()
            .map(|(name, token)| ((*name).to_owned(), (*token).to_owned(), Caller::open(Proof::SharedToken)));
        let principals = principals.into_iter().map(|principal| {
            let PrincipalConfig { tenant, subject, scopes, .. } = principal.config;
            let caller = Caller { tenant, subject, scopes, proof: Proof::Principal };
            (format!("principal {}", principal.name), principal.token, caller)
        });
        for (whose, token, caller) in shared.chain(principals) {
            check_token(&whose, &token)?;
            let digest = Digest::of(token.as_bytes());
            if let Some((first, _)) = named.iter().find(|(_, known)| *known == digest) {
                return Err(AuthError::SameToken { first: first.clone(), second: whose });
            }
            named.push((whose, digest));
            tokens.push((digest, caller));
        }
        Ok(Self { open, tokens })
    }

    /// Whether anybody on this machine may call.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The caller that a kept session belongs to. Of several tokens for the same subject it is the one that sees least.
    pub(crate) fn caller(&self, tenant: Tenant, subject: UserId) -> Caller {
        if self.open {
            return Caller { tenant, subject, ..Caller::open(Proof::Open) };
        }
        let callers = self.tokens.iter().map(|(_, caller)| caller);
        let known = callers.filter(|caller| caller.tenant == tenant && caller.subject == subject);
        let narrowest = known.max_by_key(|caller| caller.visible().owner().is_some());
        narrowest.cloned().unwrap_or(Caller { tenant, subject, scopes: Vec::new(), proof: Proof::Principal })
    }

    /// Who sent a request with these headers. An open server looks at no token.
    pub(crate) fn identify(&self, headers: &HeaderMap) -> Result<Caller, Failure> {
        if self.open {
            return Ok(Caller::open(Proof::Open));
        }
        let refuse = |code, message: &str| {
            Failure::new(FailureKind::Unauthenticated, code, message)
                .with_hint("send Authorization: Bearer TOKEN; the CLI takes it from DRAWLOOM_TOKEN")
        };
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return Err(refuse("no_token", "a token is required"));
        };
        let token = value.to_str().ok().and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let Some(token) = token else {
            return Err(refuse("bad_authorization", "invalid Authorization header: expected Bearer TOKEN"));
        };
        let digest = Digest::of(token.as_bytes());
        // Every token is compared, whole, whichever it is.
        let mut found = None;
        for (known, caller) in &self.tokens {
            let differs = known.as_bytes().iter().zip(digest.as_bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
            if differs == 0 {
                found = Some(caller);
            }
        }
        found.cloned().ok_or_else(|| refuse("unknown_token", "token rejected"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRONG: &str = "0123456789abcdef0123456789abcdef";

    fn principal(name: &str, token: &str) -> PrincipalToken {
        let config = PrincipalConfig {
            tenant: "acme".parse().expect("a tenant"),
            subject: "ann".parse().expect("a user"),
            scopes: Vec::new(),
            token_env: "X".into(),
        };
        PrincipalToken { name: name.into(), config, token: token.into() }
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_server_without_tokens_listens_on_loopback_only() {
        let refused = Auth::new(address("0.0.0.0:1"), &[], Vec::new()).err();
        assert_eq!(refused, Some(AuthError::OpenToTheNetwork { listen: address("0.0.0.0:1") }));
        assert!(Auth::new(address("127.0.0.1:1"), &[], Vec::new()).is_ok_and(|auth| auth.is_open()));
        assert!(Auth::new(address("[::1]:1"), &[], Vec::new()).is_ok());
        assert!(Auth::new(address("0.0.0.0:1"), &[("one", STRONG)], Vec::new()).is_ok_and(|auth| !auth.is_open()));
        assert!(Auth::new(address("0.0.0.0:1"), &[], vec![principal("p", STRONG)]).is_ok_and(|auth| !auth.is_open()));
    }

    #[test]
    fn an_empty_token_and_a_token_of_two_are_refused() {
        let local = address("127.0.0.1:1");
        assert!(matches!(Auth::new(local, &[("one", "")], Vec::new()), Err(AuthError::EmptyToken { .. })));
        let two = vec![principal("a", STRONG), principal("b", STRONG)];
        assert!(matches!(Auth::new(local, &[], two), Err(AuthError::SameToken { .. })));
    }

    #[test]
    fn a_token_that_can_be_guessed_is_refused() {
        let local = address("127.0.0.1:1");
        for (token, length, different) in [("C.UTF-8", 7, 7), (&"ab".repeat(40), 80, 2), (&STRONG[..21], 21, 16)] {
            let weak = |whose: &str| Some(AuthError::WeakToken { whose: whose.into(), length, different });
            assert_eq!(Auth::new(local, &[("one", token)], Vec::new()).err(), weak("one"), "{token}");
            assert_eq!(Auth::new(local, &[], vec![principal("p", token)]).err(), weak("principal p"), "{token}");
        }
        let weak = AuthError::WeakToken { whose: "one".into(), length: 7, different: 7 };
        assert_eq!(weak.hint().as_deref(), Some("make one with: openssl rand -hex 32"));
        assert!(!weak.to_string().contains("C.UTF-8"));
    }

    #[test]
    fn a_token_says_who_calls() {
        let [shared, other, own] = ["shared", "other", "own"].map(|name| format!("{name}-{STRONG}"));
        let tokens = [("one", shared.as_str()), ("two", other.as_str())];
        let auth = Auth::new(address("127.0.0.1:1"), &tokens, vec![principal("p", &own)]).expect("it is fine");
        let ask = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("a header"));
            auth.identify(&headers)
        };
        assert_eq!(ask(&format!("Bearer {shared}")).map(|caller| caller.proof), Ok(Proof::SharedToken));
        assert_eq!(ask(&format!("Bearer {other}")).map(|caller| caller.proof), Ok(Proof::SharedToken));
        assert_eq!(ask(&format!("bearer {own}")).map(|caller| caller.tenant.to_string()), Ok("acme".into()));
        for (value, code) in
            [("Bearer nope", "unknown_token"), ("Basic own", "bad_authorization"), ("own", "bad_authorization")]
        {
            assert_eq!(ask(value).map_err(|failure| failure.code).err(), Some(code), "{value}");
        }
        assert_eq!(auth.identify(&HeaderMap::new()).map_err(|failure| failure.code).err(), Some("no_token"));
    }
}
