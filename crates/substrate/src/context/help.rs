//! The topics of `Context` with op=help. A new topic is a file and a line.

macro_rules! topics {
    ($($name:literal),*) => {
        /// Each topic with its text.
        pub(super) const TOPICS: &[(&str, &str)] = &[$(($name, include_str!(concat!("help/", $name, ".md"))),)*];
    };
}

topics! { "overview", "tools", "agents", "files", "network", "limits", "memory", "channels", "artifacts", "evaluations" }
