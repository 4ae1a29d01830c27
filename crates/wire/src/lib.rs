//! What goes over a socket: request and response types, the error body, events, the typed client, the stdio MCP proxy.

pub mod body;
pub mod client;
pub mod error;
pub mod events;
pub mod health;
pub mod mcp;
pub mod numbers;
mod operations;
pub mod request;
pub mod upstream;
pub mod validate;
pub mod words;

/// A module per resource, with the requests about it and their answers.
macro_rules! declare_requests {
    ($($resource:ident { $($file:ident::$request:ident,)* })*) => {
        $(
            #[doc = concat!("Requests about ", stringify!($resource), ", and their answers.")]
            pub mod $resource {
                $(
                    mod $file;
                    pub use $file::*;
                )*
            }
        )*
    };
}

operations!(declare_requests);
