//! The machine's clocks and the machine's chance.

use std::{
    convert::Infallible,
    sync::{LazyLock, Mutex, Once, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use rustix::{
    io::{Errno, read},
    time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
        timerfd_settime,
    },
};
use tokio::sync::Notify;

use drawloom_contract::time::{Awake, Clock, Entropy, Instant, NoEntropy, Timestamp};

/// The longest single sleep: after it the clock is read again, because tokio's timers stand still while the machine sleeps.
/// Where `watch` runs, waits are looked at as soon as the machine wakes.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Told when the machine woke up, or its wall clock was set.
static CHANGED: Notify = Notify::const_new();

/// The machine's clocks: the wall clock, CLOCK_BOOTTIME for waits and CLOCK_MONOTONIC for limits on what runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
    fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn now(&self) -> Instant {
        Instant::from_origin(since_boot(ClockId::Boottime))
    }

    fn boot(&self) -> u32 {
        static BOOT: LazyLock<u32> = LazyLock::new(|| {
            let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            u32::from_str_radix(id.get(..8).unwrap_or_default(), 16).unwrap_or_default()
        });
        *BOOT
    }

    async fn sleep_until(&self, time: Instant) {
        loop {
            let changed = CHANGED.notified();
            let left = time.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left.min(LONGEST_SLEEP)) => {}
                () = changed => {}
            }
        }
    }

    fn awake(&self) -> Awake {
        Awake::from_origin(since_boot(ClockId::Monotonic))
    }

    async fn sleep_awake_until(&self, time: Awake) {
        loop {
            let left = time.since(self.awake());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

fn since_boot(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

/// Sees to it that waits end in time when the machine wakes from sleep, with one thread for the whole process that blocks in
/// the kernel until then. The kernel cancels a timer on the wall clock whenever that clock changes by a step, and a wake-up is
/// one.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let watching = || {
            let Err(error) = watch_changes();
            tracing::warn!(%error, "the kernel does not report wake-ups; waits may end up to 30 s late after one");
        };
        let thread = std::thread::Builder::new().name("clock".into()).spawn(watching);
        if let Err(error) = thread {
            tracing::warn!(%error, "no thread for the clock; waits may end up to 30 s late after a wake-up");
        }
    });
}

fn watch_changes() -> Result<Infallible, Errno> {
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?;
    let never = Timespec { tv_sec: i64::MAX / 1_000_000_000 - 1, tv_nsec: 0 };
    let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: never };
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    loop {
        timerfd_settime(&timer, flags, &spec)?;
        match read(&timer, &mut [0; 8]) {
            Err(Errno::CANCELED) | Ok(_) => CHANGED.notify_waiters(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The operating system's random bytes, fetched some at a time: an id needs few, and each fetch is a system call.
#[derive(Debug, Default)]
pub struct SystemEntropy(Mutex<Vec<u8>>);

/// Bytes fetched at once.
const FETCH: usize = 2048;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in bytes {
            if held.is_empty() {
                let mut fetched = vec![0; FETCH];
                getrandom::fill(&mut fetched).map_err(|error| NoEntropy { reason: error.to_string() })?;
                *held = fetched;
            }
            // Each byte is given out once.
            *byte = held.pop().expect("just filled");
        }
        Ok(())
    }

    /// Asks the operating system: what is held here says nothing about what others will get.
    fn check(&self) -> Result<(), NoEntropy> {
        getrandom::fill(&mut [0]).map_err(|error| NoEntropy { reason: error.to_string() })
    }
}
