//! Parts of long texts: by lines, by bytes, or by what a search finds. Tools that show a text to agents and operations that show one
//! to callers use these functions, so both count alike.

mod part;
mod search;

pub use part::{Part, Place, RangeError, cut};
pub use search::{Hits, LINE, PATTERN_SIZE, PatternError, Shape, Shown, search, show};
