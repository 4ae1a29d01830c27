//! A home full of secrets, in the places where tools keep them and in places that nobody thought of: a developer's tool finds none of
//! them, by no way, and its toolchains still work.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use drawloom_process::{End, Layer, Network, developer_paths, program_paths};

use crate::support::{Room, count, launcher};

/// Where tools are known to keep credentials, histories and private messages.
const KNOWN: &str = "
.ssh/id_ed25519 .ssh/config .gnupg/private-keys-v1.d/a.key .password-store/mail.gpg .local/share/keyrings/login.keyring
.local/share/kwalletd/kdewallet.kwl .pki/nssdb/key4.db .vault-token .netrc .authinfo .authinfo.gpg .git-credentials
.config/git/credentials .config/gh/hosts.yml .config/hub .config/glab-cli/config.yml .config/op/config .config/Bitwarden/data.json
.config/Bitwarden_CLI/data.json .config/1Password/1password.sqlite .config/keybase/config.json .config/age/keys.txt
.config/sops/age/keys.txt .aws/credentials .aws/sso/cache/a.json .azure/msal_token_cache.json .boto .s3cfg .oci/config
.config/gcloud/credentials.db .config/gcloud/application_default_credentials.json .config/doctl/config.yaml .config/rclone/rclone.conf
.config/heroku/token .config/fly/config.yml .fly/config.yml .terraform.d/credentials.tfrc.json .terraformrc .kube/config
.docker/config.json .config/containers/auth.json .npmrc .yarnrc .yarnrc.yml .pypirc .gem/credentials .cargo/credentials
.cargo/credentials.toml .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .nuget/NuGet/NuGet.Config
.composer/auth.json .config/composer/auth.json .huggingface/token .cache/huggingface/token .pgpass .my.cnf .mylogin.cnf .anthropic/key
.claude/.credentials.json .claude.json .claude/projects/p/s.jsonl .codex/auth.json .aider.conf.yml .aider/oauth-keys.env
.gemini/oauth_creds.json .cursor/mcp.json .copilot/token .config/github-copilot/hosts.json .config/opencode/opencode.json
.local/share/opencode/auth.json .config/goose/secrets.yaml .config/drawloom/drawloom.yaml .local/share/drawloom/token
.mozilla/firefox/a/logins.json .thunderbird/a/key4.db .config/google-chrome/Default/Cookies .config/chromium/Default/Cookies
.config/BraveSoftware/a .config/microsoft-edge/a .config/vivaldi/a .config/opera/a .config/Slack/storage .config/discord/Cookies
.config/Signal/config.json .var/app/a/data snap/firefox/common/a .bash_history .zsh_history .zhistory .histfile
.local/share/fish/fish_history .node_repl_history .python_history .psql_history .mysql_history .sqlite_history .rediscli_history
.lesshst .viminfo .wget-hsts .xauthABC .Xauthority .ICEauthority .bashrc .profile .env .envrc mydata/token mydata/store.db
work/other/.env work/other/src/main.rs work/other/drawloom.yaml .electrum/wallets/default_wallet .bitcoin/wallet.dat
.ethereum/keystore/a .config/solana/id.json .monero/wallet .databricks/token .config/snowflake/connections.toml .snowsql/config
.kaggle/kaggle.json .config/wandb/settings .config/vercel/auth.json .local/share/com.vercel.cli/auth.json .config/netlify/config.json
.wrangler/config/default.toml .config/stripe/config.toml .config/supabase/token .railway/config.json .pulumi/credentials.json
.ngrok2/ngrok.yml .config/ngrok/ngrok.yml .cloudflared/cert.pem .config/helm/registry/config.json .ansible/vault .vault
.bundle/config .local/share/uv/credentials/credentials.toml .config/pypoetry/auth.toml .dotnet/corefx/cryptography/x509stores/my/a.pfx
.julia/servers/a/auth.toml .hex/hex.config .config/pnpm/rc .nvm/versions/node/v20/etc/npmrc go/src/private/main.go
.config/Code/User/globalStorage/a.vscdb .vscode-server/data/token .local/share/Trash/files/key .cache/thumbnails/a Downloads/key.pem
Documents/taxes.txt .mail/inbox cfg/gh/hosts.yml kube/other.yaml dockercfg/config.json gpg/private-keys-v1.d/a.key .local/share/TelegramDesktop/a .purple/accounts.xml .config/hexchat/servlist.conf .weechat/sec.conf
";

/// Toolchains of the same home.
const TOOLCHAINS: &[&str] = &[
    ".cargo/bin/cargo",
    ".rustup/toolchains/stable/bin/rustc",
    ".nvm/versions/node/v20/bin/node",
    ".pyenv/versions/3.12/bin/python",
    ".local/bin/tool",
    ".local/share/uv/tools/ruff/bin/ruff",
    "go/bin/gopls",
    ".m2/repository/a.jar",
    "sdks/go/pkg/mod/a.go",
    ".local/bin/linked",
];

/// The same texts in every run: names that no list has.
fn names() -> impl Iterator<Item = String> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        let mut name = String::new();
        for _ in 0..6 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            name.push(char::from(b'a' + ((state >> 33) % 26) as u8));
        }
        name
    })
}

/// Every file that holds a canary.
fn canaries() -> Vec<String> {
    let known = KNOWN.split_whitespace().map(str::to_owned);
    let mut names = names();
    let mut name = || names.next().expect("there are always more");
    let unknown: Vec<String> = (0..20)
        .flat_map(|_| {
            let (one, two) = (name(), name());
            [
                format!(".{one}"),
                format!(".{one}.d/{two}"),
                format!(".config/{one}/{two}"),
                format!(".local/share/{one}/{two}"),
                format!(".cache/{one}/{two}"),
                format!("{one}/{two}"),
                format!(".cargo/{one}"),
                format!(".npm/{one}"),
                format!("go/{one}"),
            ]
        })
        .collect();
    known.chain(unknown).collect()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, text).expect("a file");
}

#[tokio::test]
async fn no_secret_of_a_home_is_found_by_any_way() {
    const CANARY: &str = "canary-7b1c90aa";
    let home = tempfile::Builder::new().prefix("home").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a home");
    let beside = tempfile::Builder::new().prefix("data").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let at = |name: &str| home.path().join(name);
    let files = canaries();
    for file in &files {
        // A name can be a directory of another one.
        if !at(file).exists() && !at(file).ancestors().skip(1).any(Path::is_file) {
            write(&at(file), CANARY);
        }
    }
    write(&beside.path().join("token"), CANARY);
    TOOLCHAINS.iter().filter(|name| !name.ends_with("linked")).for_each(|name| write(&at(name), "toolchain"));
    std::os::unix::fs::symlink(at(".ssh"), at(".local/bin/keys")).expect("a link");
    std::os::unix::fs::symlink(at(".ssh/id_ed25519"), at(".cargo/bin/key")).expect("a link");
    std::os::unix::fs::symlink(at(".ssh/id_ed25519"), at(".local/bin/key")).expect("a link");
    std::os::unix::fs::symlink(at(".netrc"), at("link-to-netrc")).expect("a link");
    let program = at("opt/tool/bin/linked");
    write(&program, "toolchain");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    std::os::unix::fs::symlink(&program, at(".local/bin/linked")).expect("a link");
    let variable = |name: &str| match name {
        "GOPATH" => Some(format!("{}:{}", at("sdks/go").display(), home.path().display())),
        // Not a toolchain, and one that contains the home.
        "XDG_CONFIG_HOME" => Some(at("cfg").display().to_string()),
        "PATH" => Some(format!("{}:/:{}", at(".local/bin").display(), home.path().display())),
        _ => None,
    };
    let readable = developer_paths(home.path(), &variable, &[]);
    let targets = files.iter().map(|file| at(file).display().to_string()).collect::<Vec<_>>().join("\n");
    // The canary is put together, so that it does not stand in what the command itself is.
    let script = format!(
        "exec 2>/dev/null; c=canary-; c=${{c}}7b1c90aa
        say() {{ echo \"FOUND $*\"; }}
        grep -rl -- \"$c\" {home} {beside} /tmp /root /home /var /run /mnt /srv /media 2>/dev/null | while read -r f; do say path $f; done
        for p in /proc/[0-9]* /proc/self /proc/thread-self; do
            for way in root/{home} cwd root/{beside} task/*/root/{home}; do
                grep -rl -- \"$c\" $p/$way 2>/dev/null | while read -r f; do say proc $f; done
            done
            for d in $p/fd/*; do case $(readlink $d) in pipe*|socket*|/dev/*|/proc/*|anon*) ;; *) \
                timeout 1 grep -ql -- \"$c\" $d 2>/dev/null && say fd $d ;; esac; done
            tr '\\0' '\\n' < $p/environ 2>/dev/null | grep -q -- \"$c\" && say environ $p
        done
        while read -r f; do
            rm -f hard soft
            ln \"$f\" hard 2>/dev/null && grep -q -- \"$c\" hard && say hard link $f
            ln -s \"$f\" soft 2>/dev/null && grep -q -- \"$c\" soft 2>/dev/null && say soft link $f
            cp \"$f\" copy 2>/dev/null && say copy $f
            cat \"$f\" > opened && say readable $f
        done < targets
        for f in ~/.cargo/bin/key ~/.local/bin/key ~/.local/bin/keys/id_ed25519 ~/link-to-netrc; do cat $f 2>/dev/null && say link $f; done
        for t in {toolchains}; do [ \"$(cat ~/$t)\" = toolchain ] || echo \"MISSING $t\"; done
        echo done",
        home = home.path().display(),
        beside = beside.path().display(),
        toolchains = TOOLCHAINS.join(" "),
    );
    for layers in [&[][..], &[Layer::Landlock], &[Layer::Namespaces], &[Layer::Seccomp]] {
        let room = Room::new();
        fs::write(room.volume.path().join("targets"), &targets).expect("a file");
        let mut command = room.command(&script);
        command.network = Network::Host;
        command.readable.clone_from(&readable);
        command.home = Some(home.path().to_owned());
        command.time_limit = Duration::from_secs(300);
        let finished = room.run_by(&launcher().without(layers), &command).await.expect("it runs");
        assert_eq!((finished.end, finished.output.into_text().as_str()), (End::Exited(0), "done\n"), "{layers:?}");
    }
    count(&format!("{} files with a canary, by 8 ways, with four sets of layers", files.len()));
}

/// The tools of this machine, as they are installed for who runs this test.
#[tokio::test]
async fn the_toolchains_of_this_machine_work() {
    let Some(home) = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute()) else { return };
    let variables: BTreeMap<String, String> = std::env::vars().collect();
    let passed = ["PATH", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "PYENV_ROOT", "NVM_DIR", "LANG"];
    let passed: BTreeMap<&str, &String> =
        passed.iter().filter_map(|name| Some((*name, variables.get(*name)?))).collect();
    let readable = developer_paths(&home, &|name| passed.get(name).map(|value| (*value).clone()), &[]);
    let steps = [
        ("git", "git init -q . && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m a"),
        ("python3", "python3 -c 'import json, ssl, sqlite3; print(1)'"),
        ("node", "node -e 'require(\"fs\").writeFileSync(\"n\", \"1\")'"),
        ("npm", "npm --version"),
        (
            "cargo",
            "mkdir -p c/src && echo 'fn main() {}' > c/src/main.rs && \
             printf '[package]\\nname = \"c\"\\nversion = \"0.1.0\"\\nedition = \"2024\"\\n[workspace]\\n' > c/Cargo.toml && \
             cd c && cargo build -q --offline && ./target/debug/c",
        ),
    ];
    let path = variables.get("PATH").cloned().unwrap_or_default();
    let (mut tried, room) = (Vec::new(), Room::new());
    for (program, script) in steps {
        let Some(found) =
            path.split(':').map(|directory| Path::new(directory).join(program)).find(|path| path.is_file())
        else {
            continue;
        };
        let mut command = room.command(script);
        command.network = Network::Host;
        command.readable.clone_from(&readable);
        command.readable.extend(program_paths(&found, &[]));
        command.environment.retain(|(name, _)| name != "PATH");
        command.environment.extend(passed.iter().map(|(name, value)| ((*name).to_owned(), (*value).clone())));
        command.home = Some(home.clone());
        command.time_limit = Duration::from_secs(300);
        let finished = room.run(&command).await.expect("it runs");
        assert_eq!(finished.end, End::Exited(0), "{program}: {}", finished.output.into_text());
        tried.push(program);
    }
    count(&format!("toolchains that work: {}", tried.join(", ")));
}
