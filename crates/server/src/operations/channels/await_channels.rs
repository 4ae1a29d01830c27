//! `await_channels`: waits for messages of several channels.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
};
use drawloom_substrate::channels::{Looked, Subscribe, check_names, rules};
use drawloom_wire::channels::{self, Awaited};
use serde_json::{Map, json};

use crate::{
    channels::{Meant, Waiting, answer, meant_in_all, reader, subscribe},
    memory::failure,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct AwaitChannels;

impl Operation for AwaitChannels {
    type Input = channels::AwaitChannels;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Wait for messages of several channels.", Scope::ChannelRead)
            .toolset("channels")
            .advice("Nothing is taken: pass next_cursor of each channel to ack_channel when its messages are handled.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Awaited>, Failure> {
        check_names(&input.channels).map_err(failure)?;
        let mode = input.mode.unwrap_or_default();
        let needed = rules::needed(mode, input.n, input.channels.len()).map_err(failure)?;
        let cursors = input.from_cursors.clone().unwrap_or_default();
        if let Some(other) = cursors.keys().find(|name| !input.channels.contains(name)) {
            let message = format!("from_cursors has {other:?}, which is not in channels");
            return Err(Failure::new(FailureKind::Invalid, "wrong_fields", message));
        }
        let meant = meant_in_all(call, &input.channels, &input)?;
        // A queue takes no consumer; when all are queues, the first one refuses it.
        let are_queues = !meant.iter().any(|meant| meant.channel.has_consumers());
        let mut warnings: Vec<String> = meant.iter().flat_map(|meant| meant.warnings.clone()).collect();
        warnings.dedup();
        let waiting = Waiting::begin(call, input.wait_ms);
        let channels = &call.app.channels;
        let mut listener = (waiting.effective.ms > 0).then(|| channels.listen(meant.iter().map(|meant| &meant.place)));
        loop {
            let (mut results, mut fired, mut total) = (Map::new(), Vec::new(), 0);
            // All channels share the bytes of one answer.
            let mut bytes = None;
            for Meant { place, caller, .. } in &meant {
                // It may have been deleted during the wait.
                let channel = channels.load_again(place).map_err(failure)?;
                let consumer = input.consumer.clone().filter(|_| channel.has_consumers() || are_queues);
                let usual = subscribe(call, cursors.get(&channel.name), input.max_messages)?;
                let left: &mut u64 = bytes.get_or_insert(usual.bytes);
                let ask = Subscribe { consumer, bytes: *left, ..usual };
                let by = reader::<Self::Input>(caller);
                let looked: Looked = channels.look(&channel, place, &ask, &by).await.map_err(failure)?;
                total += looked.page.messages.len();
                if !looked.page.messages.is_empty() {
                    fired.push(channel.name.clone());
                }
                let shown = looked.shown(&channel);
                *left = left.saturating_sub(shown.to_string().len() as u64);
                results.insert(channel.name.clone(), shown);
            }
            let is_satisfied = fired.len() >= needed;
            let goes_on = match &mut listener {
                Some(listener) if !is_satisfied => waiting.next(call, listener, None).await,
                _ => false,
            };
            if !goes_on {
                let awaited = json!({
                    "satisfied": is_satisfied,
                    "timed_out": !is_satisfied,
                    "mode": mode,
                    "fired": fired,
                    "total_messages": total,
                    "results": results,
                });
                return answer(awaited, warnings, Some(&waiting.effective));
            }
        }
    }
}
