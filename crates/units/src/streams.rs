//! Subscriptions that outlive the streams that they are made of.

use std::{sync::Arc, time::Duration};

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};

use crate::time::Clock;

/// The pause before a stream that ended is opened again; it doubles while streams end without telling anything.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A stream that goes on when `first` ends: `open` makes the next one, and then `gap` says that something may have been missed. It ends
/// when `open` returns none, because what was followed is gone.
pub fn reopened<T: Send + 'static>(
    first: BoxStream<'static, T>,
    open: impl FnMut() -> Option<BoxStream<'static, T>> + Send + 'static,
    gap: fn() -> T,
    clock: Arc<dyn Clock>,
) -> BoxStream<'static, T> {
    stream::unfold((first, open, FIRST_PAUSE), move |(mut current, mut open, pause)| {
        let clock = clock.clone();
        async move {
            if let Some(told) = current.next().await {
                return Some((told, (current, open, FIRST_PAUSE)));
            }
            clock.sleep_until(clock.now().after(pause)).await;
            let next = open()?;
            Some((gap(), (next, open, (pause * 2).min(LONGEST_PAUSE))))
        }
    })
    .boxed()
}
