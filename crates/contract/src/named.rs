//! Enums whose variants have names in JSON, in the store or in config.

/// An enum whose names are given once: for serde, for `as_str` and for the list that names are read back with.
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $name:ident { $($(#[$each:meta])* $variant:ident = $text:literal,)+ }
    ) => {
        $(#[$about])*
        pub enum $name { $($(#[$each])* #[serde(rename = $text)] $variant,)+ }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name on the wire and in the store.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

pub(crate) use named;
