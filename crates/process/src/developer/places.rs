//! Where toolchains are and keep what builds need: programs, libraries, downloaded packages and caches of compilers. Places beside
//! them where the same tools keep logins are left out.

/// A place of a toolchain, in the home or where a variable says.
pub(super) struct Place {
    /// The variable that moves it; empty when there is none.
    pub(super) variable: &'static str,
    /// Where it is otherwise, relative to the home, or absolute.
    pub(super) usual: &'static str,
    /// What of it is shown, where that is not all; `*` stands for any one name.
    pub(super) parts: &'static [&'static str],
}

const fn all(variable: &'static str, usual: &'static str) -> Place {
    Place { variable, usual, parts: &[] }
}

const fn some(variable: &'static str, usual: &'static str, parts: &'static [&'static str]) -> Place {
    Place { variable, usual, parts }
}

/// What of an installation such as `~/miniconda3` is shown.
const PREFIX: &[&str] = &["bin", "sbin", "condabin", "lib", "lib64", "libexec", "include", "share", "pyvenv.cfg"];

const CONDA: &[&str] =
    &["bin", "condabin", "lib", "libexec", "include", "share", "envs", "pkgs", "etc/profile.d", "conda-meta"];

const VERSIONS: &[&str] = &["bin", "shims", "libexec", "plugins", "versions", "version", "pyenv.d", "rbenv.d"];

pub(super) const TOOLCHAINS: &[Place] = &[
    // Programs of the user.
    all("", ".local/bin"),
    all("", "bin"),
    all("", ".local/lib"),
    all("", ".local/include"),
    // Rust.
    some("CARGO_HOME", ".cargo", &["bin", "registry", "git", "env", ".crates.toml", ".crates2.json"]),
    all("RUSTUP_HOME", ".rustup"),
    all("SCCACHE_DIR", ".cache/sccache"),
    // C and C++.
    all("CCACHE_DIR", ".cache/ccache"),
    all("", ".ccache"),
    all("", ".conan2/p"),
    // Node, Bun and Deno.
    some(
        "NVM_DIR",
        ".nvm",
        &[
            "nvm.sh",
            "nvm-exec",
            "alias",
            "versions/node/*/bin",
            "versions/node/*/lib",
            "versions/node/*/include",
            "versions/node/*/share",
        ],
    ),
    some("VOLTA_HOME", ".volta", &["bin", "tools", "hooks.json"]),
    some("FNM_DIR", ".local/share/fnm", &["node-versions", "aliases"]),
    some("N_PREFIX", "n", PREFIX),
    some("", ".npm-global", PREFIX),
    all("", ".npm/_cacache"),
    all("PNPM_HOME", ".local/share/pnpm"),
    all("", ".pnpm-store"),
    all("", ".cache/pnpm"),
    some("", ".yarn", &["bin", "releases", "berry/cache", "berry/index"]),
    all("", ".cache/yarn"),
    some("BUN_INSTALL", ".bun", &["bin", "install"]),
    some("DENO_INSTALL", ".deno", &["bin"]),
    some("DENO_DIR", ".cache/deno", &["deps", "gen", "npm", "remote", "registries"]),
    all("", ".cache/node"),
    all("", ".cache/node-gyp"),
    all("", ".cache/electron"),
    all("CYPRESS_CACHE_FOLDER", ".cache/Cypress"),
    all("PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright"),
    all("PUPPETEER_CACHE_DIR", ".cache/puppeteer"),
    all("", ".cache/typescript"),
    all("", ".cache/prisma"),
    // Python.
    some("PYENV_ROOT", ".pyenv", VERSIONS),
    some("", ".local/share/uv", &["python", "tools"]),
    all("UV_CACHE_DIR", ".cache/uv"),
    all("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python"),
    all("PIP_CACHE_DIR", ".cache/pip"),
    all("PIPX_HOME", ".local/share/pipx"),
    some("", ".local/pipx", &["venvs", "shared"]),
    all("", ".local/share/pypoetry/venv"),
    all("", ".cache/pypoetry"),
    some("RYE_HOME", ".rye", &["shims", "toolchains", "tools", "self", "uv"]),
    some("PIXI_HOME", ".pixi", &["bin", "envs"]),
    all("WORKON_HOME", ".virtualenvs"),
    some("VIRTUAL_ENV", "", PREFIX),
    some("", ".conda", &["envs", "pkgs"]),
    some("CONDA_PREFIX", "miniconda3", CONDA),
    some("", "anaconda3", CONDA),
    some("", "miniforge3", CONDA),
    some("", "mambaforge", CONDA),
    some("MAMBA_ROOT_PREFIX", "micromamba", CONDA),
    all("", ".cache/pre-commit"),
    all("", ".cache/ruff"),
    // Go.
    some("GOPATH", "go", &["bin", "pkg"]),
    all("GOROOT", "sdk"),
    all("GOMODCACHE", ""),
    all("GOCACHE", ".cache/go-build"),
    all("", ".cache/golangci-lint"),
    all("", ".cache/gopls"),
    // The JVM.
    some("JAVA_HOME", "", &["bin", "lib", "conf", "include", "jmods", "legal", "release", "jre"]),
    some("SDKMAN_DIR", ".sdkman", &["bin", "candidates", "libexec"]),
    some("JENV_ROOT", ".jenv", VERSIONS),
    some("", ".m2", &["repository", "wrapper"]),
    some("GRADLE_USER_HOME", ".gradle", &["caches", "wrapper", "native", "jdks"]),
    all("", ".ivy2/cache"),
    all("", ".sbt/boot"),
    all("", ".cache/coursier"),
    all("", ".konan"),
    all("ANDROID_HOME", "Android/Sdk"),
    // Ruby and PHP.
    some("RBENV_ROOT", ".rbenv", VERSIONS),
    some("", ".rvm", &["bin", "rubies", "gems", "scripts", "environments", "wrappers", "lib"]),
    all("", ".gem/ruby"),
    all("", ".local/share/gem/ruby"),
    some("GEM_HOME", "", &["bin", "gems", "specifications", "extensions", "build_info", "cache"]),
    all("", ".bundle/cache"),
    some("COMPOSER_HOME", ".config/composer", &["vendor"]),
    some("", ".composer", &["vendor", "cache"]),
    all("", ".cache/composer"),
    // .NET.
    some(
        "DOTNET_ROOT",
        ".dotnet",
        &["dotnet", "host", "packs", "sdk", "sdk-manifests", "shared", "templates", "tools", "metadata"],
    ),
    all("NUGET_PACKAGES", ".nuget/packages"),
    // Other languages.
    some("GHCUP_INSTALL_BASE_PREFIX", ".ghcup", &["bin", "ghc", "cabal", "hls", "stack", "lib", "share"]),
    some("", ".cabal", &["bin", "packages", "store", "lib"]),
    all("", ".local/state/cabal/store"),
    some("STACK_ROOT", ".stack", &["programs", "snapshots", "pantry", "stack.sqlite3"]),
    all("OPAMROOT", ".opam"),
    some("ELAN_HOME", ".elan", &["bin", "toolchains", "settings.toml", "env"]),
    all("", ".juliaup"),
    some("JULIA_DEPOT_PATH", ".julia", &["artifacts", "compiled", "environments", "juliaup", "packages", "registries"]),
    some("MIX_HOME", ".mix", &["archives", "elixir", "escripts"]),
    some("HEX_HOME", ".hex", &["packages", "cache.ets"]),
    some("PUB_CACHE", ".pub-cache", &["bin", "git", "global_packages", "hosted"]),
    some("SWIFTLY_HOME_DIR", ".local/share/swiftly", &["bin", "toolchains"]),
    all("", ".cache/zig"),
    some("", ".luarocks", &["bin", "lib", "share"]),
    some("", "perl5", &["bin", "lib", "perlbrew"]),
    all("FLUTTER_ROOT", "flutter"),
    some("", "google-cloud-sdk", &["bin", "data", "lib", "platform"]),
    // Managers of versions and packages.
    some("ASDF_DATA_DIR", ".asdf", &["asdf.sh", "bin", "installs", "lib", "plugins", "shims"]),
    some("MISE_DATA_DIR", ".local/share/mise", &["bin", "installs", "plugins", "shims"]),
    some("PROTO_HOME", ".proto", &["bin", "shims", "tools"]),
    some("HOMEBREW_PREFIX", "/home/linuxbrew/.linuxbrew", &["Cellar", "bin", "include", "lib", "opt", "sbin", "share"]),
    some("", ".linuxbrew", &["Cellar", "bin", "include", "lib", "opt", "sbin", "share"]),
    all("", ".nix-profile"),
    all("", ".local/state/nix/profiles"),
    all("", ".cache/bazelisk"),
    some("", ".terraform.d", &["plugin-cache", "plugins"]),
    // Coding CLIs that install themselves into the home.
    all("", ".local/share/claude"),
    all("", ".claude/local"),
    all("", ".opencode/bin"),
];

/// Settings of tools without credentials.
pub(super) const SETTINGS: &[&str] = &[
    ".editorconfig",
    ".tool-versions",
    ".nvmrc",
    ".node-version",
    ".python-version",
    ".ruby-version",
    ".rustfmt.toml",
    "rustfmt.toml",
    ".clippy.toml",
    ".clang-format",
    ".config/rustfmt",
    ".config/git/ignore",
    ".config/git/attributes",
    ".gitignore",
    ".gitignore_global",
    ".gitattributes",
    ".hgignore",
];

/// Settings of tools that can hold credentials: each is shown when nothing in it looks like one.
pub(super) const CHECKED_SETTINGS: &[(&str, &str, &str)] = &[
    ("CARGO_HOME", ".cargo", "config.toml"),
    ("CARGO_HOME", ".cargo", "config"),
    ("", "", ".gitconfig"),
    ("XDG_CONFIG_HOME", ".config", "git/config"),
    ("XDG_CONFIG_HOME", ".config", "go/env"),
    ("XDG_CONFIG_HOME", ".config", "uv/uv.toml"),
    ("XDG_CONFIG_HOME", ".config", "pip/pip.conf"),
    ("XDG_CONFIG_HOME", ".config", "mise/config.toml"),
    ("", "", ".pip/pip.conf"),
    ("", "", ".condarc"),
    ("", "", ".bunfig.toml"),
    ("", "", ".gemrc"),
];
