use drawloom_contract::money::Cost;
use drawloom_testkit::TestClock;
use futures::FutureExt as _;

use super::*;

fn id(byte: u8) -> RunId {
    RunId::from_bytes([byte; 16])
}

/// Where call `call` of a run in the tree of run 1 reports.
fn progress(activities: &Arc<Activities>, run: RunId, call: Seq) -> CallProgress {
    CallProgress {
        activities: activities.clone(),
        redactor: Arc::new(Redactor::new(["hunter2-hunter2"])),
        run,
        root: id(1),
        context: None,
        call,
        last: Mutex::default(),
    }
}

fn using(tool: &str, tokens: u64) -> Activity {
    Activity { tool: tool.into(), detail: "a hunter2-hunter2".into(), tokens, cost: Some(Cost(1)) }
}

/// The tools and runs of what a watch has now.
fn taken(watch: &mut ActivityWatch) -> Vec<(RunId, String)> {
    let next = || watch.next(|_| true).now_or_never();
    std::iter::from_fn(next).map(|now| (now.run, now.activity.tool.clone())).collect()
}

#[tokio::test]
async fn a_follower_that_does_not_read_gets_only_the_newest_report() {
    let activities = Arc::<Activities>::default();
    let clock = Arc::new(TestClock::default());
    let mut watch = activities.watch(id(1), clock.clone());
    let (first, second) = (progress(&activities, id(2), 3), progress(&activities, id(3), 3));
    for number in 0..100_000 {
        first.report(using(&format!("Edit{number}"), number));
        second.report(using("Read", 1));
    }
    assert_eq!(activities.lock().values().map(|topic| topic.reports.len()).sum::<usize>(), 4, "two topics of each run");
    assert_eq!(taken(&mut watch), [(id(3), "Read".to_owned()), (id(2), "Edit99999".to_owned())]);
    // The next round comes after a pause.
    first.report(using("Bash", 5));
    assert_eq!(taken(&mut watch), []);
    let next = watch.next(|_| true).await;
    assert_eq!((next.run, next.activity.tool.as_str()), (id(2), "Bash"));
    let now = activities.of_tree(id(1));
    assert_eq!(now.iter().map(|now| &*now.activity.detail).collect::<Vec<_>>(), ["a [redacted]"; 2]);
    // A later follower gets what is done now, and one of a run that run alone.
    assert_eq!(taken(&mut activities.watch(id(1), clock.clone())).len(), 2);
    assert_eq!(taken(&mut activities.watch(id(3), clock)), [(id(3), "Read".to_owned())]);
}

#[tokio::test]
async fn nothing_is_kept_of_a_call_that_has_ended() {
    let activities = Arc::<Activities>::default();
    let mut watch = activities.watch(id(1), Arc::new(TestClock::default()));
    let call = progress(&activities, id(2), 3);
    call.report(using("Edit", 1));
    // Another context of the same call, which reports nothing.
    drop(progress(&activities, id(2), 3));
    assert_eq!(activities.of_tree(id(1)).len(), 1);
    drop(call);
    assert_eq!((taken(&mut watch), activities.of_tree(id(1))), (Vec::new(), Vec::new()));
    drop(watch);
    assert!(activities.lock().is_empty());
}
