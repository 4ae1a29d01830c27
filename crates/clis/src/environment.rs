//! What a CLI sees of the operator's environment: a list of names, never all of it.

use std::{borrow::Cow, collections::BTreeMap};

use drawloom_contract::definition::matches;

use crate::{config::ClisConfig, error::Error, known::Clis};

/// How many coding CLIs that drawloom started are around a process.
pub const DEPTH: &str = "DRAWLOOM_DEPTH";

/// The deepest nesting of coding CLIs.
pub const DEEPEST: u32 = 3;

/// Where programs are looked for when the operator's environment does not say.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Variables of the operator that every CLI gets: names, or beginnings with a `*`. Variables of a session of a coding CLI, such as
/// `CLAUDECODE`, are not among them: a CLI would take itself for a part of that session.
const PASSED: &[&str] = &[
    "PATH",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "NVM_BIN",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "PNPM_HOME",
    "BUN_INSTALL",
    "NIX_PATH",
    "LD_LIBRARY_PATH",
    "PKG_CONFIG_PATH",
];

/// Variables that name proxies: programs of drawloom get all of them, without logins.
pub const PROXIES: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "GOPROXY",
];

/// Keeps git and ssh from asking a person, and editors from opening.
const NO_QUESTIONS: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
    ("SSH_ASKPASS", "true"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("GIT_PAGER", "cat"),
    ("PAGER", "cat"),
];

/// Who commits in an isolated checkout, unless the CLI says so itself.
const IDENTITY: &[(&str, &str)] = &[
    ("GIT_AUTHOR_NAME", "Drawloom worker"),
    ("GIT_AUTHOR_EMAIL", "worker@drawloom.invalid"),
    ("GIT_COMMITTER_NAME", "Drawloom worker"),
    ("GIT_COMMITTER_EMAIL", "worker@drawloom.invalid"),
];

/// Whether commits are made under a name of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// In an isolated checkout.
    Ours,
    /// In the user's own repository.
    Users,
}

/// The names, or beginnings with a `*`, of the variables that a CLI may get its login from; their values are secrets.
pub fn login_variables(config: &ClisConfig) -> Vec<String> {
    let known = Clis::new(config);
    let of = known.all().flat_map(|cli| {
        let own = cli.preset().variables().iter().map(|name| (*name).to_owned());
        own.chain(cli.config.env.iter().cloned())
    });
    let mut names: Vec<String> = of.collect();
    names.sort();
    names.dedup();
    names
}

/// The environment of a CLI whose own variables match `names`.
pub(crate) fn of(
    operator: &BTreeMap<String, String>,
    names: &[&str],
    identity: Identity,
) -> Result<BTreeMap<String, String>, Error> {
    let depth = operator.get(DEPTH).and_then(|depth| depth.parse::<u32>().ok()).unwrap_or(0) + 1;
    if depth > DEEPEST {
        return Err(Error::TooDeep { depth, most: DEEPEST });
    }
    let is_passed = |name: &str| PASSED.iter().chain(PROXIES).chain(names).any(|pattern| matches(pattern, name));
    let mut environment: BTreeMap<String, String> = operator
        .iter()
        .filter(|(name, _)| is_passed(name))
        .map(|(name, value)| match names.iter().any(|pattern| matches(pattern, name)) {
            true => (name.clone(), value.clone()),
            false => (name.clone(), without_login(name, value).into_owned()),
        })
        .collect();
    environment.entry("PATH".into()).or_insert_with(|| USUAL_PATH.into());
    environment.entry("LANG".into()).or_insert_with(|| "C.UTF-8".into());
    let fixed = NO_QUESTIONS.iter().chain(if identity == Identity::Ours { IDENTITY } else { &[] });
    environment.extend(fixed.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    environment.insert(DEPTH.into(), depth.to_string());
    Ok(environment)
}

/// The value of a variable without the users and passwords of the proxies that it names. Programs get those only when the operator lists
/// the variable.
pub fn without_login<'a>(name: &str, value: &'a str) -> Cow<'a, str> {
    let name = name.to_ascii_lowercase();
    if !name.ends_with("proxy") || name == "no_proxy" || !value.contains('@') {
        return Cow::Borrowed(value);
    }
    // GOPROXY is a list.
    let separators = if name == "goproxy" { &[',', '|'][..] } else { &[][..] };
    let plain = value.split_inclusive(separators).map(|url| match url.rsplit_once('@') {
        // A password may contain any character, so all before the last sign belongs to the login.
        Some((before, host)) => {
            format!("{}{host}", before.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://")))
        }
        None => url.to_owned(),
    });
    Cow::Owned(plain.collect())
}

/// The variables of the operator that name a proxy with a login, which programs do not get.
pub fn proxies_with_login<'a>(operator: impl Iterator<Item = (&'a str, &'a str)>, listed: &[String]) -> Vec<String> {
    let hidden = operator.filter(|(name, value)| without_login(name, value) != *value);
    hidden
        .filter(|(name, _)| !listed.iter().any(|pattern| matches(pattern, name)))
        .map(|(name, _)| name.into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_proxy_variable_is_passed_without_its_login_and_reported() {
        for name in PROXIES.iter().filter(|name| !name.eq_ignore_ascii_case("no_proxy")) {
            let operator = operator(&[(name, "http://ann:secret@proxy:1")]);
            assert_eq!(of(&operator, &[], Identity::Ours).expect("not nested")[*name], "http://proxy:1", "{name}");
            let reported =
                proxies_with_login(operator.iter().map(|(name, value)| (name.as_str(), value.as_str())), &[]);
            assert_eq!(reported, [*name]);
        }
    }

    #[test]
    fn logins_of_proxies_reach_a_cli_only_when_their_variable_is_listed() {
        for (name, value, plain) in [
            ("HTTPS_PROXY", "http://ann:p@ss:w/rd@proxy.example:3128/", "http://proxy.example:3128/"),
            ("http_proxy", "ann:secret@proxy:8080", "proxy:8080"),
            ("ALL_PROXY", "socks5h://ann@proxy", "socks5h://proxy"),
            (
                "GOPROXY",
                "https://u:p@one.example,https://two.example|direct",
                "https://one.example,https://two.example|direct",
            ),
            ("NO_PROXY", "a@b", "a@b"),
            ("https_proxy", "http://proxy:1", "http://proxy:1"),
        ] {
            assert_eq!(without_login(name, value), plain, "{name}");
            let operator = operator(&[(name, value)]);
            assert_eq!(
                of(&operator, &[], Identity::Ours).expect("not nested").get(name).map_or(plain, |value| value),
                plain
            );
            assert_eq!(of(&operator, &[name], Identity::Ours).expect("not nested")[name], value, "{name} is listed");
            let told = proxies_with_login(operator.iter().map(|(name, value)| (name.as_str(), value.as_str())), &[]);
            assert_eq!(told.len(), usize::from(plain != value), "{name}");
            let all = [name.to_owned()];
            let told = proxies_with_login(operator.iter().map(|(name, value)| (name.as_str(), value.as_str())), &all);
            assert!(told.is_empty(), "{name}");
        }
    }

    fn operator(more: &[(&str, &str)]) -> BTreeMap<String, String> {
        let some = [
            ("PATH", "/opt/bin"),
            ("CLAUDECODE", "1"),
            ("CLAUDE_CODE_ENTRYPOINT", "cli"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
        ];
        some.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_listed_variables_are_passed_and_nobody_is_asked() {
        let operator = operator(&[("ANTHROPIC_API_KEY", "k"), ("SSH_AUTH_SOCK", "/run/x"), ("DRAWLOOM_TOKEN", "t")]);
        let environment = of(&operator, &["ANTHROPIC_*"], Identity::Users).expect("not nested");
        let fixed = |name: &str| NO_QUESTIONS.iter().any(|(fixed, _)| *fixed == name);
        let names: Vec<&str> = environment.keys().map(String::as_str).filter(|name| !fixed(name)).collect();
        assert_eq!(names, ["ANTHROPIC_API_KEY", "DRAWLOOM_DEPTH", "LANG", "PATH"]);
        assert_eq!((environment["PATH"].as_str(), environment[DEPTH].as_str()), ("/opt/bin", "1"));
        assert_eq!(environment["GIT_TERMINAL_PROMPT"], "0");
        let ours = of(&operator, &[], Identity::Ours).expect("not nested");
        assert_eq!(ours["GIT_AUTHOR_NAME"], "Drawloom worker");
        assert!(!ours.contains_key("ANTHROPIC_API_KEY"));
    }

    /// Variables that hold a credential or lead to one, as shells of developers have them.
    const CREDENTIALS: &str = "KUBECONFIG DOCKER_CONFIG DOCKER_HOST GNUPGHOME SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO \
        AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_PROFILE AWS_SHARED_CREDENTIALS_FILE AWS_CONFIG_FILE \
        GOOGLE_APPLICATION_CREDENTIALS CLOUDSDK_CONFIG AZURE_CLIENT_SECRET AZURE_CONFIG_DIR GITHUB_TOKEN GH_TOKEN GITLAB_TOKEN NPM_TOKEN \
        NODE_AUTH_TOKEN CARGO_REGISTRY_TOKEN PYPI_TOKEN TWINE_PASSWORD PGPASSWORD PGPASSFILE MYSQL_PWD DATABASE_URL REDIS_URL VAULT_TOKEN \
        VAULT_ADDR OP_SESSION_my HF_TOKEN SLACK_TOKEN STRIPE_API_KEY TF_TOKEN_app NETRC CURL_HOME XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS \
        DISPLAY XAUTHORITY WAYLAND_DISPLAY DRAWLOOM_TOKEN DRAWLOOM_URL DRAWLOOM_DATA_DIR HISTFILE LESSHISTFILE SECRET_THING FOO";

    #[test]
    fn no_cli_gets_variables_that_lead_to_credentials_of_others() {
        let variables: Vec<(&str, &str)> = CREDENTIALS.split_whitespace().map(|name| (name, "x")).collect();
        let operator = operator(&variables);
        let known = Clis::new(&ClisConfig::default());
        for cli in known.all() {
            let environment = of(&operator, cli.preset().variables(), Identity::Users).expect("not nested");
            let leaked: Vec<&String> = environment.keys().filter(|name| CREDENTIALS.contains(name.as_str())).collect();
            assert_eq!(leaked, Vec::<&String>::new(), "{}", cli.name);
        }
    }

    #[test]
    fn nesting_ends_at_a_limit() {
        assert_eq!(of(&operator(&[(DEPTH, "2")]), &[], Identity::Users).expect("not too deep")[DEPTH], "3");
        let refused = of(&operator(&[(DEPTH, "3")]), &[], Identity::Users).expect_err("too deep");
        assert_eq!(refused.to_string(), "coding CLIs are nested 4 deep; the limit is 3");
    }
}
