use std::{sync::mpsc, time::Duration};

use super::*;

#[tokio::test]
async fn work_learns_that_its_caller_stopped_waiting() {
    let ((began, has_begun), (ended, has_ended)) = (tokio::sync::oneshot::channel(), mpsc::channel());
    let work = tokio::spawn(until_dropped(move |stop| {
        began.send(()).expect("a listener");
        while !stop.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        ended.send(()).expect("a listener");
    }));
    has_begun.await.expect("it begins");
    work.abort();
    assert!(work.await.expect_err("it was dropped").is_cancelled());
    has_ended.recv_timeout(Duration::from_secs(60)).expect("it ends");
}

#[test]
fn a_file_of_any_size_is_left_when_the_caller_stops_waiting() {
    let stop = AtomicBool::new(false);
    let mut endless = Stoppable { file: io::repeat(b'x'), stop: &stop };
    let mut buffer = [0; 16];
    assert_eq!(io::Read::read(&mut endless, &mut buffer).expect("bytes"), 16);
    stop.store(true, Ordering::Relaxed);
    io::copy(&mut endless, &mut io::sink()).expect_err("it ends at once");
}
